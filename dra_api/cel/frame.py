"""The state of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

INTERRUPT_FREQUENCY: Final = 100
"""After so many steps of loops the evaluation looks whether it was cancelled."""


class _Unset:
    """The type of UNSET."""


UNSET: Final = _Unset()
"""Stands in the slot of an accumulator that was not needed yet."""


class ResultStack:
    """Values with the ids of their nodes in the order of evaluation; ids are found without a search."""

    __slots__ = ("_entries", "_places")

    def __init__(self) -> None:
        self._entries: list[tuple[int, Any]] = []
        self._places: dict[int, list[int]] = {}

    def push(self, id: int, value: Any) -> None:
        """Add a value."""
        self._places.setdefault(id, []).append(len(self._entries))
        self._entries.append((id, value))

    def drop(self, ids: Sequence[int]) -> None:
        """Remove the latest of each id and all above it; ids that are not there change nothing."""
        for id in ids:
            places = self._places.get(id)
            if places:
                self._cut(places[-1])

    def take(self, ids: Sequence[int]) -> list[Any] | None:
        """The latest values of ids, which are removed with all above; None as soon as one is not there."""
        values: list[Any] = []
        for id in reversed(ids):
            places = self._places.get(id)
            if not places:
                return None
            values.append(self._entries[places[-1]][1])
            self._cut(places[-1])
        return values[::-1]

    def _cut(self, length: int) -> None:
        for id, _ in self._entries[length:]:
            self._places[id].pop()
        del self._entries[length:]


class Frame:
    """Slots of variables (the device is in slot 0), the cost so far and the stack by which costs are found.

    Costs are counted in frames with a limit only.
    """

    __slots__ = ("_cancelled", "_interrupted", "_steps", "cost", "limit", "slots", "stack")

    def __init__(
        self, device: Any, slots: int, limit: int | None = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        self.slots: list[Any] = [UNSET] * slots
        self.slots[0] = device
        self.cost = 0
        self.limit = limit
        if limit is not None:
            self.stack = ResultStack()
        self._cancelled = cancelled
        self._interrupted = False
        self._steps = 0

    def interrupted(self) -> bool:
        """Whether the evaluation is to end; called after each step of a loop."""
        if self._cancelled is None or self._interrupted:
            return self._interrupted
        self._steps += 1
        if self._steps % INTERRUPT_FREQUENCY == 0 and self._cancelled():
            self._interrupted = True
        return self._interrupted
