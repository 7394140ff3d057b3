"""The state of one evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

INTERRUPT_FREQUENCY: Final = 100
"""After so many steps of loops the evaluation looks whether it was cancelled."""


class _Unset:
    """The type of UNSET."""


UNSET: Final = _Unset()
"""Stands in the slot of an accumulator that was not needed yet."""


class Frame:
    """Slots of variables, the cost so far and the stack by which costs are found.

    Slot 0 is the device. The stack holds (node id, value) in the order of evaluation.
    """

    __slots__ = ("_cancelled", "_interrupted", "_steps", "cost", "limit", "slots", "stack")

    def __init__(
        self, device: Any, slots: int, limit: int | None = None, cancelled: Callable[[], bool] | None = None
    ) -> None:
        self.slots: list[Any] = [UNSET] * slots
        self.slots[0] = device
        self.cost = 0
        self.limit = limit
        self.stack: list[tuple[int, Any]] = []
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
