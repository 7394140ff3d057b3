"""Which plugins of a profile run at which extension points.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/runtime/framework.go`, `apis/config/v1/default_plugins.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dra_api.errors import FieldError

AVAILABLE: Final = (
    "SchedulingGates",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeResourcesBalancedAllocation",
)
"""The plugins that exist here, in upstream's order."""
_UPSTREAM_ONLY: Final = (
    "PrioritySort",
    "DefaultBinder",
    "GangScheduling",
    "ImageLocality",
    "NodeDeclaredFeatures",
    "NodeVolumeLimits",
    "DeferredPodScheduling",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
_SWITCHABLE: Final = ("multiPoint", "preEnqueue", "filter", "postFilter", "score")
_TYPES: Final = {
    **{
        point: f"{point[0].upper()}{point[1:]}Plugin"
        for point in (
            "preFilter",
            "filter",
            "postFilter",
            "reserve",
            "preScore",
            "score",
            "preBind",
            "bind",
            "postBind",
            "permit",
            "preEnqueue",
            "queueSort",
        )
    },
    "multiPoint": "PreFilterPlugin",
}


def unknown_plugin(profile: Mapping[str, Any]) -> str:
    """What kube-scheduler ends with when a profile enables a plugin that nobody knows; empty if none."""
    for point, kind in _TYPES.items():
        for plugin in _entries(profile, point, "enabled"):
            if plugin["name"] not in (*AVAILABLE, *_UPSTREAM_ONLY):
                name = profile["schedulerName"]
                return (
                    f"initializing profiles: creating profile for scheduler name {name}: "
                    f'{kind} "{plugin["name"]}" does not exist'
                )
    return ""


def unsupported_switches(path: str, profile: Mapping[str, Any]) -> Iterator[FieldError]:
    """Plugins that cannot be switched off here at the point where that is asked for."""
    for point in profile.get("plugins") or {}:
        if point not in _SWITCHABLE and _entries(profile, point, "disabled"):
            text = f"an embedded scheduler can disable plugins at {', '.join(_SWITCHABLE)} only"
            yield FieldError("Forbidden", f"{path}.plugins.{point}.disabled", text)


def disabled(profile: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Extension points with the plugins that do not run there; multiPoint means all of them."""
    return frozenset((point, name) for point in _SWITCHABLE for name in _disabled_at(profile, point))


def weights(profile: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Weights of scores that the profile sets."""
    return tuple(
        (plugin["name"], plugin["weight"])
        for point in ("multiPoint", "score")
        for plugin in _entries(profile, point, "enabled")
        if plugin.get("weight")
    )


def _disabled_at(profile: Mapping[str, Any], point: str) -> set[str]:
    off = {plugin["name"] for plugin in _entries(profile, point, "disabled")}
    on = {plugin["name"] for plugin in _entries(profile, point, "enabled")}
    # Enabled and disabled at once is how a plugin is given other settings.
    return (set(AVAILABLE) if "*" in off else off) - on


def _entries(profile: Mapping[str, Any], point: str, list_name: str) -> list[Mapping[str, Any]]:
    return list(((profile.get("plugins") or {}).get(point) or {}).get(list_name) or ())
