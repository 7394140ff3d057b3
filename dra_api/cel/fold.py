"""Loops: what comprehensions and bindings run as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .attributes import Run
from .errors import CancelledError, EvalError
from .frame import UNSET, Frame
from .steps import Meter, Step, watched
from .values import GO_NAMES, CelMap, MutableList, MutableMap


class FoldStep(Step):
    """A comprehension. The variables live in slots of their own; `init` is computed when it is needed."""

    def __init__(
        self,
        id: int,
        over: Step,
        init: Step,
        condition: Step,
        step: Step,
        result: Step,
        slots: tuple[int, int, int],
        *,
        pairs: bool,
    ) -> None:
        self.id = id
        self._parts = (over, condition, step, result)
        self._init = init
        self._slots = slots
        self._pairs = pairs

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        over, condition, step, result = (part.compile(meter) for part in self._parts)
        accu_slot, first_slot, second_slot = self._slots
        pairs = self._pairs

        def run(frame: Frame) -> Any:
            slots = frame.slots
            slots[accu_slot] = UNSET
            values = over(frame)
            for first, second in _pairs(values) if pairs else _singles(values):
                slots[first_slot] = first
                slots[second_slot] = second
                try:
                    if condition(frame) is False:
                        break
                except EvalError:
                    pass
                try:
                    slots[accu_slot] = step(frame)
                except EvalError as error:
                    slots[accu_slot] = error
                if frame.interrupted():
                    raise CancelledError("operation interrupted")
            found = result(frame)
            if type(found) is MutableList:
                return list(found)
            return CelMap(found.data) if type(found) is MutableMap else found

        return run if meter is None else watched(run, meter.terms(self.id, [self._parts[0].id]))


class InitStep(Step):
    """The first value of an accumulator; empty lists and maps are made to grow."""

    def __init__(self, inner: Step) -> None:
        self.id = inner.id
        self._inner = inner

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        inner = self._inner.compile(meter)

        def run(frame: Frame) -> Any:
            value = inner(frame)
            if isinstance(value, list) and not value:
                return MutableList()
            return MutableMap() if isinstance(value, CelMap) and not value.data else value

        return run


def _singles(values: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, list):
        return ((value, None) for value in values)
    if isinstance(values, CelMap):
        return ((key, None) for key, _ in values.items())
    raise EvalError(f"got '{GO_NAMES[type(values)]}', expected iterable type")


def _pairs(values: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(values, CelMap):
        return values.items()
    if isinstance(values, list):
        return iter(enumerate(values))
    raise EvalError(f"unsupported comprehension range type: {GO_NAMES[type(values)]}")
