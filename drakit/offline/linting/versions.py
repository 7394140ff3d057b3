"""Which Kubernetes serves which version of resource.k8s.io."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from dra_api.conversion import GROUP
from drakit.offline.linting.model import Finding, Target

# API version -> Kubernetes minor that has it first, that deprecates it, that has it no more.
_FOUR: Final = {
    "v1": ("1.34", "", ""),
    "v1beta2": ("1.33", "1.36", "1.39"),
    "v1beta1": ("1.32", "1.35", "1.38"),
}
_LIVES: Final[Mapping[str, Mapping[str, tuple[str, str, str]]]] = {
    "ResourceClaim": _FOUR,
    "ResourceClaimTemplate": _FOUR,
    "DeviceClass": _FOUR,
    "ResourceSlice": _FOUR,
    "DeviceTaintRule": {
        "v1": ("1.37", "", ""),
        "v1beta2": ("1.36", "", ""),
        "v1alpha3": ("1.33", "1.36", "1.39"),
    },
    "ResourcePoolStatusRequest": {"v1alpha3": ("1.36", "", "")},
}
_Make = Callable[[str, str, str, str], Finding]


def version_findings(make: _Make, api_version: str, kind: str, target: Target) -> Iterator[Finding]:
    """What is to be said about the version of an object; `make` makes a finding of rule, path, text and remedy."""
    group, _, version = api_version.rpartition("/")
    life = _LIVES.get(kind, {}).get(version) if group == GROUP else None
    if life is None:
        return
    first, deprecated, gone = life
    best = _best(kind, target.version)
    remedy = f"write {GROUP}/{best}" if best and best != version else ""
    if _minor(first) > _minor(target.version):
        text = f"{api_version} has {kind} since Kubernetes {first}, and the target is {target.version}"
        yield make("api-version-missing", "apiVersion", text, remedy)
        return
    if gone and _minor(gone) <= _minor(target.version):  # pragma: no cover - no known target is that new
        yield make(
            "api-version-missing", "apiVersion", f"{api_version} is gone since Kubernetes {gone}", remedy
        )
        return
    if version != "v1" and best != version:
        old = f", deprecated since {deprecated} and gone in {gone}" if deprecated else ""
        text = f"{api_version} is served only with --runtime-config={api_version}=true{old}"
        yield make("api-version", "apiVersion", text, remedy)


def _best(kind: str, target: str) -> str:
    """The most stable version that the target has."""
    return next((name for name, life in _LIVES[kind].items() if _minor(life[0]) <= _minor(target)), "")


def _minor(version: str) -> int:
    return int(version.partition(".")[2])
