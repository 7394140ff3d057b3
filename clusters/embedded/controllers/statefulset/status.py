"""The status of a StatefulSet. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.controller import without_zeros
from clusters.embedded.controllers.pods import is_available, is_deleted, is_ready, phase_of
from clusters.embedded.controllers.statefulset.identity import revision_of

_ALWAYS_WRITTEN: Final = ("replicas", "availableReplicas", "collisionCount")
_COMPARED: Final = (
    "replicas",
    "currentReplicas",
    "readyReplicas",
    "updatedReplicas",
    "currentRevision",
    "availableReplicas",
    "updateRevision",
)


def exists(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod is in the API server already."""
    return bool(pod["metadata"].get("uid"))


def is_running_and_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod's successors may be made."""
    return phase_of(pod) == "Running" and is_ready(pod)


def numbers(
    found: Mapping[str, Any], pods: Iterable[Object], current: str, update: str, now: float
) -> dict[str, int]:
    """The numbers of replicas; `current` and `update` are names of revisions."""
    seconds = int(found["spec"].get("minReadySeconds", 0))
    there = [pod for pod in pods if exists(pod)]
    ready = [pod for pod in there if is_running_and_ready(pod)]
    staying = [revision_of(pod) for pod in there if not is_deleted(pod)]
    return {
        "replicas": len(there),
        "readyReplicas": len(ready),
        "availableReplicas": sum(is_available(pod, seconds, now) for pod in ready),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
    }


def complete(found: Mapping[str, Any], status: Object) -> None:
    """When all replicas are of the update revision it becomes the current one, in place."""
    replicas = int(found["spec"]["replicas"])
    if all(status[field] == replicas for field in ("updatedReplicas", "readyReplicas", "replicas")):
        status["currentReplicas"] = status["updatedReplicas"]
        status["currentRevision"] = status["updateRevision"]


def differs(before: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether a status has to be written."""
    if status["observedGeneration"] > before.get("observedGeneration", 0):
        return True
    return any((before.get(field) or 0) != (status.get(field) or 0) for field in _COMPARED)


def tidy(status: Mapping[str, Any]) -> Object:
    """A status in the form in which it is stored."""
    return without_zeros(dict(status), _ALWAYS_WRITTEN)
