"""What a program of a container gets from its surroundings: environment, clock, output, signals, files."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from clusters.clock import Clock
from clusters.containers.view import ContainerView

_FOLDERS = frozenset(
    {"/", "/bin", "/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/sys", "/tmp", "/usr", "/var"}  # noqa: S108
)
Write = Callable[[str], None]
KILLED = 128 + 9
"""Exit code of a program that SIGKILL ended."""
FAILED_PROGRAM = 255
"""Exit code of a simulated program that broke; its log says how."""


class Process:
    """Process 1 of a container. `term` is set by the stop signal; the program decides whether that ends it.

    A program that never looks at `term` ignores the signal, as process 1 without a handler does. A process that
    joins a running container has a `term` of its own, and that of process 1 as `init_term`.
    """

    def __init__(
        self,
        view: ContainerView,
        clock: Clock,
        stdout: Write,
        stderr: Write,
        rootfs: Path,
        init_term: asyncio.Event | None = None,
    ) -> None:
        """`rootfs`: folder for files written outside of mounts; made when one is written."""
        self.view = view
        self.clock = clock
        self.stdout = stdout
        self.stderr = stderr
        self.term = asyncio.Event()
        self.init_term = self.term if init_term is None else init_term
        self._rootfs = rootfs

    def joined(self, stdout: Write, stderr: Write) -> Process:
        """A further process in the same container, with an output of its own."""
        return Process(self.view, self.clock, stdout, stderr, self._rootfs, self.init_term)

    def path(self, path: str) -> Path:
        """Where a path of the container is on the host: below the innermost mount, or in the container's folder."""
        path = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        place = self.view.host_path(path)
        return place if place is not None else self._rootfs / path.lstrip("/")

    def writable(self, path: str) -> Path:
        """As `path`, for a file that is going to be written; outside of mounts its folder is made. Raises OSError."""
        path = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        mount = self.view.mount(path)
        if mount is not None and {"ro", "rro"} & set(mount.options):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        place = self.path(path)
        if mount is None:
            place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def names(self, path: str) -> list[str] | None:
        """What `ls` finds at a path: names in a folder, the path itself for anything else, None for nothing."""
        full = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        place = self.path(full)
        above = full.rstrip("/") + "/"
        known = [device.path for device in self.view.devices] + [
            mount.destination for mount in self.view.mounts
        ]
        if not self.is_folder(full):
            return [path] if full in known or place.exists() else None
        found = {name[len(above) :].split("/")[0] for name in known if name.startswith(above)}
        if place.is_dir():
            found |= set(os.listdir(place))  # noqa: PTH208
        return sorted(found)

    def is_folder(self, path: str) -> bool:
        """Whether a path of the container is a folder; those of every image are, and those above mounts."""
        path = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        above = path.rstrip("/") + "/"
        return (
            path in _FOLDERS
            or path == self.view.working_dir
            or self.path(path).is_dir()
            or any(mount.destination.startswith(above) for mount in self.view.mounts)
            or any(device.path.startswith(above) for device in self.view.devices)
        )


class Program(Protocol):
    """What runs in a container."""

    async def run(self, process: Process) -> int:
        """Run to the end and return the exit code. Being cancelled is being killed."""
        ...


class StartError(Exception):
    """A command that cannot be started at all; the text is what the OCI runtime says."""


def outcome(task: asyncio.Task[int]) -> tuple[int, str]:
    """The exit code of a program whose task has ended, and what its standard error should say of it ("": nothing)."""
    if task.cancelled():
        return KILLED, ""
    problem = task.exception()
    if problem is not None:
        return FAILED_PROGRAM, f"the simulated program failed: {problem!r}\n"
    return task.result(), ""


async def happens_within(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set before the clock has gone on by `seconds`."""
    # The moment counts from now, and not from the first step of the task that waits for it.
    until = clock.sleep_until(clock.now() + seconds)
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(until)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()
