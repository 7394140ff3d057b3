"""Planned calls: functions, membership in constants, alternatives of optionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .attributes import Run
from .dispatch import Implementation
from .errors import EvalError, InternalError, no_such_overload
from .frame import Frame
from .steps import ConstantStep, Meter, Step, both, unhashable, watched
from .values import GO_NAMES, LISTS, MISSING, UNHASHABLE, Duration, OptionalValue, Timestamp, UInt

_NO_LIST: Final = "internal error: interface conversion: {} is not traits.Lister: missing method {}"
_NO_INT: Final = "internal error: interface conversion: ref.Val is {}, not types.Int"
_ADDABLE: Final = (int, UInt, float, str, bytes, Duration, Timestamp)


class CallStep(Step):
    """A function; `overload` is its id when only one is possible, else empty."""

    def __init__(
        self, id: int, function: str, overload: str, args: Sequence[Step], implementation: Implementation
    ) -> None:
        self.id = id
        self.function = function
        self.overload = overload
        self.args = tuple(args)
        self.implementation = implementation

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        plain = tuple(arg.compile(meter) for arg in self.args)
        runs = tuple(self._argument(index, run) for index, run in enumerate(plain))
        if meter is None:
            last = self.args[-1] if self.args else None
            if len(runs) == 2 and type(last) is ConstantStep and runs[1] is plain[1]:
                return _with_constant(self.implementation.call, runs[0], last.value)
            return self._run(runs)
        run = self._run(runs)
        return watched(run, meter.call(self.id, self.function, self.overload, [arg.id for arg in self.args]))

    def _argument(self, index: int, run: Run) -> Run:
        """Upstream's cost tracker breaks down over anything else where it wants a number, or to count a list."""
        if self.overload == "list_flatten_int" and index == 1:
            return _counted_number(run)
        counted = 1 if self.overload.endswith("_sortByAssociatedKeys") else 0
        lists = self.overload == "list_distinct" or self.overload.endswith(("_sort", "_sortByAssociatedKeys"))
        if not lists or index != counted:
            return run

        def counting(frame: Frame) -> Any:
            try:
                value = run(frame)
            except EvalError:
                raise InternalError(_NO_LIST.format("*types.Err", "Add")) from None
            if isinstance(value, LISTS):
                return value
            kind = type(value)
            raise InternalError(_NO_LIST.format(GO_NAMES[kind], "Contains" if kind in _ADDABLE else "Add"))

        return counting

    def _run(self, args: tuple[Run, ...]) -> Run:
        call = self.implementation.call
        if len(args) == 1:
            only = args[0]
            return lambda frame: call(only(frame))
        if len(args) == 2 and not self.implementation.stops_early:
            sides = both(*args)
            return lambda frame: call(*sides(frame))
        return lambda frame: call(*[arg(frame) for arg in args])


def _with_constant(call: Callable[..., Any], left: Run, value: Any) -> Run:
    """A constant need not be evaluated."""
    return lambda frame: call(left(frame), value)


def _counted_number(run: Run) -> Run:
    def counting(frame: Frame) -> Any:
        try:
            value = run(frame)
        except EvalError:
            raise InternalError(_NO_INT.format("*types.Err")) from None
        if type(value) is int:
            return value
        raise InternalError(_NO_INT.format(GO_NAMES[type(value)]))

    return counting


class MembershipStep(Step):
    """`x in [constants]`."""

    def __init__(self, id: int, element: Step, values: frozenset[tuple[type, Any]]) -> None:
        self.id = id
        self._element = element
        self._values = values

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        element, values = self._element.compile(meter), self._values

        def run(frame: Frame) -> Any:
            value = element(frame)
            kind = type(value)
            if kind in UNHASHABLE:
                raise unhashable(value)
            return (kind, value) in values if kind in _SCALARS else False

        return run if meter is None else watched(run, meter.other(self.id))


_SCALARS = frozenset(kind for kind, name in GO_NAMES.items() if name.startswith("types."))


class OptionalOrStep(Step):
    """`optional.or(other)`, or `optional.orValue(other)` when `value` is set."""

    def __init__(self, id: int, left: Step, right: Step, *, value: bool) -> None:
        self.id = id
        self._left = left
        self._right = right
        self._value = value

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        left, right, as_value = self._left.compile(meter), self._right.compile(meter), self._value

        def run(frame: Frame) -> Any:
            found = left(frame)
            if type(found) is not OptionalValue:
                raise no_such_overload()
            if found.value is not MISSING:
                return found.value if as_value else found
            # Upstream does not look whether what `or` falls back to is an optional.
            return right(frame)

        return run if meter is None else watched(run, meter.other(self.id))
