"""The clock of a cluster: real time, which can be skipped ahead."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import threading
import time
from collections.abc import Callable
from typing import Final

_FOREVER: Final = 24 * 3600.0


class Clock:
    """Real time plus what was advanced. Thread safe.

    Sleepers wake when the time of the clock has come, be it by waiting or by `advance`.
    """

    def __init__(self, time_source: Callable[[], float] = time.time) -> None:
        """`time_source` gives seconds since the epoch."""
        self._time = time_source
        self._lock = threading.Lock()
        self._advanced = 0.0
        self._wakers: set[Callable[[], None]] = set()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._time() + self._advanced

    def timestamp(self) -> str:
        """Now in the form of metav1.Time: RFC 3339 with seconds."""
        return stamp(self.now())

    def micro_timestamp(self) -> str:
        """Now in the form of metav1.MicroTime."""
        moment = datetime.datetime.fromtimestamp(self.now(), datetime.UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def advance(self, seconds: float) -> None:
        """Skip ahead; raises ValueError for a step back."""
        if seconds < 0:
            raise ValueError(f"a clock goes forward only, not {seconds} s")
        with self._lock:
            self._advanced += seconds
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock shows `seconds` more than now."""
        await self.sleep_until(self.now() + seconds)

    async def sleep_until(self, moment: float) -> None:
        """Wait until the clock shows `moment`; returns at once when that has passed (after other tasks had a turn)."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()

        def wake() -> None:
            # The loop of a sleeper may be closed by now.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

        with self._lock:
            self._wakers.add(wake)
        try:
            await asyncio.sleep(0)
            while (left := moment - self.now()) > 0:
                event.clear()
                timer = loop.call_later(min(left, _FOREVER), event.set)
                try:
                    # An advance between the look at the time and the clear has been seen by the next look.
                    if moment - self.now() > 0:
                        await event.wait()
                finally:
                    timer.cancel()
        finally:
            with self._lock:
                self._wakers.discard(wake)


def stamp(moment: float) -> str:
    """Seconds since the epoch in the form of metav1.Time."""
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_stamp(text: str) -> float:
    """Seconds since the epoch of a metav1.Time or MicroTime. Raises ValueError."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
