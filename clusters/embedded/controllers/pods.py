"""Pods as the workload controllers see them: states, owners, indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer

_ORPHANS: Final = "orphans of "


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the controller."""
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            found: Mapping[str, Any] = owner
            return found
    return None


def controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner` is the controller of the object."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == owner["metadata"]["uid"]


def cached_controller(owners: Informer, obj: Mapping[str, Any] | None, kind: str) -> Object | None:
    """The controller of an object if it is of this kind and in the cache."""
    reference = controller_of(obj) if obj is not None else None
    if obj is None or reference is None or reference["kind"] != kind:
        return None
    found = owners.get(str(obj["metadata"]["namespace"]), str(reference["name"]))
    return found if found is not None and found["metadata"]["uid"] == reference["uid"] else None


def controller_ref(owner: Mapping[str, Any]) -> Object:
    """An owner reference to the controlling object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels, perhaps none."""
    found: Mapping[str, str] = obj.get("metadata", {}).get("labels") or {}
    return found


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations, perhaps none."""
    found: Mapping[str, str] = obj.get("metadata", {}).get("annotations") or {}
    return found


def is_deleted(obj: Mapping[str, Any]) -> bool:
    """Whether deletion was asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def phase_of(pod: Mapping[str, Any]) -> str:
    """The phase; empty before anybody set it."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Whether all containers have ended for good."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Mapping[str, Any]) -> bool:
    """Neither ended nor being deleted."""
    return not is_terminal(pod) and not is_deleted(pod)


def is_terminating(pod: Mapping[str, Any]) -> bool:
    """Being deleted, and not ended yet."""
    return not is_terminal(pod) and is_deleted(pod)


def pod_condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A condition of the Pod."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == kind:
            found: Mapping[str, Any] = condition
            return found
    return None


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the Ready condition is true."""
    condition = pod_condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Mapping[str, Any]) -> float | None:
    """When a ready Pod became ready, seconds since the epoch; None when it is not ready or nobody said when."""
    condition = pod_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True" or not condition.get("lastTransitionTime"):
        return None
    return parse_stamp(condition["lastTransitionTime"])


def is_available(pod: Mapping[str, Any], min_ready_seconds: int, now: float) -> bool:
    """Whether a Pod has been ready for long enough."""
    if not is_ready(pod):
        return False
    if not min_ready_seconds:
        return True
    since = ready_since(pod)
    return since is not None and since + min_ready_seconds <= now


def next_availability(pods: Iterable[Mapping[str, Any]], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next of the ready Pods becomes available; None when there is none to wait for."""
    waits = [
        since + min_ready_seconds - now
        for since in map(ready_since, pods)
        if since is not None and since + min_ready_seconds > now
    ]
    return min(waits, default=None) if min_ready_seconds else None


def created_at(obj: Mapping[str, Any]) -> float:
    """When the object was created, seconds since the epoch."""
    return parse_stamp(obj["metadata"]["creationTimestamp"])


def namespace_terminating(error: ClientError) -> bool:
    """Whether a creation failed because the namespace goes away."""
    causes = ((error.body.get("details") or {}).get("causes")) or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def index_by_controller(informer: Informer) -> None:
    """Index objects by the uid of their controller; those without one by their namespace."""

    def keys(obj: Object) -> list[str]:
        owner = controller_of(obj)
        if owner is None:
            return [_ORPHANS + str(obj["metadata"].get("namespace", ""))]
        return [str(owner["uid"])]

    informer.index("controller", keys)


def owned(informer: Informer, owner: Mapping[str, Any]) -> list[Object]:
    """The objects under an owner's control, in the order of their names."""
    return _sorted(informer.by_index("controller", str(owner["metadata"]["uid"])))


def owned_or_orphaned(informer: Informer, owner: Mapping[str, Any]) -> list[Object]:
    """The objects under an owner's control and those of its namespace without controller."""
    orphans = informer.by_index("controller", _ORPHANS + str(owner["metadata"].get("namespace", "")))
    return owned(informer, owner) + _sorted(orphans)


def _sorted(objects: list[Object]) -> list[Object]:
    return sorted(objects, key=lambda obj: str(obj["metadata"]["name"]))
