"""The runtime of one node. It outlives the kubelet: all its state is in one object."""

from __future__ import annotations

import functools
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusters.clock import Clock
from clusters.containers.images import Images
from clusters.containers.model import (
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    ContainerUser,
    ExecResult,
    Image,
    LinuxResources,
    RuntimeServiceError,
    Sandbox,
    SandboxConfig,
    SandboxState,
)
from clusters.containers.process import happens_within
from clusters.containers.runtime.changes import Changes, Event, EventKind, Events, Notifier
from clusters.containers.runtime.container import Container
from clusters.containers.runtime.execution import exec_error, run_exec
from clusters.containers.runtime.injection import build, view
from clusters.containers.runtime.network import Addresses
from clusters.containers.view import ContainerView
from node_api import cdi
from node_api.cdi import parse_spec

_NO_START = (ContainerState.RUNNING, ContainerState.EXITED)


class Runtime:
    """Sandboxes and containers of one node, with the methods, answers and errors of containerd's CRI service.

    All methods belong to one event loop. A caller may be cancelled at any await: what a call began then either
    did not happen or goes on. Programs run as tasks of the loop, on the clock; they never are real processes.
    """

    def __init__(
        self,
        cdi_dirs: Sequence[Path],
        root: Path,
        clock: Clock,
        pod_cidr: str = "10.244.0.0/24",
        *,
        hostname: str = "",
    ) -> None:
        """A runtime without containers.

        Args:
            cdi_dirs: folders with CDI specs, lowest priority first; read anew for each container.
            root: folder of the runtime for files that containers write outside of mounts.
            clock: the time of the containers.
            pod_cidr: addresses of sandboxes; the first is the gateway's.
            hostname: of the node, which sandboxes with its network see.
        """
        self._cdi_dirs = tuple(cdi_dirs)
        # Files are read for each container, but a content is parsed once: there is a file for each claim.
        self._parse_spec = functools.lru_cache(maxsize=1024)(parse_spec)
        self._root = root
        self._clock = clock
        self._addresses = Addresses(pod_cidr)
        self._hostname = hostname
        self._images = Images()
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, Container] = {}
        self._notifier = Notifier()

    def changes(self) -> Changes:
        """Ids of sandboxes that change from now on, or whose containers do."""
        return self._notifier.changes.subscribe()

    def events(self) -> Events:
        """What happens to containers and sandboxes from now on; for an evented PLEG."""
        return self._notifier.events.subscribe()

    # Sandboxes

    async def run_pod_sandbox(self, config: SandboxConfig) -> str:
        """Create and start a sandbox; returns its id."""
        name = f"{config.name}_{config.namespace}_{config.uid}_{config.attempt}"
        for other in self._sandboxes.values():
            if _sandbox_name(other.config) == name:
                raise RuntimeServiceError(
                    "Unknown",
                    f'failed to reserve sandbox name "{name}": name "{name}" is reserved for "{other.id}"',
                )
        sandbox_id = secrets.token_hex(32)
        address = ""
        if config.host_network:
            config = replace(config, hostname=config.hostname or self._hostname)
        else:
            address = self._addresses.take(sandbox_id, {sandbox.ip for sandbox in self._sandboxes.values()})
        sandbox = Sandbox(sandbox_id, config, SandboxState.READY, self._clock.now(), address)
        self._sandboxes[sandbox_id] = sandbox
        self._tell(sandbox, sandbox_id, EventKind.CREATED)
        self._tell(sandbox, sandbox_id, EventKind.STARTED)
        return sandbox_id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Kill what runs in the sandbox and give its address back; an unknown sandbox is stopped already."""
        if sandbox_id not in self._sandboxes:
            return
        for container in self._of(sandbox_id):
            await container.kill()
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.state is SandboxState.READY:
            self._sandboxes[sandbox_id] = stopped = replace(sandbox, state=SandboxState.NOTREADY, ip="")
            self._tell(stopped, sandbox_id, EventKind.STOPPED)

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop and forget the sandbox and its containers; an unknown sandbox is removed already."""
        await self.stop_pod_sandbox(sandbox_id)
        for container in self._of(sandbox_id):
            self._forget(container)
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is not None:
            self._tell(sandbox, sandbox_id, EventKind.DELETED)

    async def list_pod_sandboxes(self) -> list[Sandbox]:
        """All sandboxes, oldest first."""
        return list(self._sandboxes.values())

    async def pod_sandbox_status(self, sandbox_id: str) -> Sandbox:
        """One sandbox. Raises RuntimeServiceError (NotFound)."""
        try:
            return self._sandboxes[sandbox_id]
        except KeyError:
            text = "an error occurred when try to find sandbox: not found"
            raise RuntimeServiceError("NotFound", text) from None

    # Containers

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> str:
        """Create a container: resolve and apply its CDI devices. Returns its id."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is None:
            raise RuntimeServiceError(
                "NotFound",
                f'failed to find sandbox id "{sandbox_id}": an error occurred when try to find '
                "sandbox: not found",
            )
        name = _container_name(config, sandbox.config)
        for other in self._of(sandbox_id):
            if _container_name(other.status.config, sandbox.config) == name:
                raise RuntimeServiceError(
                    "Unknown",
                    f'failed to reserve container name "{name}": name "{name}" is reserved for '
                    f'"{other.status.id}"',
                )
        container_id = secrets.token_hex(32)
        image = self._images.find(config.image)
        if image is None:
            raise RuntimeServiceError("NotFound", f'failed to resolve image "{config.image}": not found')
        seen = view(config, sandbox, build(config, sandbox, container_id, self._scan), image.name)
        log = ""
        if sandbox.config.log_directory and config.log_path:
            log = str(Path(sandbox.config.log_directory, config.log_path))
        status = ContainerStatus(
            container_id,
            sandbox_id,
            config,
            ContainerState.CREATED,
            self._clock.now(),
            image=image.name,
            image_ref=image.ref,
            image_id=image.id,
            log_path=log,
            user=ContainerUser(seen.uid, seen.gid, seen.groups),
        )
        folder = self._root / "containers" / container_id
        self._containers[container_id] = Container(status, seen, self._clock, folder, self._ended)
        self._tell(sandbox, container_id, EventKind.CREATED)
        return container_id

    async def start_container(self, container_id: str) -> None:
        """Start a created container; what cannot start has exited with 128 and the reason StartError."""
        container = self._find(container_id)
        if container.status.state in _NO_START:
            raise RuntimeServiceError(
                "Unknown",
                f'failed to set starting state for container "{container_id}": container is in '
                f"{container.status.state} state",
            )
        sandbox = self._sandboxes.get(container.status.sandbox_id)
        if sandbox is None or sandbox.state is not SandboxState.READY:
            problem = RuntimeServiceError(
                "Unknown", f'sandbox container "{container.status.sandbox_id}" is not running'
            )
            container.fail(problem)
            raise problem
        container.start()
        self._tell(sandbox, container_id, EventKind.STARTED)

    async def stop_container(self, container_id: str, timeout: float) -> None:
        """Send SIGTERM, and SIGKILL after `timeout` seconds of the clock (at once with 0); wait for the end."""
        container = self._containers.get(container_id)
        if container is None or container.status.state is not ContainerState.RUNNING:
            return
        if timeout > 0:
            container.signal()
            if await happens_within(self._clock, container.stopped, timeout):
                return
        await container.kill()

    async def remove_container(self, container_id: str) -> None:
        """Kill and forget the container; its log stays. An unknown container is removed already."""
        container = self._containers.get(container_id)
        if container is None:
            return
        await container.kill()
        self._forget(container)

    async def update_container_resources(self, container_id: str, change: LinuxResources) -> None:
        """Change the limits that `change` gives. Raises RuntimeServiceError (NotFound)."""
        container = self._containers.get(container_id)
        if container is None:
            raise RuntimeServiceError(
                "NotFound",
                f"failed to find container: an error occurred when try to find container "
                f'"{container_id}": not found',
            )
        container.update(change)
        self._notifier.changes.tell(container.status.sandbox_id)

    async def reopen_container_log(self, container_id: str) -> None:
        """Write the log of a running container to a new file, after the old one was moved away."""
        self._find(container_id).reopen_log()

    async def list_containers(self) -> list[ContainerStatus]:
        """All containers, oldest first."""
        return [container.status for container in self._containers.values()]

    async def container_status(self, container_id: str) -> ContainerStatus:
        """One container. Raises RuntimeServiceError (NotFound)."""
        return self._find(container_id).status

    def container_view(self, container_id: str) -> ContainerView:
        """What the container sees, without asking a program in it. Raises RuntimeServiceError (NotFound)."""
        return self._find(container_id).view

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout: float = 0) -> ExecResult:
        """Run a command in a running container to its end; after `timeout` seconds, if not 0, it is killed."""
        container = self._containers.get(container_id)
        if container is None:
            raise exec_error("NotFound", f'failed to find container "{container_id}" in store: not found')
        if container.process is None:
            raise exec_error("Unknown", f"container is in {container.status.state} state")
        return await run_exec(container.process, container.stopped, command, timeout)

    # Images

    async def image_status(self, image: str) -> Image | None:
        """The image of a name or an id; every name is present, and an id of which one has been asked for."""
        return self._images.find(image)

    async def pull_image(self, image: str) -> Image:
        """Nothing is pulled: the image is there. Raises RuntimeServiceError for an id of no image."""
        found = self._images.find(image)
        if found is None:
            text = (
                f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": not found'
            )
            raise RuntimeServiceError("NotFound", text)
        return found

    async def list_images(self) -> list[Image]:
        """The images that were asked for."""
        return self._images.all()

    async def remove_image(self, image: str) -> None:
        """Take an image from the list; an unknown one is gone already."""
        self._images.remove(image)

    async def close(self) -> None:
        """Kill all programs and end all iterations over changes."""
        for container in list(self._containers.values()):
            await container.kill()
        self._notifier.close()

    def _scan(self) -> cdi.Scan:
        return cdi.scan(self._cdi_dirs, self._parse_spec)

    def _of(self, sandbox_id: str) -> list[Container]:
        return [found for found in self._containers.values() if found.status.sandbox_id == sandbox_id]

    def _find(self, container_id: str) -> Container:
        try:
            return self._containers[container_id]
        except KeyError:
            raise RuntimeServiceError(
                "NotFound", f'an error occurred when try to find container "{container_id}": not found'
            ) from None

    def _ended(self, container: Container) -> None:
        sandbox = self._sandboxes.get(container.status.sandbox_id)
        if sandbox is not None:
            self._tell(sandbox, container.status.id, EventKind.STOPPED)

    def _forget(self, container: Container) -> None:
        if self._containers.pop(container.status.id, None) is None:
            return
        shutil.rmtree(container.folder, ignore_errors=True)
        sandbox = self._sandboxes.get(container.status.sandbox_id)
        if sandbox is not None:
            self._tell(sandbox, container.status.id, EventKind.DELETED)

    def _tell(self, sandbox: Sandbox, about: str, kind: EventKind) -> None:
        self._notifier.changes.tell(sandbox.id)
        if self._notifier.events:
            containers = tuple(container.status for container in self._of(sandbox.id))
            self._notifier.events.tell(Event(about, kind, self._clock.now(), sandbox, containers))


def _sandbox_name(config: SandboxConfig) -> str:
    return f"{config.name}_{config.namespace}_{config.uid}_{config.attempt}"


def _container_name(config: ContainerConfig, sandbox: SandboxConfig) -> str:
    return f"{config.name}_{sandbox.name}_{sandbox.namespace}_{sandbox.uid}_{config.attempt}"
