"""The container statuses of a Pod, from what the runtime knows and what was reported before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.clock import stamp
from clusters.containers.model import ContainerState, ContainerStatus
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.actions import has_regular_container
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.restarts import should_restart
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime
from clusters.embedded.kubelet.pods.termination_message import termination_message
from clusters.embedded.kubelet.pods.volumes import is_recursive_read_only

ID_PREFIX: Final = "containerd://"
_STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
_LOST: Final = (
    "The container could not be located when the pod was deleted.  The container used to be Running"
)
_INIT_LOST: Final = (
    "Unable to get init container status from container runtime and pod has been initialized, "
    "treat it as exited normally"
)


@dataclass(frozen=True)
class StartProblem:
    """Why a container was not started at the last look: reason and message of its waiting state."""

    reason: str
    message: str


def container_statuses(
    pod: Object,
    runtime: PodRuntime,
    previous: Sequence[Object],
    problems: Mapping[str, StartProblem],
    *,
    init: bool,
) -> list[Object]:
    """The statuses of the regular or the init containers, without `ready` and `started`.

    Args:
        pod: the Pod.
        runtime: what the runtime knows.
        previous: the statuses reported before.
        problems: start problems by container name.
        init: whether the init containers are meant.
    """
    specs = objects.init_containers(pod) if init else objects.containers(pod)
    old = {status["name"]: status for status in previous}
    default = "PodInitializing" if objects.init_containers(pod) else "ContainerCreating"
    result: dict[str, Object] = {}
    for container in specs:
        known = old.get(container["name"])
        if known is not None and "terminated" in known["state"]:
            result[container["name"]] = dict(known)
            continue
        result[container["name"]] = status = _default(container, default)
        if known is not None:
            status["restartCount"] = known.get("restartCount", 0)
            status["lastState"] = known.get("lastState") or {}
        if runtime.latest(container["name"]) is None and known is not None:
            _lost(pod, status, known)
    seen: set[str] = set()
    done: set[str] = set()
    for found in runtime.containers:
        name = found.config.name
        if name not in result or name in done:
            continue
        if name in seen:
            result[name]["lastState"] = _state(found)
            done.add(name)
            continue
        seen.add(name)
        spec = next(container for container in specs if container["name"] == name)
        result[name] = _converted(spec, found, old.get(name))
    for container in specs:
        _waiting(pod, container, runtime, problems, result[container["name"]], init=init)
    statuses = list(result.values())
    return statuses if init else sorted(statuses, key=lambda status: str(status["name"]))


def _default(container: Object, reason: str) -> Object:
    status: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
    }
    if mounts := _volume_mounts(container):
        status["volumeMounts"] = mounts
    return status


def _volume_mounts(container: Object) -> list[Object]:
    mounts = []
    for mount in container.get("volumeMounts") or []:
        entry: Object = {"name": mount["name"], "mountPath": mount["mountPath"]}
        if mount.get("readOnly"):
            mode = "Enabled" if is_recursive_read_only(mount) else "Disabled"
            entry |= {"readOnly": True, "recursiveReadOnly": mode}
        mounts.append(entry)
    return mounts


def _lost(pod: Object, status: Object, known: Object) -> None:
    """A container that ran and that the runtime does not know any more has ended somehow."""
    if "running" not in known["state"] or "terminated" in status["lastState"]:
        return
    status["lastState"] = {"terminated": {"exitCode": 137, "reason": _STATUS_UNKNOWN, "message": _LOST}}
    if not objects.deleted(pod):
        status["restartCount"] += 1


def _state(found: ContainerStatus) -> Object:
    if found.state is ContainerState.RUNNING:
        return {"running": {"startedAt": stamp(found.started_at or found.created_at)}}
    if found.state is ContainerState.CREATED:
        return {"waiting": {}}
    ended: Object = {"exitCode": found.exit_code, "reason": found.reason}
    if message := termination_message(found):
        ended["message"] = message
    ended["startedAt"] = stamp(found.started_at or 0.0)
    ended["finishedAt"] = stamp(found.finished_at or 0.0)
    return {"terminated": {**ended, "containerID": ID_PREFIX + found.id}}


def _converted(container: Object, found: ContainerStatus, known: Object | None) -> Object:
    status: Object = {
        "name": found.config.name,
        "image": found.image,
        "imageID": found.image_ref,
        "containerID": ID_PREFIX + found.id,
        "restartCount": found.config.attempt,
        "state": _state(found),
        "lastState": {},
        "resources": container.get("resources") or {},
    }
    if requests := (container.get("resources") or {}).get("requests"):
        status["allocatedResources"] = requests
    mounts = _volume_mounts(container) if known is None else known.get("volumeMounts")
    if mounts:
        status["volumeMounts"] = mounts
    user = found.user
    status["user"] = {"linux": {"uid": user.uid, "gid": user.gid, "supplementalGroups": list(user.groups)}}
    if known is None:
        return status
    status["restartCount"] = max(status["restartCount"], known.get("restartCount", 0))
    ended = known["state"].get("terminated")
    if ended is not None and known.get("containerID") != status["containerID"]:
        status["lastState"] = {"terminated": ended}
    elif earlier := (known.get("lastState") or {}).get("terminated"):
        status["lastState"] = {"terminated": earlier}
    if "running" in status["state"]:
        if ended is not None and known.get("restartCount", 0) >= found.config.attempt:
            status["restartCount"] = known.get("restartCount", 0) + 1
        if "started" in known:
            status["started"] = known["started"]
    return status


def _waiting(
    pod: Object,
    container: Object,
    runtime: PodRuntime,
    problems: Mapping[str, StartProblem],
    status: Object,
    *,
    init: bool,
) -> None:
    """A container that is to be started and could not be, waits."""
    found = runtime.latest(container["name"])
    if init:
        if found is not None and found.state is ContainerState.EXITED and found.exit_code == 0:
            return
        gone = found is None and has_regular_container(pod, runtime) and not objects.is_sidecar(container)
        if gone and "waiting" in status["state"]:
            ended = {"exitCode": 0, "reason": "Completed", "message": _INIT_LOST}
            status["state"] = {"terminated": ended}
            return
    if not should_restart(container, pod, runtime):
        return
    problem = problems.get(container["name"])
    if problem is None:
        return
    if "terminated" in status["state"]:
        status["lastState"] = status["state"]
    waiting = {"reason": problem.reason}
    if problem.message:
        waiting["message"] = problem.message
    status["state"] = {"waiting": waiting}


def set_readiness(pod: Object, init: Sequence[Object], regular: Sequence[Object]) -> None:
    """Set `started` and `ready` as a prober would that finds all probes succeed at once."""
    for status in regular:
        running = "running" in status["state"]
        status["started"] = running
        status["ready"] = running
    specs = {container["name"]: container for container in objects.init_containers(pod)}
    for status in init:
        if objects.is_sidecar(specs[status["name"]]):
            status["started"] = status["ready"] = "running" in status["state"]
            continue
        ended = status["state"].get("terminated")
        status["started"] = "running" in status["state"]
        status["ready"] = ended is not None and ended.get("exitCode") == 0
