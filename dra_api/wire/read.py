"""Protobuf bytes to messages, in the canonical form of dra_api.decode."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from ..decode.plans import Plan, complete, plan_of, zero_element, zero_object
from ..decode.problems import DecodeError
from ..decode.values import quantity
from ..schema import Field, Message

JSONObject = dict[str, Any]
Content = Callable[[bytes], Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUNCATED: Final = "unexpected EOF"
_ZERO_SECONDS: Final = -62135596800  # of 0001-01-01T00:00:00Z, Go's zero time


def read_message(data: bytes, message: Message) -> JSONObject:
    """A struct from its bytes; unknown fields are skipped. Raises DecodeError."""
    plan = plan_of(message)
    found: JSONObject = {}
    _fill(data, message, found)
    return complete(plan, _sorted_maps(plan, found))


def records(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """The fields of a message in wire order: number, wire type, varint value, delimited content.

    The last two are 0 and b"" where they do not apply; fixed-width values and groups are passed over. Raises
    DecodeError.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = read_varint(data, at)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise DecodeError(f"proto: illegal tag 0 (wire type {wire_type})")
        if wire_type == 2:
            size, at = read_varint(data, at)
            if size > end - at:
                raise DecodeError(_TRUNCATED)
            yield number, 2, 0, data[at : at + size]
            at += size
        elif wire_type == 0:
            value, at = read_varint(data, at)
            yield number, 0, value, b""
        else:
            at = _skip(data, at, number, wire_type)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position, without a sign, and the position after it. Raises DecodeError."""
    result = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            result |= (byte & 127) << shift
            if byte < 128:
                return result, at
            shift += 7
            if shift >= 70:
                raise DecodeError("proto: integer overflow")
    except IndexError:
        raise DecodeError(_TRUNCATED) from None


def _skip(data: bytes, at: int, number: int, wire_type: int) -> int:
    if wire_type in (1, 5):
        at += 8 if wire_type == 1 else 4
    elif wire_type == 3:
        while True:
            key, at = read_varint(data, at)
            if key & 7 == 4:
                break
            if key & 7 == 2:
                size, at = read_varint(data, at)
                at += size
            elif key & 7 == 0:
                _, at = read_varint(data, at)
            else:
                at = _skip(data, at, key >> 3, key & 7)
    else:
        raise DecodeError(f"proto: illegal wireType {wire_type}")
    if at > len(data):
        raise DecodeError(_TRUNCATED)
    return at


def _fill(data: bytes, message: Message, found: JSONObject) -> None:
    members = message.by_number
    for number, wire_type, value, content in records(data):
        field = members.get(number)
        if field is None:
            continue
        if field.inline:
            _expect(wire_type, 2, field)
            _fill(content, field.message, found)
        elif field.type in _NUMBERS:
            _number(field, wire_type, value, content, found)
        else:
            _expect(wire_type, 2, field)
            _delimited(field, content, found)


def _number(field: Field, wire_type: int, value: int, content: bytes, found: JSONObject) -> None:
    convert = _NUMBERS[field.type]
    if field.shape == "one":
        _expect(wire_type, 0, field)
        found[field.name] = convert(value)
        return
    items = found.setdefault(field.name, [])
    if wire_type == 0:
        items.append(convert(value))
        return
    _expect(wire_type, 2, field)
    at = 0
    while at < len(content):
        value, at = read_varint(content, at)
        items.append(convert(value))


def _delimited(field: Field, content: bytes, found: JSONObject) -> None:
    if field.shape == "one":
        found[field.name] = _content(field, content)
    elif field.shape == "list":
        found.setdefault(field.name, []).append(_content(field, content))
    else:
        name, value = "", zero_element(field)
        for number, wire_type, _, part in records(content):
            if number == 1 and wire_type == 2:
                name = _string(part)
            elif number == 2 and wire_type == 2:
                value = _content(field, part)
        found.setdefault(field.name, {})[name] = [] if value is None and field.type == "strings" else value


def _content(field: Field, content: bytes) -> Any:
    if field.type == "message":
        return read_message(content, field.message) if content else zero_object(field.message)
    return _CONTENTS[field.type](content)


def _expect(wire_type: int, wanted: int, field: Field) -> None:
    if wire_type != wanted:
        raise DecodeError(
            f"proto: wrong wireType = {wire_type} for field {field.name[:1].upper()}{field.name[1:]}"
        )


def _sorted_maps(plan: Plan, found: JSONObject) -> JSONObject:
    for name, value in found.items():
        if isinstance(value, dict) and plan.rules[name].field.shape == "map":
            found[name] = dict(sorted(value.items()))
    return found


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _string(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _first(content: bytes) -> bytes:
    """Field 1 of a wrapper message, such as the text of a quantity; the last one wins."""
    result = b""
    for number, wire_type, _, part in records(content):
        if number == 1 and wire_type == 2:
            result = part
    return result


def _quantity(content: bytes) -> str:
    return quantity(_string(_first(content))) if content else "0"


def _timestamp(content: bytes) -> tuple[int, int]:
    seconds = nanos = 0
    for number, _, value, _ in records(content):
        if number == 1:
            seconds = _signed(value, 64)
        elif number == 2:
            nanos = _signed(value, 32)
    return seconds, nanos


@lru_cache(maxsize=1024)
def _time(content: bytes) -> str | None:
    if not content:
        return None
    seconds, _ = _timestamp(content)
    return None if seconds == _ZERO_SECONDS else f"{_moment(seconds, 0):%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def _micro_time(content: bytes) -> str | None:
    if not content:
        return None
    seconds, nanos = _timestamp(content)
    if seconds == _ZERO_SECONDS and nanos == 0:
        return None
    return f"{_moment(seconds, nanos // 1000):%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0")


def _moment(seconds: int, micros: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise DecodeError(f"proto: a time of {seconds} seconds is out of range") from None


def _int_or_string(content: bytes) -> int | str:
    kind = number = 0
    text = ""
    for position, _, value, part in records(content):
        if position == 1:
            kind = value
        elif position == 2:
            number = _signed(value, 32)
        elif position == 3:
            text = _string(part)
    return text if kind else number


def _raw(content: bytes) -> Any:
    raw = _first(content)
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        raise DecodeError("an opaque field does not hold JSON") from None


_NUMBERS: Final[dict[str, Callable[[int], int | bool]]] = {
    "bool": bool,
    "int32": lambda value: _signed(value, 32),
    "int64": lambda value: _signed(value, 64),
}
_CONTENTS: Final[dict[str, Content]] = {
    "string": _string,
    "bytes": lambda content: base64.b64encode(content).decode(),
    "quantity": _quantity,
    "time": _time,
    "microtime": _micro_time,
    "intorstring": _int_or_string,
    "raw": _raw,
    "fieldsv1": _raw,
    "strings": lambda content: [_string(part) for number, _, _, part in records(content) if number == 1],
}
