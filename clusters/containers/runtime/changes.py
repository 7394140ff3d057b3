"""Who wants to know that a sandbox or a container of it has changed."""

from __future__ import annotations

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from clusters.containers.model import ContainerStatus, Sandbox

Item = TypeVar("Item")


class EventKind(StrEnum):
    """What happened; the values are CRI's."""

    CREATED = "CONTAINER_CREATED_EVENT"
    STARTED = "CONTAINER_STARTED_EVENT"
    STOPPED = "CONTAINER_STOPPED_EVENT"
    DELETED = "CONTAINER_DELETED_EVENT"


@dataclass(frozen=True)
class Event:
    """Something that happened to a container or to a sandbox, with what held right after it.

    `id` is the container's or the sandbox's, `at` seconds since the epoch; `containers` are those of the sandbox.
    """

    id: str
    kind: EventKind
    at: float
    sandbox: Sandbox
    containers: tuple[ContainerStatus, ...] = ()


class Reader(Generic[Item]):
    """What a notifier told since this object was made.

    An asynchronous iterator without an end until the runtime closes. Nothing needs to be closed: a reader that is
    thrown away is forgotten.
    """

    def __init__(self, key: Callable[[Item], Hashable]) -> None:
        """An item that waits to be read is not queued again: `key` tells which are the same."""
        self._key = key
        self._waiting: OrderedDict[Hashable, Item] = OrderedDict()
        self._closed = False
        self._event = asyncio.Event()

    def put(self, item: Item) -> None:
        """Tell the reader."""
        self._waiting.setdefault(self._key(item), item)
        self._event.set()

    def end(self) -> None:
        """End the iteration after what is waiting."""
        self._closed = True
        self._event.set()

    def __aiter__(self) -> Reader[Item]:
        return self

    async def __anext__(self) -> Item:
        while not self._waiting:
            if self._closed:
                raise StopAsyncIteration
            self._event.clear()
            await self._event.wait()
        return self._waiting.popitem(last=False)[1]


Changes = Reader[str]
"""Ids of sandboxes whose state, or that of a container of theirs, changed; each once."""
Events = Reader[Event]
"""Everything that happened, in order; of one container or sandbox each kind happens once."""


class _Readers(Generic[Item]):
    def __init__(self, key: Callable[[Item], Hashable]) -> None:
        self._key = key
        self._readers: weakref.WeakSet[Reader[Item]] = weakref.WeakSet()
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._readers)

    def subscribe(self) -> Reader[Item]:
        """A new reader; it gets what happens from now on."""
        reader = Reader(self._key)
        if self._closed:
            reader.end()
        self._readers.add(reader)
        return reader

    def tell(self, item: Item) -> None:
        """Tell all readers."""
        for reader in list(self._readers):
            reader.put(item)

    def close(self) -> None:
        """End all iterations."""
        self._closed = True
        for reader in list(self._readers):
            reader.end()


class Notifier:
    """The readers of changes and of events."""

    def __init__(self) -> None:
        self.changes: _Readers[str] = _Readers(lambda sandbox_id: sandbox_id)
        self.events: _Readers[Event] = _Readers(lambda event: (event.id, event.kind))

    def close(self) -> None:
        """End all iterations."""
        self.changes.close()
        self.events.close()
