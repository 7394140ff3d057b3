"""The runtime of one node. It outlives the kubelet: all its state is in one object."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusters.clock import Clock
from clusters.containers import images
from clusters.containers.logs import LogWriter
from clusters.containers.model import (
    REASON_COMPLETED,
    REASON_ERROR,
    REASON_START_ERROR,
    START_ERROR_CODE,
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    ExecResult,
    Image,
    RuntimeServiceError,
    Sandbox,
    SandboxConfig,
    SandboxState,
)
from clusters.containers.process import Process, StartError, happens_within, outcome
from clusters.containers.programs import parse
from clusters.containers.runtime.changes import Changes, Notifier
from clusters.containers.runtime.execution import exec_error, run_exec
from clusters.containers.runtime.injection import build, view
from clusters.containers.startability import command_problem, start_problem
from clusters.containers.view import ContainerView
from node_api import cdi
from node_api.cdi import parse_spec

_NO_START = (ContainerState.RUNNING, ContainerState.EXITED)


class _Container:
    """A container: its status, and its program while that runs."""

    def __init__(self, status: ContainerStatus, seen: ContainerView) -> None:
        self.status = status
        self.view = seen
        self.process: Process | None = None
        self.task: asyncio.Task[int] | None = None
        self.log: LogWriter | None = None
        self.signalled = False
        self.stopped = asyncio.Event()


class Runtime:
    """Sandboxes and containers of one node, with the methods, answers and errors of containerd's CRI service.

    All methods belong to one event loop. A caller may be cancelled at any await: what a call began then either
    did not happen or goes on. Programs run as tasks of the loop, on the clock; they never are real processes.
    """

    def __init__(
        self, cdi_dirs: Sequence[Path], root: Path, clock: Clock, pod_cidr: str = "10.244.0.0/24"
    ) -> None:
        """A runtime without containers.

        Args:
            cdi_dirs: folders with CDI specs, lowest priority first; read anew for each container.
            root: folder of the runtime for files that containers write outside of mounts.
            clock: the time of the containers.
            pod_cidr: addresses of sandboxes; the first is the gateway's.
        """
        self._cdi_dirs = tuple(cdi_dirs)
        # Files are read for each container, but a content is parsed once: there is a file for each claim.
        self._parse_spec = functools.lru_cache(maxsize=1024)(parse_spec)
        self._root = root
        self._clock = clock
        self._network = ipaddress.IPv4Network(pod_cidr)
        self._last_address = int(self._network.network_address) + 1
        self._sandboxes: dict[str, Sandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._notifier = Notifier()

    def changes(self) -> Changes:
        """Ids of sandboxes that change from now on, or whose containers do; for an evented PLEG."""
        return self._notifier.subscribe()

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
        address = "" if config.host_network else self._next_address(sandbox_id)
        self._sandboxes[sandbox_id] = Sandbox(
            sandbox_id, config, SandboxState.READY, self._clock.now(), address
        )
        self._notifier.notify(sandbox_id)
        return sandbox_id

    async def stop_pod_sandbox(self, sandbox_id: str) -> None:
        """Kill what runs in the sandbox and give its address back; an unknown sandbox is stopped already."""
        if sandbox_id not in self._sandboxes:
            return
        for container in self._of(sandbox_id):
            await self._kill(container)
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.state is SandboxState.READY:
            self._sandboxes[sandbox_id] = replace(sandbox, state=SandboxState.NOTREADY, ip="")
            self._notifier.notify(sandbox_id)

    async def remove_pod_sandbox(self, sandbox_id: str) -> None:
        """Stop and forget the sandbox and its containers; an unknown sandbox is removed already."""
        await self.stop_pod_sandbox(sandbox_id)
        for container in self._of(sandbox_id):
            self._forget(container)
        if self._sandboxes.pop(sandbox_id, None) is not None:
            self._notifier.notify(sandbox_id)

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
        image = images.resolve(config.image)
        seen = view(config, sandbox, build(config, sandbox, container_id, self._scan))
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
            log_path=log,
        )
        self._containers[container_id] = _Container(status, seen)
        self._notifier.notify(sandbox_id)
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
        try:
            self._start(container)
        except RuntimeServiceError as problem:
            self._set_exited(container, START_ERROR_CODE, REASON_START_ERROR, problem.message)
            raise

    async def stop_container(self, container_id: str, timeout: float) -> None:
        """Send SIGTERM, and SIGKILL after `timeout` seconds of the clock (at once with 0); wait for the end."""
        container = self._containers.get(container_id)
        if container is None or container.status.state is not ContainerState.RUNNING:
            return
        if timeout > 0:
            # A second stop waits for the effect of the first signal, as with containerd.
            if not container.signalled and container.process is not None:
                container.signalled = True
                container.process.term.set()
            if await happens_within(self._clock, container.stopped, timeout):
                return
        await self._kill(container)

    async def remove_container(self, container_id: str) -> None:
        """Kill and forget the container with its log; an unknown one is removed already."""
        container = self._containers.get(container_id)
        if container is None:
            return
        await self._kill(container)
        self._forget(container)

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

    async def image_status(self, image: str) -> Image:
        """The image of a name; every name is present."""
        return images.resolve(image)

    async def pull_image(self, image: str) -> Image:
        """Nothing is pulled: the image is there."""
        return images.resolve(image)

    async def close(self) -> None:
        """Kill all programs and end all iterations over changes."""
        running = [container for container in self._containers.values() if container.task is not None]
        for container in running:
            await self._kill(container)
        self._notifier.close()

    def _scan(self) -> cdi.Scan:
        return cdi.scan(self._cdi_dirs, self._parse_spec)

    def _of(self, sandbox_id: str) -> list[_Container]:
        return [found for found in self._containers.values() if found.status.sandbox_id == sandbox_id]

    def _find(self, container_id: str) -> _Container:
        try:
            return self._containers[container_id]
        except KeyError:
            raise RuntimeServiceError(
                "NotFound", f'an error occurred when try to find container "{container_id}": not found'
            ) from None

    def _next_address(self, sandbox_id: str) -> str:
        used = {sandbox.ip for sandbox in self._sandboxes.values()}
        first = int(self._network.network_address) + 2
        count = self._network.num_addresses - 3
        for step in range(count):
            number = first + (self._last_address + 1 - first + step) % count
            address = str(ipaddress.IPv4Address(number))
            if address not in used:
                self._last_address = number
                return address
        raise RuntimeServiceError(
            "Unknown",
            f'failed to setup network for sandbox "{sandbox_id}": plugin type="host-local" failed (add): failed to '
            f"allocate for range 0: no IP addresses available in range set: {ipaddress.IPv4Address(first - 1)}-"
            f"{ipaddress.IPv4Address(first + count - 1)}",
        )

    def _start(self, container: _Container) -> None:
        status = container.status
        sandbox = self._sandboxes.get(status.sandbox_id)
        if sandbox is None or sandbox.state is not SandboxState.READY:
            raise RuntimeServiceError("Unknown", f'sandbox container "{status.sandbox_id}" is not running')
        try:
            log = LogWriter(Path(status.log_path) if status.log_path else None, self._clock)
        except OSError as problem:
            raise RuntimeServiceError(
                "Unknown",
                "failed to create containerd task: failed to create container loggers: failed to create and open "
                f"log file: open {status.log_path}: {(problem.strerror or str(problem)).lower()}",
            ) from problem
        text = start_problem(container.view)
        try:
            program = parse(container.view.arguments, container.view.environment)
        except StartError as problem:
            text = text or command_problem(str(problem))
        if text is not None:
            log.close()
            raise RuntimeServiceError("Unknown", text)
        rootfs = self._root / "containers" / status.id / "rootfs"
        container.log = log
        container.process = Process(container.view, self._clock, log.stdout, log.stderr, rootfs)
        container.status = replace(status, state=ContainerState.RUNNING, started_at=self._clock.now())
        container.task = asyncio.create_task(program.run(container.process), name=f"container {status.id}")
        container.task.add_done_callback(lambda task: self._ended(container, task))
        self._notifier.notify(status.sandbox_id)

    def _ended(self, container: _Container, task: asyncio.Task[int]) -> None:
        code, problem = outcome(task)
        if problem and container.log is not None:
            container.log.stderr(problem)
        if container.log is not None:
            container.log.close()
        self._set_exited(container, code, REASON_ERROR if code else REASON_COMPLETED)

    def _set_exited(self, container: _Container, code: int, reason: str, message: str = "") -> None:
        container.task = container.process = container.log = None
        container.status = replace(
            container.status,
            state=ContainerState.EXITED,
            finished_at=self._clock.now(),
            exit_code=code,
            reason=reason,
            message=message,
        )
        container.stopped.set()
        self._notifier.notify(container.status.sandbox_id)

    async def _kill(self, container: _Container) -> None:
        if container.task is not None:
            container.task.cancel()
            await container.stopped.wait()

    def _forget(self, container: _Container) -> None:
        if self._containers.pop(container.status.id, None) is None:
            return
        shutil.rmtree(self._root / "containers" / container.status.id, ignore_errors=True)
        self._notifier.notify(container.status.sandbox_id)


def _sandbox_name(config: SandboxConfig) -> str:
    return f"{config.name}_{config.namespace}_{config.uid}_{config.attempt}"


def _container_name(config: ContainerConfig, sandbox: SandboxConfig) -> str:
    return f"{config.name}_{sandbox.name}_{sandbox.namespace}_{sandbox.uid}_{config.attempt}"
