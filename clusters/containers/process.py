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


class Process:
    """Process 1 of a container. `term` is set by the stop signal; the program decides whether that ends it.

    A program that never looks at `term` ignores the signal, as process 1 without a handler does.
    """

    def __init__(self, view: ContainerView, clock: Clock, stdout: Write, stderr: Write, rootfs: Path) -> None:
        """`rootfs`: folder for files written outside of mounts; made when one is written."""
        self.view = view
        self.clock = clock
        self.stdout = stdout
        self.stderr = stderr
        self.term = asyncio.Event()
        self._rootfs = rootfs

    def path(self, path: str) -> Path:
        """Where a path of the container is on the host: below the innermost mount, or in the container's folder."""
        path = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        place = self.view.host_path(path)
        return place if place is not None else self._rootfs / path.lstrip("/")

    def writable(self, path: str) -> Path:
        """As `path`, for a file that is going to be written; outside of mounts its folder is made. Raises OSError."""
        path = posixpath.normpath(posixpath.join("/", self.view.working_dir, path))
        mount = self.view.mount(path)
        if mount is not None and "ro" in mount.options:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        place = self.path(path)
        if mount is None:
            place.parent.mkdir(parents=True, exist_ok=True)
        return place

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

    async def term_within(self, seconds: float) -> bool:
        """Sleep until the time is over or the stop signal comes; True for the signal."""
        return await happens_within(self.clock, self.term, seconds)


class Program(Protocol):
    """What runs in a container."""

    async def run(self, process: Process) -> int:
        """Run to the end and return the exit code. Being cancelled is being killed."""
        ...


class StartError(Exception):
    """A command that cannot be started at all; the text is what the OCI runtime says."""


async def happens_within(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set before the clock has gone on by `seconds`."""
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()
