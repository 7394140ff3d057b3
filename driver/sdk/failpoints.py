"""Named points at which a test can make the process die, to prove that no claim is lost or doubled.

Every write, fsync, rename and unlink of durable state and every hardware change passes its point just before
it happens; with the environment variable `DRAKIT_FAILPOINT=NAME[:N]` the process kills itself (SIGKILL) when
it reaches NAME for the N-th time (default 1). Without the variable a point costs one comparison.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VARIABLE: Final = "DRAKIT_FAILPOINT"

POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "checkpoint.write": "half of the new checkpoint is in its temporary file",
        "checkpoint.fsync": "the temporary checkpoint is written and not yet synchronised",
        "checkpoint.rename": "the temporary checkpoint is synchronised and not yet in place",
        "checkpoint.dirsync": "the new checkpoint is in place and its directory not yet synchronised",
        "checkpoint.sweep": "a temporary checkpoint of an interrupted write is about to be removed",
        "quarantine.write": "half of the copy of a damaged checkpoint is in its temporary file",
        "quarantine.fsync": "the temporary copy of a damaged checkpoint is written and not yet synchronised",
        "quarantine.rename": "the temporary copy of a damaged checkpoint is synchronised and not yet in place",
        "quarantine.dirsync": "the copy of a damaged checkpoint is in place, its directory not yet synchronised",
        "cdi.write": "half of a CDI spec is in its temporary file",
        "cdi.fsync": "the temporary CDI spec is written and not yet synchronised",
        "cdi.rename": "the temporary CDI spec is synchronised and not yet in place",
        "cdi.dirsync": "the CDI spec is in place and its directory not yet synchronised",
        "cdi.unlink": "a CDI spec is about to be removed",
        "cdi.unlinksync": "a CDI spec is removed and its directory not yet synchronised",
        "cdi.sweep": "a temporary CDI spec of an interrupted write is about to be removed",
        "hardware.configure": "a device is about to be configured for a claim",
        "hardware.reset": "a device is about to be given back",
        "prepare.answer": "a claim is prepared and not yet answered",
        "unprepare.answer": "a claim is unprepared and not yet answered",
    }
)
"""Every failpoint with the state of things when it is reached."""


class FailpointError(ValueError):
    """The environment variable names no failpoint."""


class _Armed:
    """The armed point and how often it must still be reached."""

    def __init__(self) -> None:
        self.name = ""
        self.left = 0
        self.lock = threading.Lock()


_armed = _Armed()


def arm(text: str) -> None:
    """Arm `NAME` or `NAME:N`; an empty text disarms.

    Raises:
        FailpointError: if the name is unknown or N is not a positive number.
    """
    name, colon, count = text.partition(":")
    if text and name not in POINTS:
        raise FailpointError(f"{VARIABLE}={text}: unknown failpoint {name!r}; known: {', '.join(POINTS)}")
    if colon and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise FailpointError(f"{VARIABLE}={text}: {count!r} must be a number of at least 1")
    _armed.name = name
    _armed.left = int(count or 1)


def reach(name: str) -> None:
    """Die here if the point is armed and this is its N-th time. KeyError if the point is not in `POINTS`."""
    if _armed.name != name:
        POINTS[name]
        return
    with _armed.lock:
        _armed.left -= 1
        if _armed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
