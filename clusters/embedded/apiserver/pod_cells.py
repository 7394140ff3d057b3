"""The cells of a pod's table row (api-machinery section 18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.times import parse

_NONE: Final = "<none>"
_FINISHED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class _Tally:
    """Counts over the container statuses of a pod."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart: float | None = None

    def add(self, status: dict[str, Any]) -> None:
        """Count the restarts of a container."""
        self.restarts += status.get("restartCount", 0)
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if finished:
            self.last_restart = max(parse(finished), self.last_restart or 0)


def _ended(terminated: dict[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _condition(pod: Object, kind: str) -> dict[str, Any]:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c.get("type") == kind), {})


def _init(pod: Object, tally: _Tally, restartable_tally: _Tally, restartable: set[str]) -> str | None:
    """The state of an initialisation that is not finished, else None."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    total = len((pod.get("spec") or {}).get("initContainers") or [])
    for index, status in enumerate(statuses):
        tally.add(status)
        sidecar = status.get("name") in restartable
        if sidecar:
            restartable_tally.add(status)
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if sidecar and status.get("started"):
            tally.ready += 1 if status.get("ready") else 0
            continue
        if terminated is not None:
            return "Init:" + _ended(terminated)
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return "Init:" + str(waiting["reason"])
        return f"Init:{index}/{total}"
    return None


def _running(pod: Object, tally: _Tally, reason: str) -> str:
    """Status of a pod whose initialisation is over."""
    running, failure = False, ""
    for status in reversed((pod.get("status") or {}).get("containerStatuses") or []):
        tally.add(status)
        state = status.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
            if terminated.get("exitCode", 0) != 0:
                failure = reason
        elif status.get("ready") and "running" in state:
            running = True
            tally.ready += 1
    if reason == "Completed":
        if running and _condition(pod, "Ready").get("status") == "True":
            return "Running"
        if failure:
            return failure
        if running:
            return "NotReady"
    return reason


def cells(pod: Object, now: float, duration: Callable[[float], str]) -> list[Any]:
    """The cells; `duration` prints a span of seconds."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    metadata = pod["metadata"]
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    restartable = {
        c.get("name", "") for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or []) + len(restartable)
    tally, sidecars = _Tally(), _Tally()
    initializing = _init(pod, tally, sidecars, restartable)
    if initializing is not None:
        reason = initializing
    if initializing is None or _condition(pod, "Initialized").get("status") == "True":
        sidecars.ready = tally.ready
        tally = sidecars
        reason = _running(pod, tally, reason)
    if "deletionTimestamp" in metadata:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in _FINISHED:
            reason = "Terminating"
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart is not None:
        restarts += f" ({duration(now - tally.last_restart)} ago)"
    created = metadata.get("creationTimestamp")
    ips = status.get("podIPs") or [{}]
    gates = spec.get("readinessGates") or []
    passed = sum(
        1 for gate in gates if _condition(pod, gate.get("conditionType", "")).get("status") == "True"
    )
    return [
        metadata.get("name", ""),
        f"{tally.ready}/{total}",
        reason,
        restarts,
        duration(now - parse(created)) if created else "<unknown>",
        ips[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]


def conditions(pod: Object) -> list[dict[str, Any]]:
    """Row conditions: finished pods are marked."""
    phase = (pod.get("status") or {}).get("phase", "")
    if phase not in _FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _FINISHED[phase]}]
