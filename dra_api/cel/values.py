"""Values at run time.

| CEL | Python |
| --- | --- |
| bool, int, double, string, bytes, null | bool, int, float, str, bytes, None |
| uint | UInt |
| list | list (never changed once it is visible) |
| map | CelMap |
| optional | OptionalValue |
| type | types.Type |
| duration, timestamp | Duration, Timestamp (nanoseconds) |
| Quantity, Semver | those of dra_api; ComputedQuantity is the result of arithmetic |
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from ..quantity import Quantity
from ..semver import Semver
from . import types
from .types import Type


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


class ComputedQuantity(Quantity):
    """What arithmetic on quantities yields.

    Upstream returns a pointer there, which `==` does not recognise on its right side.
    """

    __slots__ = ()


class Missing:
    """The type of MISSING."""


MISSING: Final = Missing()
"""Stands for a key that is not there."""


class _Unfindable:
    """A list or map as a key: it is there, but no lookup finds it."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _stored(key: Any) -> Any:
    kind = type(key)
    if kind is str:
        return key
    return kind, (_Unfindable(key) if isinstance(key, (list, CelMap, OptionalValue)) else key)


def _plain(key: Any) -> Any:
    return key.value if type(key) is _Unfindable else key


class CelMap:
    """A map. Keys that are no strings are stored with their type, because CEL tells 1, 1u, 1.0 and true apart."""

    __slots__ = ("data",)

    def __init__(self, data: dict[Any, Any] | None = None) -> None:
        self.data = {} if data is None else data

    def find(self, key: Any) -> Any:
        """The value, or MISSING; numbers are found across their types."""
        kind = type(key)
        if kind is str:
            return self.data.get(key, MISSING)
        if not self.data:
            return MISSING
        try:
            found = self.data.get((kind, key), MISSING)
        except TypeError:  # lists and maps are never equal to another key
            return MISSING
        if found is not MISSING or kind is bool or kind not in (int, float, UInt):
            return found
        if kind is float:
            if key != key or key in (float("inf"), float("-inf")) or key != int(key):
                return MISSING
            number = int(key)
        else:
            number = int(key)
        if kind is not int and -(2**63) <= number < 2**63:
            found = self.data.get((int, number), MISSING)
        if found is MISSING and kind is not UInt and 0 <= number < 2**64:
            found = self.data.get((UInt, number), MISSING)
        return found

    def put(self, key: Any, value: Any) -> None:
        """Set an entry, only while the map is being made."""
        self.data[_stored(key)] = value

    def remove(self, key: Any) -> None:
        """Remove an entry, only while the map is being made."""
        self.data.pop(_stored(key), None)

    def keys(self) -> Iterator[Any]:
        """The keys in the order in which they were put."""
        return (key if type(key) is str else _plain(key[1]) for key in self.data)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values."""
        return ((key if type(key) is str else _plain(key[1]), value) for key, value in self.data.items())

    def __len__(self) -> int:
        return len(self.data)


class DomainMap(CelMap):
    """Attributes or capacity of a device: a lookup of an unknown domain yields an empty map."""

    __slots__ = ()

    def find(self, key: Any) -> Any:
        """The map of the domain, else an empty map."""
        found = super().find(key)
        return EMPTY_MAP if found is MISSING else found


EMPTY_MAP: Final = CelMap()


class StringList(list[Any]):
    """A list attribute of strings, or what functions on strings return; texts of errors tell it from other lists."""

    __slots__ = ()


class JoinedList(list[Any]):
    """The sum of two lists that were not empty."""

    __slots__ = ()


class MutableList(list[Any]):
    """The result of `map` and `filter` while it grows."""

    __slots__ = ()


class MutableMap(CelMap):
    """The result of `transformMap` while it grows."""

    __slots__ = ()


class OptionalValue:
    """An optional; `value` is MISSING when there is none."""

    __slots__ = ("value",)

    def __init__(self, value: Any = MISSING) -> None:
        self.value = value


NONE: Final = OptionalValue()


class Duration:
    """A span of time."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds


class Timestamp:
    """A point in time: nanoseconds since 1970 (UTC), and the offset in seconds it was written with."""

    __slots__ = ("nanoseconds", "offset")

    def __init__(self, nanoseconds: int, offset: int = 0) -> None:
        self.nanoseconds = nanoseconds
        self.offset = offset


_LIST: Final = types.list_of(types.DYN)
_MAP: Final = types.map_of(types.DYN, types.DYN)
QUANTITY: Final = types.struct("kubernetes.Quantity")
SEMVER: Final = types.struct("kubernetes.Semver")

RUNTIME_TYPES: Final[dict[type, Type]] = {
    bool: types.BOOL,
    int: types.INT,
    UInt: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: _LIST,
    StringList: _LIST,
    JoinedList: _LIST,
    MutableList: _LIST,
    CelMap: _MAP,
    DomainMap: _MAP,
    MutableMap: _MAP,
    OptionalValue: types.optional_of(types.DYN),
    Type: types.TYPE,
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Quantity: QUANTITY,
    ComputedQuantity: QUANTITY,
    Semver: SEMVER,
}
"""Python class -> type; libraries add theirs."""

GO_NAMES: Final[dict[type, str]] = {
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    type(None): "types.Null",
    list: "*types.baseList",
    StringList: "*types.baseList",
    JoinedList: "*types.concatList",
    MutableList: "*types.mutableList",
    CelMap: "*types.baseMap",
    DomainMap: "cel.mapper",
    MutableMap: "*types.mutableMap",
    OptionalValue: "*types.Optional",
    Type: "*types.Type",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    Quantity: "cel.Quantity",
    ComputedQuantity: "*cel.Quantity",
    Semver: "cel.Semver",
}
"""Python class -> the name of its Go type, which some error texts show; libraries add theirs."""

UNHASHABLE: Final[set[type]] = {bytes, Semver}
"""Classes of values over which upstream breaks down as keys of its own maps; libraries add theirs."""

LISTS: Final = (list, StringList, JoinedList, MutableList)
MAPS: Final = (CelMap, DomainMap, MutableMap)


def type_name(value: Any) -> str:
    """The name of the type of a value."""
    return RUNTIME_TYPES[type(value)].name


def size(value: Any) -> int:
    """What `size()` says, and 1 for values without a size: the measure of costs."""
    if isinstance(value, (str, bytes, list, CelMap)):
        return len(value)
    found: int = getattr(value, "cel_size", 1)
    return found


def compare_numbers(left: Any, right: Any) -> int:
    """-1, 0 or 1 across int, uint and double; doubles compare as doubles within the range of the other type."""
    if type(left) is float and type(right) is not float:
        low, high = (0, 2**64 - 1) if type(right) is UInt else (-(2**63), 2**63 - 1)
        if left < float(low):
            return -1
        if left > float(high):
            return 1
        right = float(right)
    elif type(right) is float and type(left) is not float:
        return -compare_numbers(right, left)
    return int(left > right) - int(left < right)


def equal(left: Any, right: Any) -> bool | None:
    """Whether two values are equal; None when the type on the left does not compare with the one on the right."""
    kind = type(left)
    other = type(right)
    if kind is str or kind is bool or kind is bytes:
        return kind is other and bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in _NUMBERS:
        if other not in _NUMBERS or left != left or right != right:
            return False
        return compare_numbers(left, right) == 0
    special = EQUALITY.get(kind)
    return bool(left is right) if special is None else special(left, right)


_NUMBERS: Final = frozenset((int, UInt, float))


def _equal_lists(left: list[Any], right: Any) -> bool:
    # Elements that cannot be compared count as equal, as upstream only looks for False.
    if not isinstance(right, list) or len(left) != len(right):
        return False
    return all(equal(mine, theirs) is not False for mine, theirs in zip(left, right, strict=True))


def _equal_maps(left: CelMap, right: Any) -> bool:
    if not isinstance(right, CelMap) or len(left) != len(right):
        return False
    for key, value in left.items():
        other = right.find(key)
        if other is MISSING or equal(value, other) is False:
            return False
    return True


def _equal_optionals(left: OptionalValue, right: Any) -> bool | None:
    if type(right) is not OptionalValue:
        return False
    if left.value is MISSING or right.value is MISSING:
        return left.value is right.value
    return equal(left.value, right.value)


def _equal_quantities(left: Quantity, right: Any) -> bool | None:
    return left.compare(right) == 0 if type(right) is Quantity else None


def _equal_semvers(left: Semver, right: Any) -> bool | None:
    return left == right if type(right) is Semver else None


def _equal_durations(left: Duration, right: Any) -> bool:
    return type(right) is Duration and left.nanoseconds == right.nanoseconds


def _equal_timestamps(left: Timestamp, right: Any) -> bool:
    return type(right) is Timestamp and left.nanoseconds == right.nanoseconds


def _equal_types(left: Type, right: Any) -> bool:
    return type(right) is Type and left.name == right.name


EQUALITY: Final[dict[type, Any]] = {
    list: _equal_lists,
    StringList: _equal_lists,
    JoinedList: _equal_lists,
    MutableList: _equal_lists,
    CelMap: _equal_maps,
    DomainMap: _equal_maps,
    MutableMap: _equal_maps,
    OptionalValue: _equal_optionals,
    Quantity: _equal_quantities,
    ComputedQuantity: _equal_quantities,
    Semver: _equal_semvers,
    Duration: _equal_durations,
    Timestamp: _equal_timestamps,
    Type: _equal_types,
}
"""Python class -> equality of its values; libraries add theirs."""


def contains(values: list[Any], element: Any) -> bool:
    """Whether an element is in a list."""
    return any(equal(element, value) is True for value in values)


def shown(value: Any) -> str:
    """How error texts show a value (Go's %v)."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return go_double(value)
    if value is None:
        return "0"  # the enumeration behind Go's null value
    if isinstance(value, list):
        return f"[{', '.join(shown(each) for each in value)}]"
    if isinstance(value, CelMap):
        return "{" + ", ".join(f"{shown(key)}: {shown(each)}" for key, each in value.items()) + "}"
    if kind is OptionalValue:
        return "optional.none()" if value.value is MISSING else f"optional({shown(value.value)})"
    if kind is bytes:
        return f"[{' '.join(str(each) for each in value)}]"
    return str(value)


def go_double(value: float) -> str:
    """A double as Go's %v and %g print it: shortest digits, exponents from seven digits on."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, raised = Decimal(repr(value)).normalize().as_tuple()
    power = int(raised)
    text = "".join(map(str, digits))
    exponent = len(text) - 1 + power
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0"
    if -4 <= exponent < 6:
        if power >= 0:
            return minus + text + "0" * power
        if exponent >= 0:
            return f"{minus}{text[: exponent + 1]}.{text[exponent + 1 :]}"
        return f"{minus}0.{'0' * (-exponent - 1)}{text}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
