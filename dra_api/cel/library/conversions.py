"""Conversions between types, and `type` and `dyn` (cel-go `common/stdlib`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..types import Type
from ..values import RUNTIME_TYPES, Duration, Timestamp, UInt, go_double
from .operators import integer, timestamp, unsigned
from .times import parse_duration, parse_timestamp, seconds_text, timestamp_text

_A: Final = types.parameter("A")
_FLOAT: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE | re.ASCII
)
_HEX_FLOAT: Final = re.compile(r"[+-]?0x_?[0-9a-f_]*\.?[0-9a-f_]*p[+-]?[0-9]+", re.IGNORECASE | re.ASCII)
_UNDERSCORE: Final = re.compile("(?<=[0-9])_(?=[0-9])")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def _failed(source: str, target: str) -> EvalError:
    return EvalError(f"type conversion error from '{source}' to '{target}'")


def _same(value: Any) -> Any:
    return value


def _double_to_int(value: float) -> int:
    if value != value or not -(2.0**63) < value < 2.0**63:
        raise EvalError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> UInt:
    if value != value or not 0 <= value < 2.0**64:
        raise EvalError("unsigned integer overflow")
    return UInt(value)


def _string_to_int(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) and len(text.lstrip("+-0")) < 25:
        number = int(text)
        if -(2**63) <= number < 2**63:
            return number
    raise _failed("string", "int")


def _string_to_uint(text: str) -> UInt:
    if re.fullmatch(r"[0-9]+", text, re.ASCII) and len(text.lstrip("0")) < 25 and int(text) < 2**64:
        return UInt(text)
    raise _failed("string", "uint")


def string_to_double(text: str) -> float:
    """A double as Go reads it. Raises EvalError."""
    plain = _UNDERSCORE.sub("", text)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if number in (float("inf"), float("-inf")) and "inf" not in text.lower():
            raise _failed("string", "double")
        return number
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text.replace("_", ""))
        except (ValueError, OverflowError):
            pass
    raise _failed("string", "double")


def _string_to_bool(text: str) -> bool:
    found = _BOOLS.get(text)
    if found is None:
        raise _failed("string", "bool")
    return found


def _string_to_duration(text: str) -> Duration:
    found = parse_duration(text)
    if found is None:
        raise _failed("string", "google.protobuf.Duration")
    return found


def _string_to_timestamp(text: str) -> Timestamp:
    found = parse_timestamp(text)
    if found is None:
        raise _failed("string", "google.protobuf.Timestamp")
    return found


def _bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None


def _type(value: Any) -> Type:
    return RUNTIME_TYPES[type(value)]


def text(value: Any) -> str:
    """`string(value)` for the standard types."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return go_double(value)
    if kind is bytes:
        return _bytes_to_string(value)
    if kind is Duration:
        return seconds_text(value.nanoseconds) + "s"
    if kind is Timestamp:
        return timestamp_text(value)
    return value.name if kind is Type else str(int(value))


_Row = tuple[str, Type, Callable[[Any], Any]]


def _conversion(name: str, target: Type, *rows: _Row) -> Function:
    return Function(name, tuple(Overload(id, (source,), target, call=call) for id, source, call in rows))


CONVERSIONS: Final = library(
    Function("type", (Overload("type", (_A,), types.type_of(_A)),), _type),
    Function("dyn", (Overload("to_dyn", (_A,), types.DYN, call=_same),)),
    _conversion(
        "bool",
        types.BOOL,
        ("bool_to_bool", types.BOOL, _same),
        ("string_to_bool", types.STRING, _string_to_bool),
    ),
    _conversion(
        "bytes",
        types.BYTES,
        ("bytes_to_bytes", types.BYTES, _same),
        ("string_to_bytes", types.STRING, lambda value: value.encode("utf-8", "surrogatepass")),
    ),
    _conversion(
        "double",
        types.DOUBLE,
        ("double_to_double", types.DOUBLE, _same),
        ("int64_to_double", types.INT, float),
        ("string_to_double", types.STRING, string_to_double),
        ("uint64_to_double", types.UINT, float),
    ),
    _conversion(
        "duration",
        types.DURATION,
        ("duration_to_duration", types.DURATION, _same),
        ("string_to_duration", types.STRING, _string_to_duration),
    ),
    _conversion(
        "int",
        types.INT,
        ("int64_to_int64", types.INT, _same),
        ("double_to_int64", types.DOUBLE, _double_to_int),
        ("duration_to_int64", types.DURATION, lambda value: value.nanoseconds),
        ("string_to_int64", types.STRING, _string_to_int),
        ("timestamp_to_int64", types.TIMESTAMP, lambda value: value.nanoseconds // 10**9),
        ("uint64_to_int64", types.UINT, lambda value: integer(int(value))),
    ),
    _conversion(
        "string",
        types.STRING,
        ("string_to_string", types.STRING, _same),
        ("bool_to_string", types.BOOL, text),
        ("bytes_to_string", types.BYTES, text),
        ("double_to_string", types.DOUBLE, text),
        ("duration_to_string", types.DURATION, text),
        ("int64_to_string", types.INT, text),
        ("timestamp_to_string", types.TIMESTAMP, text),
        ("uint64_to_string", types.UINT, text),
    ),
    _conversion(
        "timestamp",
        types.TIMESTAMP,
        ("timestamp_to_timestamp", types.TIMESTAMP, _same),
        ("int64_to_timestamp", types.INT, lambda value: timestamp(value * 10**9)),
        ("string_to_timestamp", types.STRING, _string_to_timestamp),
    ),
    _conversion(
        "uint",
        types.UINT,
        ("uint64_to_uint64", types.UINT, _same),
        ("double_to_uint64", types.DOUBLE, _double_to_uint),
        ("int64_to_uint64", types.INT, unsigned),
        ("string_to_uint64", types.STRING, _string_to_uint),
    ),
)
"""Conversions, `type` and `dyn`."""
