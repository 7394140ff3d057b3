"""What the container runtime says about one Pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from clusters.containers.model import ContainerState, ContainerStatus, Sandbox, SandboxState
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.kubelet.pods.objects import POD_UID_LABEL, Object, is_host_network

NO_SANDBOX: Final = "no pod sandbox exists"
_SEVERAL: Final = "multiple pod sandboxes are ready and need to be reconciled"
_NOT_READY: Final = "pod sandbox is not ready"
_NO_ADDRESS: Final = "pod sandbox has no IP address"
Made = TypeVar("Made", Sandbox, ContainerStatus)


@dataclass(frozen=True)
class SandboxNeed:
    """Whether a new sandbox is needed, as which attempt, instead of which one ("" for none), and why."""

    needed: bool
    attempt: int
    sandbox_id: str
    reason: str = ""


@dataclass(frozen=True)
class PodRuntime:
    """Sandboxes and containers of a Pod, newest first; `last_ips` are the addresses that it had when it ended."""

    sandboxes: tuple[Sandbox, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()
    last_ips: tuple[str, ...] = ()

    def latest(self, name: str) -> ContainerStatus | None:
        """The newest container of a name."""
        return next((found for found in self.containers if found.config.name == name), None)

    @property
    def active(self) -> tuple[ContainerStatus, ...]:
        """Containers of the newest sandbox, if that is ready."""
        if not self.sandboxes or self.sandboxes[0].state is not SandboxState.READY:
            return ()
        return tuple(found for found in self.containers if found.sandbox_id == self.sandboxes[0].id)

    def latest_active(self, name: str) -> ContainerStatus | None:
        """The newest container of a name in the current sandbox."""
        return next((found for found in self.active if found.config.name == name), None)

    @property
    def running(self) -> tuple[ContainerStatus, ...]:
        """Containers that run."""
        return tuple(found for found in self.containers if found.state is ContainerState.RUNNING)

    @property
    def ips(self) -> tuple[str, ...]:
        """Addresses of the newest sandbox, or the last ones."""
        if not self.sandboxes or self.sandboxes[0].state is not SandboxState.READY:
            return self.last_ips
        return (self.sandboxes[0].ip,) if self.sandboxes[0].ip else ()

    @property
    def is_terminal(self) -> bool:
        """Whether nothing runs and no sandbox is ready."""
        return not self.running and all(sandbox.state is not SandboxState.READY for sandbox in self.sandboxes)

    def sandbox_need(self, pod: Object) -> SandboxNeed:
        """Whether the Pod needs a new sandbox."""
        if not self.sandboxes:
            return SandboxNeed(True, 0, "", NO_SANDBOX)
        latest = self.sandboxes[0]
        following = latest.config.attempt + 1
        if sum(sandbox.state is SandboxState.READY for sandbox in self.sandboxes) > 1:
            return SandboxNeed(True, following, latest.id, _SEVERAL)
        if latest.state is not SandboxState.READY:
            return SandboxNeed(True, following, latest.id, _NOT_READY)
        if not is_host_network(pod) and not latest.ip:
            return SandboxNeed(True, following, latest.id, _NO_ADDRESS)
        return SandboxNeed(False, latest.config.attempt, latest.id)


async def runtime_of_pods(runtime: Runtime) -> Mapping[str, PodRuntime]:
    """All Pods that the runtime knows, by UID."""
    sandboxes = _newest_first(await runtime.list_pod_sandboxes())
    containers = _newest_first(await runtime.list_containers())
    uids = {sandbox.id: sandbox.config.labels.get(POD_UID_LABEL, "") for sandbox in sandboxes}
    grouped: dict[str, tuple[list[Sandbox], list[ContainerStatus]]] = {}
    for sandbox in sandboxes:
        grouped.setdefault(uids[sandbox.id], ([], []))[0].append(sandbox)
    for container in containers:
        uid = uids.get(container.sandbox_id) or container.config.labels.get(POD_UID_LABEL, "")
        grouped.setdefault(uid, ([], []))[1].append(container)
    return {uid: PodRuntime(tuple(first), tuple(second)) for uid, (first, second) in grouped.items() if uid}


async def runtime_of_pod(runtime: Runtime, uid: str) -> PodRuntime:
    """One Pod; empty if the runtime does not know it."""
    sandboxes = [
        one for one in await runtime.list_pod_sandboxes() if one.config.labels.get(POD_UID_LABEL) == uid
    ]
    ids = {sandbox.id for sandbox in sandboxes}
    containers = [
        one
        for one in await runtime.list_containers()
        if one.sandbox_id in ids or one.config.labels.get(POD_UID_LABEL) == uid
    ]
    return PodRuntime(tuple(_newest_first(sandboxes)), tuple(_newest_first(containers)))


def _newest_first(found: Iterable[Made]) -> list[Made]:
    # Of equal times the later in the runtime's list is the newer.
    return sorted(found, key=lambda one: one.created_at)[::-1]
