"""A heap of keyed entries that can be replaced and removed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

Key = tuple[str, str]


class Keyed(Protocol):
    """What a heap holds."""

    @property
    def key(self) -> Key:
        """What tells entries apart."""
        ...


Entry = TypeVar("Entry", bound=Keyed)


class Heap(Generic[Entry]):
    """The smallest entry by `order` comes first, of equal ones the one that was put in first."""

    def __init__(self, order: Callable[[Entry], Any]) -> None:
        self._order = order
        self._numbers = count()
        self._heap: list[tuple[Any, int, Key]] = []
        self._entries: dict[Key, tuple[int, Entry]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter([entry for _, entry in self._entries.values()])

    def push(self, entry: Entry) -> None:
        """Add or replace an entry."""
        number = next(self._numbers)
        self._entries[entry.key] = (number, entry)
        heapq.heappush(self._heap, (self._order(entry), number, entry.key))

    def get(self, key: Key) -> Entry | None:
        """An entry by key."""
        found = self._entries.get(key)
        return found[1] if found else None

    def remove(self, key: Key) -> Entry | None:
        """Take out an entry by key."""
        found = self._entries.pop(key, None)
        return found[1] if found else None

    def peek(self) -> Entry | None:
        """The first entry."""
        while self._heap:
            _, number, key = self._heap[0]
            found = self._entries.get(key)
            if found is not None and found[0] == number:
                return found[1]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Entry | None:
        """Take out the first entry."""
        entry = self.peek()
        if entry is not None:
            heapq.heappop(self._heap)
            del self._entries[entry.key]
        return entry
