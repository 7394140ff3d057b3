"""Protobuf bytes to messages, in the canonical form of dra_api.decode."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from ..decode.plans import complete, plan_of, zero_element
from ..decode.problems import DecodeError
from ..decode.values import quantity
from ..schema import Field, Message

JSONObject = dict[str, Any]
Content = Callable[[bytes], Any]
Reader = Callable[[bytes, int, JSONObject], None]
"""Puts one field into the object, from its content or its number."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUNCATED: Final = "unexpected EOF"
_ZERO_SECONDS: Final = -62135596800  # of 0001-01-01T00:00:00Z, Go's zero time


def read_message(data: bytes, message: Message) -> JSONObject:
    """A struct from its bytes; unknown fields are skipped. Raises DecodeError."""
    found: JSONObject = {}
    _fill(data, message, found)
    return complete(plan_of(message), found)


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
            at = _skip(data, at, wire_type)


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


def _skip(data: bytes, at: int, wire_type: int) -> int:
    """Pass over a fixed-width value or a group; returns the position after it."""
    if wire_type in (1, 5):
        at += 8 if wire_type == 1 else 4
    elif wire_type == 3:
        while (key := read_varint(data, at))[0] & 7 != 4:
            inner, at = key[0] & 7, key[1]
            if inner == 2:
                size, at = read_varint(data, at)
                at += size
            elif inner == 0:
                _, at = read_varint(data, at)
            else:
                at = _skip(data, at, inner)
        at = key[1]
    else:
        raise DecodeError(f"proto: illegal wireType {wire_type}")
    if at > len(data):
        raise DecodeError(_TRUNCATED)
    return at


def _fill(data: bytes, message: Message, found: JSONObject) -> None:
    """Read all fields into `found`. This is the hot loop: one-byte keys and lengths are read in place."""
    readers, maps = _readers(message)
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = read_varint(data, at - 1)
        wire_type = key & 7
        if wire_type == 2:
            size = data[at] if at < end else 128
            at += 1
            if size > 127:
                size, at = read_varint(data, at - 1)
            start, at = at, at + size
            if at > end:
                raise DecodeError(_TRUNCATED)
            read = readers.get(key)
            if read is not None:
                read(data[start:at], 0, found)
                continue
        elif wire_type == 0:
            value, at = read_varint(data, at)
            read = readers.get(key)
            if read is not None:
                read(b"", value, found)
                continue
        else:
            at = _skip(data, at, wire_type)
        if key >> 3 in message.by_number:
            name = message.by_number[key >> 3].name
            raise DecodeError(f"proto: wrong wireType = {wire_type} for field {name[:1].upper()}{name[1:]}")
    for name in maps:
        if name in found:
            found[name] = dict(sorted(found[name].items()))


def _readers(message: Message) -> tuple[dict[int, Reader], list[str]]:
    """The readers of a message by the key before a value, and the names of its maps."""
    known = _READERS.get(message.name)
    if known is None:
        readers: dict[int, Reader] = {}
        for field in message.by_number.values():
            if field.type in _NUMBERS:
                readers[field.number << 3] = _number_reader(field)
                if field.shape == "list":
                    readers[field.number << 3 | 2] = _packed_reader(field)
            else:
                readers[field.number << 3 | 2] = _reader(field)
        maps = [field.name for field in message.members if field.shape == "map"]
        known = _READERS[message.name] = (readers, maps)
    return known


def _number_reader(field: Field) -> Reader:
    name, convert = field.name, _NUMBERS[field.type]

    def read(content: bytes, value: int, found: JSONObject) -> None:
        found[name] = convert(value)

    def read_item(content: bytes, value: int, found: JSONObject) -> None:
        found.setdefault(name, []).append(convert(value))

    return read_item if field.shape == "list" else read


def _packed_reader(field: Field) -> Reader:
    name, convert = field.name, _NUMBERS[field.type]

    def read(content: bytes, value: int, found: JSONObject) -> None:
        if not content:
            return  # No item makes no list.
        items, at = found.setdefault(name, []), 0
        while at < len(content):
            number, at = read_varint(content, at)
            items.append(convert(number))

    return read


def _reader(field: Field) -> Reader:
    name, read_one = field.name, _content(field)

    def read(content: bytes, value: int, found: JSONObject) -> None:
        found[name] = read_one(content)

    def read_inlined(content: bytes, value: int, found: JSONObject) -> None:
        _fill(content, field.message, found)

    def read_item(content: bytes, value: int, found: JSONObject) -> None:
        found.setdefault(name, []).append(read_one(content))

    def read_entry(content: bytes, value: int, found: JSONObject) -> None:
        key, item = "", None
        for number, wire_type, _, part in records(content):
            if number == 1 and wire_type == 2:
                key = _string(part)
            elif number == 2 and wire_type == 2:
                item = read_one(part)
        if item is None:
            item = [] if field.type == "strings" else zero_element(field)
        found.setdefault(name, {})[key] = item

    if field.inline:
        return read_inlined
    return {"one": read, "list": read_item, "map": read_entry}[field.shape]


def _content(field: Field) -> Content:
    if field.type == "message":
        return lambda content: read_message(content, field.message)
    return _CONTENTS[field.type]


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
_READERS: Final[dict[str, tuple[dict[int, Reader], list[str]]]] = {}
