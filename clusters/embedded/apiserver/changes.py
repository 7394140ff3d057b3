"""Changes of stored objects, and the queues that carry them to watch requests."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]
Predicate = Callable[[Object], bool]


@dataclass(slots=True)
class Change:
    """One write: `type` is ADDED, MODIFIED or DELETED; `object` carries the write's revision."""

    revision: int
    type: str
    namespace: str
    name: str
    object: Object
    previous: Object | None
    encoded: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    """Encodings by (event type, form): many watchers share one."""
    _left: Object | None = None

    def left(self) -> Object:
        """The previous object with this revision: what a watcher sees when its selector stops matching."""
        if self._left is None:
            previous = self.previous or self.object
            self._left = {
                **previous,
                "metadata": {**previous["metadata"], "resourceVersion": str(self.revision)},
            }
        return self._left


class Notice(NamedTuple):
    """A change as one watcher sees it: selectors can turn MODIFIED into ADDED or DELETED."""

    type: str
    object: Object
    change: Change


class Watcher:
    """A bounded queue of the changes which one watch request has yet to send."""

    def __init__(self, since: int, namespace: str | None, matches: Predicate | None, limit: int) -> None:
        self._since = since
        self._namespace = namespace
        self._matches = matches
        self._limit = limit
        self._queue: deque[Notice] = deque()
        self._wake = asyncio.Event()
        self.closed = False
        """True once nothing more will come: too slow a reader, or the server stops."""
        self.on_overflow: Callable[[], None] | None = None
        """Called when the reader was too slow: it may hang in a write that never ends."""

    def offer(self, change: Change) -> None:
        """Take a change if the watcher selects it; a full queue closes the watcher."""
        if self.closed or (self._namespace is not None and self._namespace != change.namespace):
            return
        if change.revision <= self._since:
            # A client may name a revision of the future.
            return
        notice = self._select(change)
        if notice is None:
            return
        if len(self._queue) >= self._limit:
            self.close()
            if self.on_overflow is not None:
                self.on_overflow()
            return
        self._queue.append(notice)
        self._wake.set()

    def _select(self, change: Change) -> Notice | None:
        if self._matches is None:
            return Notice(change.type, change.object, change)
        now = change.type != "DELETED" and self._matches(change.object)
        before = change.previous is not None and self._matches(change.previous)
        if now:
            return Notice("MODIFIED" if before else "ADDED", change.object, change)
        if not before:
            return None
        if change.type == "DELETED":
            return Notice("DELETED", change.object, change)
        return Notice("DELETED", change.left(), change)

    def close(self) -> None:
        """End the stream after what is queued."""
        self.closed = True
        self._wake.set()

    async def take(self, timeout: float) -> list[Notice]:
        """All queued notices; waits up to `timeout` seconds for the first."""
        if not self._queue and not self.closed:
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return []
        self._wake.clear()
        notices = list(self._queue)
        self._queue.clear()
        return notices
