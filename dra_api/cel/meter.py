"""Actual costs: a number for each step, from the values that a stack of results shows (cel-go `runtimecost`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .attributes import Attribute, ConditionalAttribute
from .call_costs import call_cost
from .errors import CostLimitExceeded
from .frame import Frame

Note = Callable[[Frame, Any], None]


def _push(frame: Frame, id: int, value: Any) -> None:
    frame.stack.append((id, value))
    if frame.limit is not None and frame.cost > frame.limit:
        raise CostLimitExceeded("operation cancelled: actual cost limit exceeded")


def _drop(stack: list[tuple[int, Any]], ids: Sequence[int]) -> None:
    """Remove each id and all above it; ids that are not there leave the stack as it is."""
    for id in ids:
        for position in range(len(stack) - 1, -1, -1):
            if stack[position][0] == id:
                del stack[position:]
                break


def _take(stack: list[tuple[int, Any]], ids: Sequence[int]) -> list[Any] | None:
    """The values of ids with all above removed; None as soon as one is not there."""
    values: list[Any] = []
    for id in reversed(ids):
        for position in range(len(stack) - 1, -1, -1):
            if stack[position][0] == id:
                values.append(stack[position][1])
                del stack[position:]
                break
        else:
            return None
    return values[::-1]


class CostMeter:
    """Counts costs in the frame of an evaluation."""

    def constant(self, id: int) -> Note:
        """Constants cost nothing."""
        return lambda frame, value: _push(frame, id, value)

    def attribute(self, attribute: Attribute, id: int, *, presence: bool) -> Note:
        """A variable costs 1, a condition only its parts, `has()` only its qualifiers."""
        if isinstance(attribute, ConditionalAttribute):
            conditional = attribute

            def note_condition(frame: Frame, value: Any) -> None:
                ids = (conditional.falsy.id, conditional.truthy.id, conditional.condition_id)
                _drop(frame.stack, ids)
                if presence:
                    frame.cost -= 1
                _push(frame, id, value)

            return note_condition
        dropped = (attribute.id,)
        cost = 0 if presence else 1

        def note(frame: Frame, value: Any) -> None:
            _drop(frame.stack, dropped)
            frame.cost += cost
            _push(frame, id, value)

        return note

    def qualifier(self, id: int) -> Note:
        """A selection or index costs 1."""

        def note(frame: Frame, value: Any) -> None:
            frame.cost += 1
            _push(frame, id, value)

        return note

    def terms(self, id: int, ids: Sequence[int]) -> Note:
        """What costs only its parts."""
        dropped = tuple(ids)

        def note(frame: Frame, value: Any) -> None:
            _drop(frame.stack, dropped)
            _push(frame, id, value)

        return note

    def call(self, id: int, function: str, overload: str, ids: Sequence[int]) -> Note:
        """A call costs by its arguments; nothing when one of them was not evaluated."""
        taken = tuple(ids)

        def note(frame: Frame, value: Any) -> None:
            args = _take(frame.stack, taken)
            if args is not None:
                frame.cost += call_cost(function, overload, args, value)
            _push(frame, id, value)

        return note

    def constructor(self, id: int, ids: Sequence[int], cost: int) -> Note:
        """A list or map costs a fixed number."""
        taken = tuple(ids)

        def note(frame: Frame, value: Any) -> None:
            _take(frame.stack, taken)
            frame.cost += cost
            _push(frame, id, value)

        return note

    def other(self, id: int) -> Note:
        """What costs nothing itself."""
        return self.constant(id)
