"""A clock that tests skip ahead, and waiting for what is due then."""

from __future__ import annotations

import time

from clusters.clock import Clock

_STALL = 3.0
"""Seconds of real time; what is awaited comes within some milliseconds of a skip unless the machine is busy."""


class SkippedClock(Clock):
    """A clock that knows its last skip."""

    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0

    def advance(self, seconds: float) -> None:
        """Skip ahead."""
        self._last = seconds
        super().advance(seconds)

    def again(self) -> None:
        """Make the last skip again."""
        super().advance(self._last)


class Wait:
    """A deadline in real time, during which the last skip is made again whenever nothing happens.

    A component that sets a timer just after a skip, about something that the test has seen before it, counts from the
    skip's end: without a further one the test would wait for the whole span.
    """

    def __init__(self, clock: SkippedClock, seconds: float) -> None:
        self._clock = clock
        self._next = time.monotonic() + _STALL
        self._deadline = time.monotonic() + seconds

    def over(self) -> bool:
        """Whether the deadline has passed."""
        now = time.monotonic()
        if now > self._next:
            self._next = now + _STALL
            self._clock.again()
        return now > self._deadline
