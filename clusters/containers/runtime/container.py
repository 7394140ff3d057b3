"""A container: its status, and its program while that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clusters.clock import Clock
from clusters.containers.logs import LogWriter
from clusters.containers.model import (
    REASON_COMPLETED,
    REASON_ERROR,
    REASON_START_ERROR,
    START_ERROR_CODE,
    ContainerState,
    ContainerStatus,
    LinuxResources,
    RuntimeServiceError,
)
from clusters.containers.process import Process, StartError, outcome
from clusters.containers.programs import parse
from clusters.containers.runtime.injection import limits
from clusters.containers.startability import command_problem, start_problem
from clusters.containers.view import ContainerView


class Container:
    """A container of a runtime. Its program is a task of the event loop, never a real process."""

    def __init__(
        self,
        status: ContainerStatus,
        seen: ContainerView,
        clock: Clock,
        folder: Path,
        ended: Callable[[Container], None],
    ) -> None:
        """A created container.

        Args:
            status: what is known of it.
            seen: what its program will see.
            clock: the time of the program.
            folder: for files that it writes outside of mounts.
            ended: called when it has exited.
        """
        self.status = status
        self.view = seen
        self.process: Process | None = None
        self.stopped = asyncio.Event()
        self.folder = folder
        self._clock = clock
        self._tell_ended = ended
        self._task: asyncio.Task[int] | None = None
        self._log: LogWriter | None = None
        self._signalled = False

    def start(self) -> None:
        """Start the program. Raises RuntimeServiceError when that cannot be; the container has exited then."""
        try:
            self._start()
        except RuntimeServiceError as problem:
            self.fail(problem)
            raise

    def fail(self, problem: RuntimeServiceError) -> None:
        """What could not start has exited."""
        self._exit(START_ERROR_CODE, REASON_START_ERROR, problem.message)

    def _start(self) -> None:
        path = self.status.log_path
        try:
            log = LogWriter(Path(path) if path else None, self._clock)
        except OSError as problem:
            raise RuntimeServiceError(
                "Unknown",
                "failed to create containerd task: failed to create container loggers: failed to create and open "
                f"log file: open {path}: {(problem.strerror or str(problem)).lower()}",
            ) from problem
        text = start_problem(self.view)
        try:
            program = parse(self.view.arguments, self.view.environment)
        except StartError as problem:
            text = text or command_problem(str(problem))
        if text is not None:
            log.close()
            raise RuntimeServiceError("Unknown", text)
        self._log = log
        self.process = Process(self.view, self._clock, log.stdout, log.stderr, self.folder / "rootfs")
        self.status = replace(self.status, state=ContainerState.RUNNING, started_at=self._clock.now())
        self._task = asyncio.create_task(program.run(self.process), name=f"container {self.status.id}")
        self._task.add_done_callback(self._ended)

    def signal(self) -> None:
        """Send the stop signal, once: a second stop waits for the effect of the first, as with containerd."""
        if not self._signalled and self.process is not None:
            self._signalled = True
            self.process.term.set()

    async def kill(self) -> None:
        """Kill the program, if it runs, and wait for its end."""
        if self._task is not None:
            self._task.cancel()
            await self.stopped.wait()

    def update(self, change: LinuxResources) -> None:
        """Change the limits; the program sees them from now on."""
        config = self.status.config
        config = replace(config, resources=config.resources.updated(change))
        self.status = replace(self.status, config=config)
        self.view = replace(self.view, limits=limits(config.resources))
        if self.process is not None:
            self.process.view = self.view

    def reopen_log(self) -> None:
        """Go on in a new log file. Raises RuntimeServiceError."""
        if self._log is None:
            raise RuntimeServiceError("Unknown", "container is not running")
        try:
            self._log.reopen()
        except OSError as problem:
            raise RuntimeServiceError(
                "Unknown",
                f"failed to create and open log file: open {self.status.log_path}: "
                f"{(problem.strerror or str(problem)).lower()}",
            ) from problem

    def _ended(self, task: asyncio.Task[int]) -> None:
        code, problem = outcome(task)
        if self._log is not None:
            if problem:
                self._log.stderr(problem)
            self._log.close()
        self._exit(code, REASON_ERROR if code else REASON_COMPLETED)

    def _exit(self, code: int, reason: str, message: str = "") -> None:
        self._task = self.process = self._log = None
        self.status = replace(
            self.status,
            state=ContainerState.EXITED,
            finished_at=self._clock.now(),
            exit_code=code,
            reason=reason,
            message=message,
        )
        self.stopped.set()
        self._tell_ended(self)
