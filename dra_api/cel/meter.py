"""Actual costs: a number for each step, from the values that a stack of results shows (cel-go `runtimecost`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .attributes import Attribute, ConditionalAttribute
from .call_costs import call_cost
from .errors import CostLimitExceededError
from .frame import Frame

Note = Callable[[Frame, Any], None]


def _push(frame: Frame, id: int, value: Any) -> None:
    frame.stack.push(id, value)
    if frame.limit is not None and frame.cost > frame.limit:
        raise CostLimitExceededError("operation cancelled: actual cost limit exceeded")


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
                frame.stack.drop(ids)
                if presence:
                    frame.cost -= 1
                _push(frame, id, value)

            return note_condition
        dropped = (attribute.id,)
        cost = 0 if presence else 1

        def note(frame: Frame, value: Any) -> None:
            frame.stack.drop(dropped)
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
            frame.stack.drop(dropped)
            _push(frame, id, value)

        return note

    def call(self, id: int, function: str, overload: str, ids: Sequence[int]) -> Note:
        """A call costs by its arguments; nothing when one of them was not evaluated."""
        taken = tuple(ids)

        def note(frame: Frame, value: Any) -> None:
            args = frame.stack.take(taken)
            if args is not None:
                # Upstream counts in 64 bits, beyond which sums begin again.
                frame.cost = (frame.cost + call_cost(function, overload, args, value)) % 2**64
            _push(frame, id, value)

        return note

    def constructor(self, id: int, ids: Sequence[int], cost: int) -> Note:
        """A list or map costs a fixed number."""
        taken = tuple(ids)

        def note(frame: Frame, value: Any) -> None:
            frame.stack.take(taken)
            frame.cost += cost
            _push(frame, id, value)

        return note

    def other(self, id: int) -> Note:
        """What costs nothing itself."""
        return self.constant(id)
