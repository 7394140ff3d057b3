"""Which events an update of a pod or node amounts to.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/events.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .events import Action, ClusterEvent, Object, Resource
from .requests import running_requests


def pod_changes(new: Object, old: Object, *, is_target: bool) -> list[ClusterEvent]:
    """Events of a pod's update; `is_target`: the pod itself waits. Never empty."""
    if new["spec"].get("nodeName"):
        resource = Resource.ASSIGNED_POD
    else:
        resource = Resource.TARGET_POD if is_target else Resource.UNSCHEDULED_POD
    found = [action for action, changed in _POD_CHANGES if changed(new, old)]
    return [ClusterEvent(resource, action) for action in found or [Action.UPDATE]]


def node_changes(new: Object, old: Object) -> list[ClusterEvent]:
    """Events of a node's update; empty when nothing matters for scheduling."""
    return [ClusterEvent(Resource.NODE, action) for action, changed in _NODE_CHANGES if changed(new, old)]


def _part(obj: Object, *path: str) -> Any:
    value: Any = obj
    for name in path:
        value = (value or {}).get(name)
    return value or None


def _differs(*path: str) -> Callable[[Object, Object], bool]:
    return lambda new, old: _part(new, *path) != _part(old, *path)


def _scaled_down(new: Object, old: Object) -> bool:
    after, before = running_requests(new), running_requests(old)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def _scaled_up(new: Object, old: Object) -> bool:
    return _scaled_down(old, new)


def _gates_eliminated(new: Object, old: Object) -> bool:
    return not _part(new, "spec", "schedulingGates") and bool(_part(old, "spec", "schedulingGates"))


def _tolerations_added(new: Object, old: Object) -> bool:
    return len(_part(new, "spec", "tolerations") or ()) != len(_part(old, "spec", "tolerations") or ())


def _generated_claims(new: Object, old: Object) -> bool:
    names = ("resourceClaimStatuses", "extendedResourceClaimStatus")
    return any(_part(new, "status", name) != _part(old, "status", name) for name in names)


def _made_schedulable(new: Object, old: Object) -> bool:
    return bool(_part(old, "spec", "unschedulable")) and not _part(new, "spec", "unschedulable")


def _conditions(node: Object) -> Mapping[str, str]:
    conditions = _part(node, "status", "conditions") or ()
    return {condition["type"]: condition["status"] for condition in conditions}


_POD_CHANGES: Final = (
    (Action.POD_LABEL, _differs("metadata", "labels")),
    (Action.POD_SCALE_DOWN, _scaled_down),
    (Action.POD_SCALE_UP, _scaled_up),
    (Action.POD_GATES_ELIMINATED, _gates_eliminated),
    (Action.POD_TOLERATION, _tolerations_added),
    (Action.POD_GENERATED_CLAIM, _generated_claims),
)
_NODE_CHANGES: Final = (
    (Action.NODE_TAINT, _made_schedulable),
    (Action.NODE_ALLOCATABLE, _differs("status", "allocatable")),
    (Action.NODE_LABEL, _differs("metadata", "labels")),
    (Action.NODE_TAINT, _differs("spec", "taints")),
    (Action.NODE_CONDITION, lambda new, old: _conditions(new) != _conditions(old)),
    (Action.NODE_ANNOTATION, _differs("metadata", "annotations")),
    (Action.NODE_DECLARED_FEATURE, _differs("status", "declaredFeatures")),
)
