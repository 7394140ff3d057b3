"""Waiting for what a subject does in its own time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from conformance.model import Failed

FIRST_POLL, LAST_POLL = 0.03, 0.4
_USUAL_LOOK = 0.1
"""Seconds that a look takes at most, where the machine has time for it."""
_MOST = 3.0
"""How many times longer a wait may be on a machine that is busy with other things."""
T = TypeVar("T")


def poll(
    probe: Callable[[], T | None],
    timeout: float,
    expected: str,
    seen: Callable[[], object] = lambda: "it did not happen",
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] | None = None,
) -> T:
    """The first truthy answer of `probe`. Raises Failed after `timeout` seconds, saying what was expected.

    Time is counted by looks: where one takes longer than it usually does, the machine is too busy for the subject as
    well, and that is not the subject's fault. `clock` and `pause` are what time passes by.
    """
    pause = pause or threading.Event().wait
    begin = last = clock()
    counted, interval = 0.0, FIRST_POLL
    while True:
        value = probe()
        if value:
            return value
        now = clock()
        counted += min(now - last, interval + _USUAL_LOOK)
        last = now
        if counted >= timeout or now - begin >= timeout * _MOST:
            raise Failed(f"{expected} within {timeout:g} s", str(seen()))
        pause(interval)
        interval = min(LAST_POLL, interval * 1.5)
