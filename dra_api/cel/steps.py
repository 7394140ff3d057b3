"""Planned parts of an expression. Each compiles to a closure; with a meter, to one that is observed.

A meter sees the value (or the error) of every step in the order of evaluation, as cel-go's cost tracker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from .attributes import (
    Attribute,
    ComputedQualifier,
    ConditionalAttribute,
    PresenceQualifier,
    Qualifier,
    RelativeAttribute,
    Run,
    VariableAttribute,
    plain_lookup,
)
from .errors import EvalError, InternalError, no_such_overload
from .frame import Frame
from .values import GO_NAMES, MISSING, OptionalValue, equal

Note = Callable[[Frame, Any], None]
"""Takes the value, or the error, of one step."""


class Meter(Protocol):
    """What observes an evaluation. Each method yields the note for one kind of step."""

    def constant(self, id: int) -> Note:
        """For a constant."""

    def attribute(self, attribute: Attribute, id: int, *, presence: bool) -> Note:
        """For a variable with its qualifiers, or `has()`."""

    def qualifier(self, id: int) -> Note:
        """For one selection or index."""

    def terms(self, id: int, ids: Sequence[int]) -> Note:
        """For what is nothing but its parts."""

    def call(self, id: int, function: str, overload: str, ids: Sequence[int]) -> Note:
        """For a function with its arguments."""

    def constructor(self, id: int, ids: Sequence[int], cost: int) -> Note:
        """For a list, map or message."""

    def other(self, id: int) -> Note:
        """For anything else."""


class Step:
    """A planned part."""

    id: int

    def compile(self, meter: Meter | None) -> Run:
        """The closure that evaluates the part."""
        raise NotImplementedError


def watched(run: Run, note: Note) -> Run:
    """A closure that notes each value or error."""

    def observed(frame: Frame) -> Any:
        try:
            value = run(frame)
        except EvalError as error:
            note(frame, error)
            raise
        note(frame, value)
        return value

    return observed


class ConstantStep(Step):
    """A value known beforehand."""

    def __init__(self, id: int, value: Any) -> None:
        self.id = id
        self.value = value

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        value = self.value
        if meter is None:
            return lambda frame: value
        note = meter.constant(self.id)

        def run(frame: Frame) -> Any:
            note(frame, value)
            return value

        return run


class _WatchedQualifier(Qualifier):
    """Notes what a qualifier found."""

    __slots__ = ("inner", "note")

    def __init__(self, inner: Qualifier, note: Note) -> None:
        super().__init__(inner.id, inner.optional)
        self.inner = inner
        self.note = note

    def qualify(self, frame: Frame, obj: Any) -> Any:
        """See Qualifier."""
        try:
            found = self.inner.qualify(frame, obj)
        except EvalError as error:
            self.note(frame, error)
            raise
        self.note(frame, found)
        return found

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
        """See Qualifier."""
        try:
            found = self.inner.qualify_if_present(frame, obj, presence_only)
        except EvalError as error:
            if presence_only:
                self.note(frame, error)
            raise
        if found is not MISSING:
            self.note(frame, found)
        elif presence_only:
            self.note(frame, False)
        return found


class AttributeStep(Step):
    """An attribute that later parts may add qualifiers to, and `has()` when `presence_id` is set.

    With `observed` off its qualifiers are not metered: upstream loses sight of them behind a leading dot.
    """

    def __init__(self, id: int, plan: Callable[[Meter | None], Attribute]) -> None:
        self.id = id
        self._plan = plan
        self._qualifiers: list[Callable[[Meter | None], Qualifier]] = []
        self.presence_id: int | None = None
        self.observed = True

    def add(self, id: int, qualifier: Callable[[Meter | None], Qualifier]) -> None:
        """Add a qualifier; the step then stands for the node of it."""
        self.id = id
        self._qualifiers.append(qualifier)

    def attribute(self, meter: Meter | None) -> Attribute:
        """The attribute with its qualifiers, those observed."""
        attribute = self._plan(meter)
        last = len(self._qualifiers) - 1
        for position, make in enumerate(self._qualifiers):
            qualifier = make(meter)
            if self.presence_id is not None and position == last:
                qualifier = PresenceQualifier(qualifier)
            if meter is not None and self.observed:
                qualifier = _WatchedQualifier(qualifier, meter.qualifier(qualifier.id))
            attribute.add(qualifier)
        return attribute

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        attribute = self.attribute(meter)
        if meter is None and type(attribute) is VariableAttribute:
            keys = attribute.plain_keys()
            if keys is not None:
                return plain_lookup(keys)
        resolve = attribute.resolve
        if self.presence_id is not None:
            inner = resolve

            def resolve(frame: Frame) -> Any:
                value = inner(frame)
                return value.value is not MISSING if type(value) is OptionalValue else value

        if meter is None:
            return resolve
        presence = self.presence_id is not None
        return watched(resolve, meter.attribute(attribute, self.id, presence=presence))


def variable(id: int, slot: int, init: Step | None = None) -> AttributeStep:
    """A variable."""
    return AttributeStep(
        id, lambda meter: VariableAttribute(id, slot, None if init is None else init.compile(meter))
    )


def relative(id: int, operand: Step) -> AttributeStep:
    """A computed value that is selected from."""
    return AttributeStep(id, lambda meter: RelativeAttribute(id, operand.compile(meter)))


def conditional(id: int, condition: Step, truthy: Step, falsy: Step) -> AttributeStep:
    """`condition ? truthy : falsy`."""

    def side(step: Step, meter: Meter | None) -> Attribute:
        if isinstance(step, AttributeStep):
            return step.attribute(meter)
        return RelativeAttribute(step.id, step.compile(meter))

    return AttributeStep(
        id,
        lambda meter: ConditionalAttribute(
            id, condition.id, condition.compile(meter), side(truthy, meter), side(falsy, meter)
        ),
    )


def computed(id: int, index: Step, optional: bool) -> Callable[[Meter | None], Qualifier]:
    """An index that is computed."""

    def make(meter: Meter | None) -> Qualifier:
        if isinstance(index, AttributeStep):
            attribute = index.attribute(meter)
        else:
            attribute = RelativeAttribute(id, index.compile(meter))
        return ComputedQualifier(id, attribute, optional)

    return make


class LogicalStep(Step):
    """`&&` (decided by false) or `||` (decided by true): errors count only when no term decides."""

    def __init__(self, id: int, terms: Sequence[Step], decisive: bool) -> None:
        self.id = id
        self._terms = terms
        self._decisive = decisive

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        # Nested terms of the same kind count when costs do not: errors are absorbed, and kept, just the same.
        terms = self._terms if meter is not None else self._flat()
        runs = tuple(term.compile(meter) for term in terms)
        decisive = self._decisive

        def run(frame: Frame) -> Any:
            failure: EvalError | None = None
            for term in runs:
                try:
                    value = term(frame)
                except EvalError as error:
                    failure = failure or error
                    continue
                if value is decisive:
                    return decisive
                if value is not True and value is not False and failure is None:
                    failure = no_such_overload()
            if failure is not None:
                raise failure
            return not decisive

        if meter is None:
            return run
        return watched(run, meter.terms(self.id, [term.id for term in self._terms]))

    def _flat(self) -> Iterator[Step]:
        for term in self._terms:
            if type(term) is LogicalStep and term._decisive is self._decisive:
                yield from term._flat()
            else:
                yield term


def both(left: Run, right: Run) -> Callable[[Frame], tuple[Any, Any]]:
    """Evaluates both sides, also when the left one fails: its error is the result, but both count."""

    def run(frame: Frame) -> tuple[Any, Any]:
        try:
            first = left(frame)
        except EvalError:
            with suppress(EvalError):
                right(frame)
            raise
        return first, right(frame)

    return run


class EqualityStep(Step):
    """`==` and `!=`."""

    def __init__(self, id: int, left: Step, right: Step, *, negated: bool) -> None:
        self.id = id
        self._sides = (left, right)
        self._negated = negated

    def compile(self, meter: Meter | None) -> Run:
        """See Step."""
        left, right = self._sides
        if (
            meter is None
            and type(right) is ConstantStep
            and type(right.value) in _PLAIN
            and not self._negated
        ):
            return _equals_constant(left.compile(None), right.value)
        sides = both(left.compile(meter), right.compile(meter))

        def equals(frame: Frame) -> Any:
            first, second = sides(frame)
            result = equal(first, second)
            if result is None:
                raise no_such_overload()
            return result

        def differs(frame: Frame) -> Any:
            first, second = sides(frame)
            return equal(first, second) is not True

        run = differs if self._negated else equals
        if meter is None:
            return run
        function, overload = ("_!=_", "not_equals") if self._negated else ("_==_", "equals")
        return watched(run, meter.call(self.id, function, overload, (left.id, right.id)))


_PLAIN: Final = frozenset((str, bool, int))


def _equals_constant(left: Run, value: Any) -> Run:
    """`left == value`, quickly where both have the same class."""
    plain = type(value)

    def equals(frame: Frame) -> Any:
        first = left(frame)
        if type(first) is plain:
            return first == value
        result = equal(first, value)
        if result is None:
            raise no_such_overload()
        return result

    return equals


def unhashable(key: Any) -> InternalError:
    """What upstream says of a value of a class in UNHASHABLE as the key of a map of its own."""
    return InternalError(f"internal error: runtime error: hash of unhashable type {GO_NAMES[type(key)]}")
