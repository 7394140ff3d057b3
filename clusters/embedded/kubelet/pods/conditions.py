"""The conditions of a Pod that a kubelet owns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime

READY_TO_START: Final = "PodReadyToStartContainers"
OWNED: Final = (
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodResizeInProgress",
    "PodResizePending",
    READY_TO_START,
    "AllContainersRestarting",
)
"""Types that nobody else writes."""


def find(conditions: Sequence[Object], kind: str) -> Object | None:
    """The condition of a type."""
    return next((condition for condition in conditions if condition["type"] == kind), None)


def _condition(pod: Object, kind: str, status: str, reason: str = "", message: str = "") -> Object:
    result: Object = {"type": kind, "status": status}
    if generation := pod["metadata"].get("generation"):
        result["observedGeneration"] = generation
    if reason:
        result["reason"] = reason
    if message:
        result["message"] = message
    return result


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


def owned_conditions(
    pod: Object, runtime: PodRuntime, init: Sequence[Object], regular: Sequence[Object], phase: str
) -> list[Object]:
    """All conditions of the kubelet, in its order; `init` and `regular` are container statuses."""
    statuses = {status["name"]: status for status in (*init, *regular)}
    containers_ready = _containers_ready(pod, statuses, phase)
    return [
        _ready_to_start(pod, runtime),
        _initialized(pod, statuses, phase),
        _ready(pod, containers_ready),
        containers_ready,
        _condition(pod, "PodScheduled", "True"),
    ]


def with_ready_sandbox(pod: Object, status: Object) -> Object:
    """A copy of a status that says that the containers of the Pod may start."""
    known = list(status.get("conditions") or [])
    ready = _condition(pod, READY_TO_START, "True")
    found = next((index for index, each in enumerate(known) if each["type"] == READY_TO_START), len(known))
    return {**status, "conditions": [*known[:found], ready, *known[found + 1 :]]}


def _ready_to_start(pod: Object, runtime: PodRuntime) -> Object:
    need = runtime.sandbox_need(pod)
    if need.needed:
        return _condition(pod, READY_TO_START, "False", "PodSandboxNotReady", need.reason)
    return _condition(pod, READY_TO_START, "True")


def _initialized(pod: Object, statuses: dict[str, Object], phase: str) -> Object:
    unknown, incomplete = [], []
    for container in objects.init_containers(pod):
        status = statuses.get(container["name"])
        if status is None:
            unknown.append(container["name"])
        elif not status.get("started" if objects.is_sidecar(container) else "ready"):
            incomplete.append(container["name"])
    if phase == "Succeeded" and not unknown:
        return _condition(pod, "Initialized", "True", "PodCompleted")
    regular = [statuses.get(container["name"]) for container in objects.containers(pod)]
    if any(status and not status["state"].keys().isdisjoint(("running", "terminated")) for status in regular):
        return _condition(pod, "Initialized", "True")
    texts = []
    if unknown:
        texts.append(f"containers with unknown status: {_listed(unknown)}")
    if incomplete:
        texts.append(f"containers with incomplete status: {_listed(incomplete)}")
    if texts:
        return _condition(pod, "Initialized", "False", "ContainersNotInitialized", ", ".join(texts))
    return _condition(pod, "Initialized", "True")


def _containers_ready(pod: Object, statuses: dict[str, Object], phase: str) -> Object:
    unknown, unready = [], []
    waited_for = [item for item in objects.init_containers(pod) if objects.is_sidecar(item)]
    for container in (*waited_for, *objects.containers(pod)):
        status = statuses.get(container["name"])
        if status is None:
            unknown.append(container["name"])
        elif not status.get("ready"):
            unready.append(container["name"])
    if phase == "Failed" or (phase == "Succeeded" and not unknown):
        return terminal_condition(pod, "ContainersReady", phase)
    texts = []
    if unknown:
        texts.append(f"containers with unknown status: {_listed(unknown)}")
    if unready:
        texts.append(f"containers with unready status: {_listed(unready)}")
    if texts:
        return _condition(pod, "ContainersReady", "False", "ContainersNotReady", ", ".join(texts))
    return _condition(pod, "ContainersReady", "True")


def terminal_condition(pod: Object, kind: str, phase: str) -> Object:
    """Ready or ContainersReady of a Pod in a terminal phase."""
    return _condition(pod, kind, "False", "PodFailed" if phase == "Failed" else "PodCompleted")


def _ready(pod: Object, containers_ready: Object) -> Object:
    if containers_ready["status"] != "True":
        return {**containers_ready, "type": "Ready"}
    texts = []
    conditions = objects.status(pod).get("conditions") or []
    for gate in pod["spec"].get("readinessGates") or []:
        kind = gate["conditionType"]
        condition = find(conditions, kind)
        if condition is None:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition["status"] != "True":
            texts.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {condition["status"]}'
            )
    if texts:
        return _condition(pod, "Ready", "False", "ReadinessGatesNotReady", ", ".join(texts))
    return _condition(pod, "Ready", "True")


def readiness_outdated(pod: Object) -> bool:
    """Whether a readiness gate changed so that the Ready condition has to follow."""
    if not pod["spec"].get("readinessGates"):
        return False
    conditions = objects.status(pod).get("conditions") or []
    containers_ready = find(conditions, "ContainersReady")
    if containers_ready is None:
        return False
    wanted = _ready(pod, {key: containers_ready[key] for key in ("type", "status")})
    found = find(conditions, "Ready")
    return (
        found is None
        or found["status"] != wanted["status"]
        or (wanted["status"] == "False" and found.get("message", "") != wanted.get("message", ""))
    )
