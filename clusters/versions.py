"""What Kubernetes versions serve: API versions of the groups around DRA, and services between kubelet and plugin.

Source: `pkg/controlplane/instance.go` of kubernetes v1.37.2 and v1.36.3, the lifecycle files of k8s.io/api
v0.37.2 and v0.36.6, `pkg/apis` of k8s.io/kubelet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clusters.gates import VERSIONS

_CORE: Final = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")


@dataclass(frozen=True)
class ApiVersion:
    """A group version in one Kubernetes version: whether it is served without `--runtime-config`, and its kinds."""

    default: bool
    kinds: tuple[str, ...]


def _since(kinds: Mapping[str, str], *, default: bool) -> dict[str, ApiVersion]:
    """By Kubernetes version; `kinds` give the first that has them."""
    result = {}
    for number, version in enumerate(VERSIONS):
        there = tuple(kind for kind, first in kinds.items() if VERSIONS.index(first) <= number)
        if there:
            result[version] = ApiVersion(default, there)
    return result


_OLDEST: Final = VERSIONS[0]
API_VERSIONS: Final[Mapping[str, Mapping[str, ApiVersion]]] = {
    "resource.k8s.io/v1": _since(
        {**dict.fromkeys(_CORE, _OLDEST), "DeviceTaintRule": "1.37"},
        default=True,
    ),
    "resource.k8s.io/v1beta2": _since(
        {**dict.fromkeys(_CORE, _OLDEST), "DeviceTaintRule": "1.36"}, default=False
    ),
    "resource.k8s.io/v1beta1": _since(dict.fromkeys(_CORE, _OLDEST), default=False),
    "resource.k8s.io/v1alpha3": _since(
        {"DeviceTaintRule": _OLDEST, "ResourcePoolStatusRequest": "1.36"}, default=False
    ),
    "scheduling.k8s.io/v1alpha2": {"1.36": ApiVersion(False, ("PodGroup", "Workload"))},
    "scheduling.k8s.io/v1alpha3": {"1.37": ApiVersion(False, ("PodGroup", "Workload"))},
    "scheduling.k8s.io/v1beta1": {"1.37": ApiVersion(False, ("PodGroup", "Workload"))},
}
"""Group version to Kubernetes version to what is served there; PriorityClass of scheduling.k8s.io/v1 aside."""

PLUGIN_SERVICES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "registration": dict.fromkeys(VERSIONS, ("v1",)),
    "DRAPlugin": dict.fromkeys(VERSIONS, ("v1", "v1beta1")),
    "DRAResourceHealth": {**dict.fromkeys(VERSIONS, ("v1alpha1",)), "1.37": ("v1", "v1alpha1")},
    "PodResourcesLister": dict.fromkeys(VERSIONS, ("v1",)),
}
"""Services of the kubelet's sockets to Kubernetes version to their versions, the preferred one first."""


def served(version: str, runtime_config: Mapping[str, bool] | None = None) -> frozenset[str]:
    """The group versions around DRA that a Kubernetes version serves with a runtime config."""
    chosen = runtime_config or {}
    everything = chosen.get("api/all")

    def on(group_version: str, there: ApiVersion) -> bool:
        stage = (
            "api/alpha" if "alpha" in group_version else "api/beta" if "beta" in group_version else "api/ga"
        )
        for key in (group_version, stage):
            if key in chosen:
                return chosen[key]
        return there.default if everything is None else everything

    return frozenset(
        group_version
        for group_version, history in API_VERSIONS.items()
        if version in history and on(group_version, history[version])
    )
