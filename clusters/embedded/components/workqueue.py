"""A queue of keys with the properties that controllers rely on.

A key that is added several times while it waits is handled once; a key that is added while it is handled is handled
again afterwards; one key is never handled twice at the same time. Failures are retried with exponential backoff.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from clusters.client import ClientError
from clusters.clock import Clock

_LOG: Final = logging.getLogger(__name__)
# client-go's default rate limiter of a controller: 5 ms doubled up to 1000 s.
_BASE_DELAY: Final = 0.005
_MAX_DELAY: Final = 1000.0
_MAX_EXPONENT: Final = 18

Key = TypeVar("Key")


class SyncError(Exception):
    """A key that cannot be handled now, for a reason that is no fault of the controller; it is tried again."""


class WorkQueue(Generic[Key]):
    """Keys waiting to be handled; to be used in one event loop."""

    def __init__(
        self, clock: Clock, *, base_delay: float = _BASE_DELAY, max_delay: float = _MAX_DELAY
    ) -> None:
        """`base_delay` and `max_delay` are seconds of `add_rate_limited`."""
        self._clock = clock
        self._base, self._max = base_delay, max_delay
        self._order: deque[Key] = deque()
        self._dirty: set[Key] = set()
        self._busy: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._ready = asyncio.Event()
        self._later: dict[Key, tuple[float, asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def add(self, key: Key) -> None:
        """Handle the key as soon as possible."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._busy:
            self._order.append(key)
            self._ready.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Handle the key after a delay; of several delays of a key the shortest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.now() + seconds
        waiting = self._later.get(key)
        if waiting is not None:
            if waiting[0] <= due:
                return
            waiting[1].cancel()
        self._later[key] = (due, asyncio.get_running_loop().create_task(self._add_at(key, due)))

    async def _add_at(self, key: Key, due: float) -> None:
        await self._clock.sleep_until(due)
        self._later.pop(key, None)
        self.add(key)

    def add_rate_limited(self, key: Key) -> None:
        """Handle the key again after a failure, each time later."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(self._base * 2 ** min(failures, _MAX_EXPONENT), self._max))

    def forget(self, key: Key) -> None:
        """The key was handled well: its next failure counts as the first."""
        self._failures.pop(key, None)

    def retries(self, key: Key) -> int:
        """How many times the key failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> Key:
        """The next key; `done` must follow."""
        while not self._order:
            self._ready.clear()
            await self._ready.wait()
        key = self._order.popleft()
        self._dirty.discard(key)
        self._busy.add(key)
        return key

    def done(self, key: Key) -> None:
        """The key is no longer being handled."""
        self._busy.discard(key)
        if key in self._dirty:
            self._order.append(key)
            self._ready.set()

    def close(self) -> None:
        """Cancel what waits for its time."""
        for _, task in self._later.values():
            task.cancel()
        self._later.clear()


async def run_workers(
    queue: WorkQueue[Key],
    sync: Callable[[Key], Awaitable[None]],
    workers: int = 1,
    name: str = "",
    log: logging.Logger = _LOG,
) -> None:
    """Handle keys until cancelled; one whose `sync` raises is retried later, the reason goes to the log."""

    async def work() -> None:
        while True:
            key = await queue.get()
            try:
                await sync(key)
            except (ClientError, SyncError) as error:
                log.info("%s %s: %s", name, key, error)
                queue.add_rate_limited(key)
            except Exception:
                log.exception("%s %s failed", name, key)
                queue.add_rate_limited(key)
            else:
                queue.forget(key)
            finally:
                queue.done(key)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    finally:
        queue.close()
