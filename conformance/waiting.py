"""Waiting for what a subject does in its own time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from conformance.model import Failed

FIRST_POLL, LAST_POLL = 0.03, 0.4
_USUAL_LOOK = 0.1
"""Seconds that a look takes at most, where the machine has time for it."""
_MOST = 3.0
"""How many times longer a wait may be on a machine that is busy with other things."""
T = TypeVar("T")
_STARVED: ContextVar[Callable[[], float]] = ContextVar("starved", default=lambda: 0.0)


@contextlib.contextmanager
def heeding(starved: Callable[[], float]) -> Iterator[None]:
    """Within this, waits do not count the seconds in which the subject could have worked and got no processor.

    `starved` tells how many these were so far.
    """
    token = _STARVED.set(starved)
    try:
        yield
    finally:
        _STARVED.reset(token)


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
    well, and that is not the subject's fault. Nor is it when the subject itself gets no processor, see `heeding`.
    `clock` and `pause` are what time passes by.
    """
    pause = pause or threading.Event().wait
    starved = _STARVED.get()
    begin = last = clock()
    hungry, counted, interval = starved(), 0.0, FIRST_POLL
    while True:
        value = probe()
        if value:
            return value
        now, hungrier = clock(), starved()
        # Threads starve at the same time, and a new process begins anew.
        counted += max(0.0, min(now - last - max(0.0, hungrier - hungry), interval + _USUAL_LOOK))
        last, hungry = now, hungrier
        if counted >= timeout or now - begin >= timeout * _MOST:
            raise Failed(f"{expected} within {timeout:g} s", str(seen()))
        pause(interval)
        interval = min(LAST_POLL, interval * 1.5)
