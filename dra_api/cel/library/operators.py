"""Operators and `size`, for values of all types (cel-go `common/stdlib` and `common/types`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from .. import types
from ..attributes import look_up
from ..declarations import Function, Overload, library
from ..errors import EvalError, no_such_overload
from ..types import Type
from ..values import (
    LISTS,
    MAPS,
    MISSING,
    CelMap,
    Duration,
    JoinedList,
    MutableList,
    Timestamp,
    UInt,
    compare_numbers,
    contains,
)

_A: Final = types.parameter("A")
_B: Final = types.parameter("B")
_LIST: Final = types.list_of(_A)
_MAP: Final = types.map_of(_A, _B)
_NUMBERS: Final = (int, UInt, float)
_MAX_DURATION: Final = 2**63
_MIN_SECONDS: Final = -62135596800
_MAX_SECONDS: Final = 253402300799
_COMPARABLE: Final = frozenset((bool, int, UInt, float, str, bytes, Duration, Timestamp))


def integer(number: int) -> int:
    """The number, when it is an int. Raises EvalError."""
    if -(2**63) <= number < 2**63:
        return number
    raise EvalError("integer overflow")


def unsigned(number: int) -> UInt:
    """The number, when it is an uint. Raises EvalError."""
    if 0 <= number < 2**64:
        return UInt(number)
    raise EvalError("unsigned integer overflow")


def duration(nanoseconds: int) -> Duration:
    """The duration, when it is one. Raises EvalError."""
    if -_MAX_DURATION <= nanoseconds < _MAX_DURATION:
        return Duration(nanoseconds)
    raise EvalError("duration overflow")


def timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """The timestamp, when it is within the years 1 to 9999. Raises EvalError."""
    if _MIN_SECONDS <= nanoseconds // 10**9 <= _MAX_SECONDS:
        return Timestamp(nanoseconds, offset)
    raise EvalError("timestamp overflow")


def _pick(left: Any, right: Any, *, of: tuple[type, ...]) -> type:
    """The class of both operands, when it is one of these. Raises EvalError."""
    kind = type(left)
    if kind in of and type(right) is kind:
        return kind
    raise no_such_overload()


def add(left: Any, right: Any) -> Any:
    """`left + right`."""
    kind, other = type(left), type(right)
    if kind is int and other is int:
        return integer(left + right)
    if kind in LISTS:
        if other not in LISTS:
            raise no_such_overload()
        if kind is MutableList:
            left.extend(right)
            return left
        if not left or not right:
            return left or right
        return JoinedList((*left, *right))
    if kind is Duration and other is Duration:
        return duration(left.nanoseconds + right.nanoseconds)
    if kind is Duration and other is Timestamp:
        left, right, kind, other = right, left, other, kind
    if kind is Timestamp and other is Duration:
        return timestamp(left.nanoseconds + right.nanoseconds, left.offset)
    kind = _pick(left, right, of=(UInt, float, str, bytes))
    return unsigned(int(left) + int(right)) if kind is UInt else left + right


def subtract(left: Any, right: Any) -> Any:
    """`left - right`."""
    kind, other = type(left), type(right)
    if kind is Timestamp and other is Duration:
        return timestamp(left.nanoseconds - right.nanoseconds, left.offset)
    if kind is Timestamp and other is Timestamp:
        return duration(left.nanoseconds - right.nanoseconds)
    kind = _pick(left, right, of=(int, UInt, float, Duration))
    if kind is Duration:
        return duration(left.nanoseconds - right.nanoseconds)
    if kind is float:
        return left - right
    return integer(left - right) if kind is int else unsigned(int(left) - int(right))


def multiply(left: Any, right: Any) -> Any:
    """`left * right`."""
    kind = _pick(left, right, of=_NUMBERS)
    if kind is float:
        return left * right
    return integer(left * right) if kind is int else unsigned(int(left) * int(right))


def divide(left: Any, right: Any) -> Any:
    """`left / right`, whole numbers towards zero."""
    kind = _pick(left, right, of=_NUMBERS)
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise EvalError("division by zero")
    if kind is UInt:
        return UInt(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return integer(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Any, right: Any) -> Any:
    """`left % right`, with the sign of the left side."""
    kind = _pick(left, right, of=(int, UInt))
    if right == 0:
        raise EvalError("modulus by zero")
    if kind is UInt:
        return UInt(int(left) % int(right))
    if left == -(2**63) and right == -1:
        raise EvalError("integer overflow")
    rest: int = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(value: Any) -> Any:
    """`-value`."""
    kind = type(value)
    if kind is int:
        return integer(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration(-value.nanoseconds)
    raise no_such_overload()


def invert(value: Any) -> bool:
    """`!value`."""
    if type(value) is bool:
        return not value
    raise no_such_overload()


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises EvalError for values without an order."""
    kind = type(left)
    if kind in _NUMBERS:
        if kind is float and left != left:
            raise EvalError("NaN values cannot be ordered")
        if type(right) not in _NUMBERS:
            raise no_such_overload()
        if type(right) is float and right != right:
            raise EvalError("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if type(right) is not kind:
        raise no_such_overload()
    if kind is Duration or kind is Timestamp:
        left, right = left.nanoseconds, right.nanoseconds
    return int(left > right) - int(left < right)


def size(value: Any) -> int:
    """`size(value)`."""
    return len(value)


def inside(element: Any, values: Any) -> bool:
    """`element in values`."""
    if isinstance(values, CelMap):
        # A domain is there only when the device has it, although a lookup yields an empty map.
        return CelMap.find(values, element) is not MISSING
    if isinstance(values, list):
        return contains(values, element)
    raise no_such_overload()


def not_strictly_false(value: Any) -> bool:
    """Whether a loop goes on: everything but false lets it."""
    return value if type(value) is bool else True


def _comparison(name: str, prefix: str, test: Callable[[Any, Any], bool]) -> Function:
    """`test` compares integers, and where values stand to each other with 0."""

    def call(left: Any, right: Any) -> bool:
        if type(left) is int and type(right) is int:
            return test(left, right)
        return test(compare(left, right), 0)

    pairs: list[tuple[str, Type, Type]] = [
        ("bool", types.BOOL, types.BOOL),
        ("int64", types.INT, types.INT),
        ("int64_double", types.INT, types.DOUBLE),
        ("int64_uint64", types.INT, types.UINT),
        ("uint64", types.UINT, types.UINT),
        ("uint64_double", types.UINT, types.DOUBLE),
        ("uint64_int64", types.UINT, types.INT),
        ("double", types.DOUBLE, types.DOUBLE),
        ("double_int64", types.DOUBLE, types.INT),
        ("double_uint64", types.DOUBLE, types.UINT),
        ("string", types.STRING, types.STRING),
        ("bytes", types.BYTES, types.BYTES),
        ("timestamp", types.TIMESTAMP, types.TIMESTAMP),
        ("duration", types.DURATION, types.DURATION),
    ]
    overloads = [Overload(f"{prefix}_{id}", (left, right), types.BOOL) for id, left, right in pairs]
    return Function(name, tuple(overloads), call, operands=_COMPARABLE)


def _arithmetic(
    name: str,
    call: Callable[..., Any],
    operands: tuple[type, ...],
    *signatures: tuple[str, tuple[Type, ...], Type],
) -> Function:
    overloads = tuple(Overload(id, parameters, result) for id, parameters, result in signatures)
    return Function(name, overloads, call, operands=frozenset(operands))


def _same(id: str, kind: Type) -> tuple[str, tuple[Type, ...], Type]:
    return id, (kind, kind), kind


_SIZES: Final = (
    ("bytes", types.BYTES),
    ("list", _LIST),
    ("map", _MAP),
    ("string", types.STRING),
)
_INTEGERS: Final = (int, UInt)

OPERATORS: Final = library(
    Function("_?_:_", (Overload("conditional", (types.BOOL, _A, _A), _A),)),
    Function("_&&_", (Overload("logical_and", (types.BOOL, types.BOOL), types.BOOL),)),
    Function("_||_", (Overload("logical_or", (types.BOOL, types.BOOL), types.BOOL),)),
    Function("!_", (Overload("logical_not", (types.BOOL,), types.BOOL),), invert),
    Function(
        "@not_strictly_false",
        (Overload("not_strictly_false", (types.BOOL,), types.BOOL),),
        not_strictly_false,
    ),
    Function("_==_", (Overload("equals", (_A, _A), types.BOOL),)),
    Function("_!=_", (Overload("not_equals", (_A, _A), types.BOOL),)),
    _arithmetic(
        "_+_",
        add,
        (bytes, float, Duration, Timestamp, int, *LISTS, str, UInt),
        _same("add_bytes", types.BYTES),
        _same("add_double", types.DOUBLE),
        _same("add_duration_duration", types.DURATION),
        ("add_duration_timestamp", (types.DURATION, types.TIMESTAMP), types.TIMESTAMP),
        ("add_timestamp_duration", (types.TIMESTAMP, types.DURATION), types.TIMESTAMP),
        _same("add_int64", types.INT),
        _same("add_list", _LIST),
        _same("add_string", types.STRING),
        _same("add_uint64", types.UINT),
    ),
    _arithmetic(
        "_/_",
        divide,
        _NUMBERS,
        _same("divide_double", types.DOUBLE),
        _same("divide_int64", types.INT),
        _same("divide_uint64", types.UINT),
    ),
    _arithmetic(
        "_%_", modulo, _INTEGERS, _same("modulo_int64", types.INT), _same("modulo_uint64", types.UINT)
    ),
    _arithmetic(
        "_*_",
        multiply,
        _NUMBERS,
        _same("multiply_double", types.DOUBLE),
        _same("multiply_int64", types.INT),
        _same("multiply_uint64", types.UINT),
    ),
    _arithmetic(
        "-_",
        negate,
        (bool, float, int, Duration),
        ("negate_double", (types.DOUBLE,), types.DOUBLE),
        ("negate_int64", (types.INT,), types.INT),
    ),
    _arithmetic(
        "_-_",
        subtract,
        (float, Duration, int, Timestamp, UInt),
        _same("subtract_double", types.DOUBLE),
        _same("subtract_duration_duration", types.DURATION),
        _same("subtract_int64", types.INT),
        ("subtract_timestamp_duration", (types.TIMESTAMP, types.DURATION), types.TIMESTAMP),
        ("subtract_timestamp_timestamp", (types.TIMESTAMP, types.TIMESTAMP), types.DURATION),
        _same("subtract_uint64", types.UINT),
    ),
    _comparison("_<_", "less", operator.lt),
    _comparison("_<=_", "less_equals", operator.le),
    _comparison("_>_", "greater", operator.gt),
    _comparison("_>=_", "greater_equals", operator.ge),
    Function(
        "_[_]",
        (Overload("index_list", (_LIST, types.INT), _A), Overload("index_map", (_MAP, _A), _B)),
        look_up,
    ),
    Function(
        "@in",
        (Overload("in_list", (_A, _LIST), types.BOOL), Overload("in_map", (_A, _MAP), types.BOOL)),
        inside,
    ),
    Function(
        "size",
        tuple(
            overload
            for name, kind in _SIZES
            for overload in (
                Overload(f"size_{name}", (kind,), types.INT),
                Overload(f"{name}_size", (kind,), types.INT, member=True),
            )
        ),
        size,
        operands=frozenset((bytes, str, *LISTS, *MAPS)),
    ),
)
"""Operators and `size`."""
