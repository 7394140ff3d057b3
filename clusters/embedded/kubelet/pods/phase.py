"""The phase of a Pod, from the states of its containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.restarts import restarts_after


class _Count:
    """Regular containers and sidecars by what they do."""

    unknown = running = waiting = stopped = not_restartable = succeeded = 0
    pending_init = pending_sidecars = failed_init = 0


def pod_phase(pod: Object, statuses: Sequence[Object], *, terminal: bool, initialized: bool) -> str:
    """The phase.

    Args:
        pod: the Pod.
        statuses: of all its containers, init containers among them.
        terminal: no container will be started again, whatever the restart policy.
        initialized: a regular container was created in the current sandbox.
    """
    by_name = {status["name"]: status for status in statuses}
    count = _Count()
    for container in objects.init_containers(pod):
        if objects.is_sidecar(container):
            _count_sidecar(by_name.get(container["name"]), count)
        else:
            _count_init(pod, container, by_name.get(container["name"]), count)
    for container in objects.containers(pod):
        _count_regular(pod, container, by_name.get(container["name"]), count)
    if count.failed_init:
        return "Failed"
    if count.pending_init or (count.pending_sidecars and not initialized) or count.waiting:
        return "Pending"
    if count.unknown:
        return "Pending"
    if count.running:
        return "Running"
    if not count.stopped:
        return "Pending"
    if not terminal and count.stopped != count.not_restartable:
        return "Running"
    return "Succeeded" if count.stopped == count.succeeded else "Failed"


def _ended(status: Mapping[str, Object], field: str) -> Object | None:
    found: Object | None = (status.get(field) or {}).get("terminated")
    return found


def _count_init(pod: Object, container: Object, status: Object | None, count: _Count) -> None:
    if status is None or "running" in status["state"]:
        count.pending_init += 1
        return
    ended = _ended(status, "state") or _ended(status, "lastState")
    if ended is None:
        count.pending_init += 1
    elif ended.get("exitCode", 0) != 0 and not restarts_after(container, pod, ended["exitCode"]):
        count.failed_init += 1


def _count_sidecar(status: Object | None, count: _Count) -> None:
    if status is None:
        count.unknown += 1
    elif "running" in status["state"]:
        count.running += 1
        if not status.get("started"):
            count.pending_sidecars += 1
    elif "terminated" not in status["state"] and _ended(status, "lastState") is None:
        count.pending_sidecars += 1
        count.waiting += 1


def _count_regular(pod: Object, container: Object, status: Object | None, count: _Count) -> None:
    if status is None:
        count.unknown += 1
        return
    if "running" in status["state"]:
        count.running += 1
        return
    ended = _ended(status, "state")
    if ended is not None and ended.get("exitCode", 0) == 0:
        count.succeeded += 1
    ended = ended or _ended(status, "lastState")
    if ended is None:
        count.waiting += 1
        return
    count.stopped += 1
    if not restarts_after(container, pod, ended.get("exitCode", 0)):
        count.not_restartable += 1
