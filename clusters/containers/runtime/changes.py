"""Who wants to know that a sandbox or a container of it has changed."""

from __future__ import annotations

import asyncio
import weakref


class Changes:
    """Ids of sandboxes whose state, or that of a container of theirs, changed since this object was made.

    An asynchronous iterator without an end until the runtime closes. An id that waits to be read is not queued
    twice. Nothing needs to be closed: a reader that is thrown away is forgotten.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._closed = False
        self._event = asyncio.Event()

    def put(self, sandbox_id: str) -> None:
        """Tell the reader."""
        self._waiting[sandbox_id] = None
        self._event.set()

    def end(self) -> None:
        """End the iteration after what is waiting."""
        self._closed = True
        self._event.set()

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> str:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._event.clear()
            await self._event.wait()
        sandbox_id = next(iter(self._waiting))
        del self._waiting[sandbox_id]
        return sandbox_id


class Notifier:
    """The readers of changes."""

    def __init__(self) -> None:
        self._readers: weakref.WeakSet[Changes] = weakref.WeakSet()
        self._closed = False

    def subscribe(self) -> Changes:
        """A new reader; it gets what changes from now on."""
        reader = Changes()
        if self._closed:
            reader.end()
        self._readers.add(reader)
        return reader

    def notify(self, sandbox_id: str) -> None:
        """Tell all readers."""
        for reader in list(self._readers):
            reader.put(sandbox_id)

    def close(self) -> None:
        """End all iterations."""
        self._closed = True
        for reader in list(self._readers):
            reader.end()
