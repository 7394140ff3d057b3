"""The specs of Pods in manifests, also in what makes Pods; and the specs of claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drakit.offline.linting.reading import Manifest

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}


def pod_spec(manifest: Manifest) -> tuple[str, Mapping[str, Any]] | None:
    """Path and content of the Pod spec in an object; None where there is none."""
    keys = _TEMPLATES.get(manifest.kind)
    if keys is None:
        return None
    value: Any = manifest.decoded
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return (".".join(keys), value) if isinstance(value, dict) else None


def claim_spec(manifest: Manifest) -> tuple[str, Mapping[str, Any]] | None:
    """Path and content, in v1, of the claim spec in a claim or template."""
    if manifest.canonical is None or manifest.kind not in ("ResourceClaim", "ResourceClaimTemplate"):
        return None
    spec = manifest.canonical.get("spec") or {}
    if manifest.kind == "ResourceClaim":
        return "spec", spec
    return "spec.spec", spec.get("spec") or {}


def requests(manifest: Manifest) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and content of each request, or each alternative of one, of a claim or template."""
    found = claim_spec(manifest)
    if found is None:
        return
    path, spec = found
    flat = str(manifest.object.get("apiVersion", "")).endswith("/v1beta1")
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        place = f"{path}.devices.requests[{index}]"
        if request.get("exactly") is not None:
            yield place if flat else f"{place}.exactly", request["exactly"]
        for number, choice in enumerate(request.get("firstAvailable") or ()):
            yield f"{place}.firstAvailable[{number}]", choice
