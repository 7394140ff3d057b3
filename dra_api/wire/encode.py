"""Messages to protobuf bytes, field by field as Go's generated code writes them.

A writer appends one member of a struct to a buffer. It is built once per member; the writers of a message are found
by its name. Fields that Go holds without a pointer are written even when they are empty.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from ..schema import Field, Message

JSONObject = dict[str, Any]
Writer = Callable[[JSONObject, bytearray], None]
Content = Callable[[Any], bytes]

_WORD: Final = (1 << 64) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT: Final = 0
_BYTES: Final = 2


def varint(number: int) -> bytes:
    """A base-128 number; negative ones in ten bytes, as 64-bit two's complement."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= _WORD
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL: Final = [bytes((number,)) for number in range(128)]


def tag(number: int, wire_type: int) -> bytes:
    """The key before a value: field number and wire type."""
    return varint(number << 3 | wire_type)


def delimited(key: bytes, content: bytes) -> bytes:
    """A key, the length and the content."""
    return key + varint(len(content)) + content


def encode_message(value: JSONObject, message: Message) -> bytes:
    """A struct without any envelope. Absent fields count as zero; unknown ones are left out."""
    out = bytearray()
    for write in _writers(message):
        write(value, out)
    return bytes(out)


def _writers(message: Message) -> list[Writer]:
    found = _WRITERS.get(message.name)
    if found is None:
        members = sorted(message.by_number.values(), key=lambda member: member.number)
        found = _WRITERS[message.name] = [_writer(member) for member in members]
    return found


_WRITERS: Final[dict[str, list[Writer]]] = {}


def _writer(field: Field) -> Writer:
    if field.inline:
        return _inlined(field)
    if field.type in ("int32", "int64", "bool"):
        return _numbers(field) if field.shape == "list" else _number(field)
    if field.shape == "one":
        return _single(field)
    return _list(field) if field.shape == "list" else _map(field)


def _inlined(field: Field) -> Writer:
    key = tag(field.number, _BYTES)

    def write(value: JSONObject, out: bytearray) -> None:
        out += delimited(key, encode_message(value, field.message))

    return write


def _number(field: Field) -> Writer:
    key, name, optional = tag(field.number, _VARINT), field.name, field.pointer

    def write(value: JSONObject, out: bytearray) -> None:
        number = value.get(name)
        if number is None:
            if optional:
                return
            number = 0
        out += key
        out += varint(number)

    return write


def _numbers(field: Field) -> Writer:
    key, name = tag(field.number, _VARINT), field.name

    def write(value: JSONObject, out: bytearray) -> None:
        for number in value.get(name) or ():
            out += key
            out += varint(number)

    return write


def _single(field: Field) -> Writer:
    key, name = tag(field.number, _BYTES), field.name
    optional = field.pointer
    content = _content(field)

    def write(value: JSONObject, out: bytearray) -> None:
        item = value.get(name)
        if item is None and optional:
            return
        encoded = content(item)
        out += key
        out += varint(len(encoded))
        out += encoded

    return write


def _list(field: Field) -> Writer:
    key, name, content = tag(field.number, _BYTES), field.name, _content(field)

    def write(value: JSONObject, out: bytearray) -> None:
        for item in value.get(name) or ():
            encoded = content(item)
            out += key
            out += varint(len(encoded))
            out += encoded

    return write


def _map(field: Field) -> Writer:
    key, name, content = tag(field.number, _BYTES), field.name, _content(field)

    def write(value: JSONObject, out: bytearray) -> None:
        entries = value.get(name)
        if not entries:
            return
        for entry in sorted(entries):
            body = delimited(b"\x0a", entry.encode()) + delimited(b"\x12", content(entries[entry]))
            out += delimited(key, body)

    return write


def _content(field: Field) -> Content:
    if field.type == "message":
        return lambda item: encode_message(item or {}, field.message)
    return _CONTENTS[field.type]


def _string(item: Any) -> bytes:
    return item.encode() if item else b""


def _base64(item: Any) -> bytes:
    return base64.b64decode(item) if item else b""


def _quantity(item: Any) -> bytes:
    return delimited(b"\x0a", (item or "0").encode())


def _time(item: Any) -> bytes:
    return b"" if item is None else _moment(item)


@lru_cache(maxsize=1024)
def _moment(text: str) -> bytes:
    passed = datetime.fromisoformat(text) - _EPOCH
    seconds = passed.days * 86400 + passed.seconds
    return b"\x08" + varint(seconds) + b"\x10" + varint(passed.microseconds * 1000)


def _int_or_string(item: Any) -> bytes:
    if isinstance(item, str):
        return b"\x08\x01\x10\x00" + delimited(b"\x1a", item.encode())
    return b"\x08\x00\x10" + varint(item or 0) + b"\x1a\x00"


def _raw(item: Any) -> bytes:
    if item is None:
        return b""
    return delimited(b"\x0a", json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode())


def _strings(item: Any) -> bytes:
    return b"".join(delimited(b"\x0a", text.encode()) for text in item or ())


_CONTENTS: Final[dict[str, Content]] = {
    "string": _string,
    "bytes": _base64,
    "quantity": _quantity,
    "time": _time,
    "microtime": _time,
    "intorstring": _int_or_string,
    "raw": _raw,
    "fieldsv1": _raw,
    "strings": _strings,
}
