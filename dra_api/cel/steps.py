"""Planned parts of an expression. Each compiles to a closure; with a meter, to one that is observed.

A meter sees the value (or the error) of every step in the order of evaluation, as cel-go's cost tracker does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

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
from .dispatch import Implementation
from .errors import EvalError, InternalError, no_such_overload
from .frame import Frame
from .values import GO_NAMES, MISSING, CelMap, OptionalValue, equal, shown


class Meter(Protocol):
    """What observes an evaluation. Each method yields the closure that notes the value of one kind of step."""

    def constant(self, id: int) -> Callable[[Frame, Any], None]: ...
    def attribute(self, attribute: Attribute, id: int, *, presence: bool) -> Callable[[Frame, Any], None]: ...
    def qualifier(self, id: int) -> Callable[[Frame, Any], None]: ...
    def terms(self, id: int, ids: Sequence[int]) -> Callable[[Frame, Any], None]: ...
    def call(
        self, id: int, function: str, overload: str, ids: Sequence[int]
    ) -> Callable[[Frame, Any], None]: ...
    def constructor(self, id: int, ids: Sequence[int], cost: int) -> Callable[[Frame, Any], None]: ...
    def other(self, id: int) -> Callable[[Frame, Any], None]: ...


class Step:
    """A planned part."""

    id: int

    def compile(self, meter: Meter | None) -> Run:
        """The closure that evaluates the part."""
        raise NotImplementedError


def _watched(run: Run, note: Callable[[Frame, Any], None]) -> Run:
    def watched(frame: Frame) -> Any:
        try:
            value = run(frame)
        except EvalError as error:
            note(frame, error)
            raise
        note(frame, value)
        return value

    return watched


class ConstantStep(Step):
    """A value known beforehand."""

    def __init__(self, id: int, value: Any) -> None:
        self.id = id
        self.value = value

    def compile(self, meter: Meter | None) -> Run:
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

    def __init__(self, inner: Qualifier, note: Callable[[Frame, Any], None]) -> None:
        super().__init__(inner.id, inner.optional)
        self.inner = inner
        self.note = note

    def qualify(self, frame: Frame, obj: Any) -> Any:
        try:
            found = self.inner.qualify(frame, obj)
        except EvalError as error:
            self.note(frame, error)
            raise
        self.note(frame, found)
        return found

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
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
        return _watched(resolve, meter.attribute(attribute, self.id, presence=presence))


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
        runs = tuple(term.compile(meter) for term in self._terms)
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
        return _watched(run, meter.terms(self.id, [term.id for term in self._terms]))


def _both(left: Run, right: Run) -> Callable[[Frame], tuple[Any, Any]]:
    """Evaluates both sides, also when the left one fails: its error is the result, but both count."""

    def run(frame: Frame) -> tuple[Any, Any]:
        try:
            first = left(frame)
        except EvalError:
            try:
                right(frame)
            except EvalError:
                pass
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
        left, right = self._sides
        both = _both(left.compile(meter), right.compile(meter))

        def equals(frame: Frame) -> Any:
            first, second = both(frame)
            result = equal(first, second)
            if result is None:
                raise no_such_overload()
            return result

        def differs(frame: Frame) -> Any:
            first, second = both(frame)
            return equal(first, second) is not True

        run = differs if self._negated else equals
        if meter is None:
            return run
        function, overload = ("_!=_", "not_equals") if self._negated else ("_==_", "equals")
        return _watched(run, meter.call(self.id, function, overload, (left.id, right.id)))


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
        run = self._run(tuple(arg.compile(meter) for arg in self.args))
        if meter is None:
            return run
        return _watched(run, meter.call(self.id, self.function, self.overload, [arg.id for arg in self.args]))

    def _run(self, args: tuple[Run, ...]) -> Run:
        call = self.implementation.call
        if len(args) == 1:
            only = args[0]
            return lambda frame: call(only(frame))
        if len(args) == 2 and not self.implementation.stops_early:
            both = _both(*args)
            return lambda frame: call(*both(frame))
        return lambda frame: call(*[arg(frame) for arg in args])


class ListStep(Step):
    """`[a, ?b]`."""

    def __init__(self, id: int, elements: Sequence[Step], optionals: frozenset[int]) -> None:
        self.id = id
        self.elements = elements
        self._optionals = optionals

    def compile(self, meter: Meter | None) -> Run:
        runs = tuple(element.compile(meter) for element in self.elements)
        optionals = self._optionals

        def plain(frame: Frame) -> Any:
            return [run(frame) for run in runs]

        def mixed(frame: Frame) -> Any:
            found: list[Any] = []
            for position, run in enumerate(runs):
                value = run(frame)
                if position in optionals:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional list element from non-optional value {shown(value)}"
                        )
                    if value.value is MISSING:
                        continue
                    value = value.value
                found.append(value)
            return found

        run = mixed if optionals else plain
        if meter is None:
            return run
        return _watched(run, meter.constructor(self.id, [each.id for each in self.elements], 10))


class MapStep(Step):
    """`{key: value, ?key: value}`; entries are (key, value, optional)."""

    def __init__(self, id: int, entries: Sequence[tuple[Step, Step, bool]]) -> None:
        self.id = id
        self.entries = entries

    def compile(self, meter: Meter | None) -> Run:
        runs = tuple(
            (key.compile(meter), value.compile(meter), optional) for key, value, optional in self.entries
        )

        def run(frame: Frame) -> Any:
            found = CelMap()
            for make_key, make_value, optional in runs:
                key = make_key(frame)
                value = make_value(frame)
                if optional:
                    if type(value) is not OptionalValue:
                        raise EvalError(
                            f"cannot initialize optional entry '{shown(key)}' from non-optional value {shown(value)}"
                        )
                    if value.value is MISSING:
                        found.remove(key)
                        continue
                    value = value.value
                found.put(key, value)
            return found

        if meter is None:
            return run
        ids = [step.id for key, value, _ in self.entries for step in (key, value)]
        return _watched(run, meter.constructor(self.id, ids, 30))


class StructStep(Step):
    """`Name{field: value}`: the only type that can be named has no values."""

    def __init__(self, id: int, name: str, values: Sequence[Step]) -> None:
        self.id = id
        self._name = name
        self._values = values

    def compile(self, meter: Meter | None) -> Run:
        runs = tuple(value.compile(meter) for value in self._values)
        name = self._name

        def run(frame: Frame) -> Any:
            for value in runs:
                value(frame)
            raise EvalError(f"unknown type '{name}'")

        if meter is None:
            return run
        return _watched(run, meter.constructor(self.id, [value.id for value in self._values], 40))


class MembershipStep(Step):
    """`x in [constants]`."""

    def __init__(self, id: int, element: Step, values: frozenset[tuple[type, Any]]) -> None:
        self.id = id
        self._element = element
        self._values = values

    def compile(self, meter: Meter | None) -> Run:
        element, values = self._element.compile(meter), self._values

        def run(frame: Frame) -> Any:
            value = element(frame)
            kind = type(value)
            if kind is bytes or GO_NAMES.get(kind) == "cel.Semver":
                raise InternalError(
                    f"internal error: runtime error: hash of unhashable type {GO_NAMES[kind]}"
                )
            return (kind, value) in values if kind in _SCALARS else False

        return run if meter is None else _watched(run, meter.other(self.id))


_SCALARS = frozenset(kind for kind, name in GO_NAMES.items() if name.startswith("types."))


class OptionalOrStep(Step):
    """`optional.or(other)`, or `optional.orValue(other)` when `value` is set."""

    def __init__(self, id: int, left: Step, right: Step, *, value: bool) -> None:
        self.id = id
        self._left = left
        self._right = right
        self._value = value

    def compile(self, meter: Meter | None) -> Run:
        left, right, as_value = self._left.compile(meter), self._right.compile(meter), self._value

        def run(frame: Frame) -> Any:
            found = left(frame)
            if type(found) is not OptionalValue:
                raise no_such_overload()
            if found.value is not MISSING:
                return found.value if as_value else found
            other = right(frame)
            if not as_value and type(other) is not OptionalValue:
                raise no_such_overload()
            return other

        return run if meter is None else _watched(run, meter.other(self.id))
