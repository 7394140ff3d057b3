"""Variables with selections and indices behind them: `device.attributes["d"].?name` is one attribute.

How lookups fail, and what they cost, follows cel-go `interpreter/attributes.go`: a cost tracker sees each
qualifier, but the variable only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .errors import EvalError
from .frame import UNSET, Frame
from .values import (
    GO_NAMES,
    MISSING,
    NONE,
    RUNTIME_TYPES,
    CelMap,
    OptionalValue,
    UInt,
    shown,
)

Run = Callable[[Frame], Any]
_INDEXES: Final = (int, UInt, float)


def index_of(index: Any) -> int:
    """A list index as an int; whole doubles and uints count. Raises EvalError."""
    kind = type(index)
    if kind is int:
        return int(index)
    if kind is float and index == index and abs(index) != float("inf") and index == int(index):
        number = int(index)
        if -(2**63) <= number < 2**63:
            return number
    elif kind is UInt and index < 2**63:
        return int(index)
    if kind in _INDEXES:
        raise EvalError(f"unsupported index value {shown(index)} in list")
    raise EvalError(f"unsupported index type '{RUNTIME_TYPES[kind]}' in list")


def missing_key(key: Any) -> EvalError:
    """The error for a key that is not there."""
    return EvalError(f"no such key: {shown(key)}")


def look_up(obj: Any, key: Any) -> Any:
    """`obj[key]` or `obj.key`. Raises EvalError."""
    found = find(obj, key)
    if found is not MISSING:
        return found
    if isinstance(obj, list):
        raise EvalError(f"index out of bounds: {shown(key)}")
    raise missing_key(key)


def find(obj: Any, key: Any) -> Any:
    """`obj[key]` or MISSING; raises EvalError for an index that is none."""
    if isinstance(obj, CelMap):
        return obj.find(key)
    if isinstance(obj, list):
        position = index_of(key)
        return obj[position] if 0 <= position < len(obj) else MISSING
    return MISSING


class Qualifier:
    """A selection or an index. `optional` ones make the result optional."""

    __slots__ = ("id", "optional")

    def __init__(self, id: int, optional: bool) -> None:
        self.id = id
        self.optional = optional

    def qualify(self, frame: Frame, obj: Any) -> Any:
        """The part of the object. Raises EvalError."""
        raise NotImplementedError

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
        """The part or MISSING; with `presence_only` any other value for a part that is there."""
        raise NotImplementedError


class ConstantQualifier(Qualifier):
    """A name or an index known beforehand."""

    __slots__ = ("key",)

    def __init__(self, id: int, key: Any, optional: bool) -> None:
        super().__init__(id, optional)
        self.key = key

    def qualify(self, frame: Frame, obj: Any) -> Any:
        """See Qualifier."""
        return look_up(obj, self.key)

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
        """See Qualifier."""
        return find(obj, self.key)


class PresenceQualifier(Qualifier):
    """The last name within `has()`: yields whether it is there."""

    __slots__ = ("inner",)

    def __init__(self, inner: Qualifier) -> None:
        super().__init__(inner.id, inner.optional)
        self.inner = inner

    def qualify(self, frame: Frame, obj: Any) -> Any:
        """See Qualifier."""
        return self.inner.qualify_if_present(frame, obj, True) is not MISSING

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
        """See Qualifier."""
        return self.inner.qualify_if_present(frame, obj, True)


class ComputedQualifier(Qualifier):
    """An index that is an attribute itself. It is resolved, not observed, as a whole."""

    __slots__ = ("attribute",)

    def __init__(self, id: int, attribute: Attribute, optional: bool) -> None:
        super().__init__(id, optional)
        self.attribute = attribute

    def qualify(self, frame: Frame, obj: Any) -> Any:
        """See Qualifier."""
        return look_up(obj, _as_key(self.attribute.resolve(frame)))

    def qualify_if_present(self, frame: Frame, obj: Any, presence_only: bool) -> Any:
        """See Qualifier."""
        return find(obj, _as_key(self.attribute.resolve(frame)))


def _as_key(value: Any) -> Any:
    if type(value) in (str, int, UInt, bool, float):
        return value
    raise EvalError(f"invalid qualifier type: {GO_NAMES.get(type(value), type(value).__name__)}")


class Attribute:
    """Something that qualifiers can be added to."""

    @property
    def id(self) -> int:
        """The id of the node that the attribute stands for by now."""
        raise NotImplementedError

    def add(self, qualifier: Qualifier) -> None:
        """Add a qualifier."""
        raise NotImplementedError

    def resolve(self, frame: Frame) -> Any:
        """The value. Raises EvalError."""
        raise NotImplementedError


class _Qualified(Attribute):
    """A start with qualifiers."""

    def __init__(self, id: int) -> None:
        self._id = id
        self.qualifiers: list[Qualifier] = []

    @property
    def id(self) -> int:
        """See Attribute."""
        return self.qualifiers[-1].id if self.qualifiers else self._id

    def add(self, qualifier: Qualifier) -> None:
        """See Attribute."""
        self.qualifiers.append(qualifier)

    def _apply(self, frame: Frame, obj: Any) -> Any:
        optional = False
        if type(obj) is OptionalValue:
            if obj.value is MISSING:
                return obj
            optional, obj = True, obj.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            if optional:
                obj = qualifier.qualify_if_present(frame, obj, False)
                if obj is MISSING:
                    return NONE
            else:
                obj = qualifier.qualify(frame, obj)
        return OptionalValue(obj) if optional else obj


class VariableAttribute(_Qualified):
    """A variable by its slot. `init` computes the accumulator of a loop when it is first needed."""

    def __init__(self, id: int, slot: int, init: Run | None = None) -> None:
        super().__init__(id)
        self.slot = slot
        self._init = init

    def resolve(self, frame: Frame) -> Any:
        """See Attribute."""
        obj = frame.slots[self.slot]
        if obj is UNSET:
            obj = self._initial(frame)
        if isinstance(obj, EvalError):
            raise obj
        return self._apply(frame, obj)

    def _initial(self, frame: Frame) -> Any:
        # An error is kept as the value, so that a second look does not compute it again.
        try:
            obj = MISSING if self._init is None else self._init(frame)
        except EvalError as error:
            obj = error
        frame.slots[self.slot] = obj
        return obj

    def plain_keys(self) -> tuple[str, ...] | None:
        """The names when nothing but constant strings follow a variable that is always there, else None."""
        if self._init is not None or self.slot != 0:
            return None
        keys = [each.key for each in self.qualifiers if type(each) is ConstantQualifier and not each.optional]
        if len(keys) != len(self.qualifiers) or not all(type(key) is str for key in keys):
            return None
        return tuple(keys)


def plain_lookup(keys: tuple[str, ...]) -> Run:
    """Looks names up from the device, quickly."""

    def run(frame: Frame) -> Any:
        obj = frame.slots[0]
        for key in keys:
            obj = look_up(obj, key)
        return obj

    if len(keys) != 3:
        return run
    first, second, third = keys

    def run_three(frame: Frame) -> Any:
        try:  # device.attributes[domain].name, when it is there
            return frame.slots[0].data[first].data[second].data[third]
        except (KeyError, AttributeError):
            return run(frame)

    return run_three


class RelativeAttribute(_Qualified):
    """Any computed value with qualifiers."""

    def __init__(self, id: int, operand: Run) -> None:
        super().__init__(id)
        self._operand = operand

    def resolve(self, frame: Frame) -> Any:
        """See Attribute."""
        return self._apply(frame, self._operand(frame))


class ConditionalAttribute(Attribute):
    """`condition ? truthy : falsy`; qualifiers are added to both sides."""

    def __init__(
        self, id: int, condition_id: int, condition: Run, truthy: Attribute, falsy: Attribute
    ) -> None:
        self._id = id
        self.condition_id = condition_id
        self._condition = condition
        self.truthy = truthy
        self.falsy = falsy

    @property
    def id(self) -> int:
        """See Attribute."""
        return self.truthy.id if self.truthy.id == self.falsy.id else self._id

    def add(self, qualifier: Qualifier) -> None:
        """See Attribute."""
        self.truthy.add(qualifier)
        self.falsy.add(qualifier)

    def resolve(self, frame: Frame) -> Any:
        """See Attribute."""
        condition = self._condition(frame)
        if condition is True:
            return self.truthy.resolve(frame)
        if condition is False:
            return self.falsy.resolve(frame)
        raise EvalError("no such overload")
