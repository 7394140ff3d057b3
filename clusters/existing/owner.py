"""Which process a run on a user's cluster belongs to, as its objects say it: whether it lives can be told from here."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from clusters.guardian import start_ticks

OWNER_ANNOTATION: Final = "drakit.dev/owner"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_PIDS: Final = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class Owner:
    """A process: its machine by name, the boot and PID namespace in which its number means it, number and start."""

    host: str
    place: str
    pid: int
    started: int

    @classmethod
    def this(cls) -> Self:
        """This process."""
        return cls(platform.node() or "localhost", _place(), os.getpid(), start_ticks(os.getpid()) or 0)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """What `str` gave; None for anything else."""
        parts = text.split(" ")
        if len(parts) != 4 or not (parts[2].isdigit() and parts[3].isdigit()):
            return None
        return cls(parts[0], parts[1], int(parts[2]), int(parts[3]))

    def __str__(self) -> str:
        return f"{self.host} {self.place} {self.pid} {self.started}"

    @property
    def alive(self) -> bool | None:
        """Whether the process runs; None when it is one of another machine, or another container."""
        if self.place != _place():
            return None
        return start_ticks(self.pid) == self.started


def _place() -> str:
    try:
        return f"{_BOOT.read_text(encoding='ascii').strip()}:{_PIDS.readlink()}"
    except OSError:
        return "unknown"
