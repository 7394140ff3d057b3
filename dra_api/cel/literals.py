"""Values of literals."""

from __future__ import annotations

import math
import re
from typing import Final

from .values import UInt

_SIMPLE: Final = {
    "a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34, "`": 96, "?": 63,
}  # fmt: skip
_ESCAPE: Final = re.compile(
    r"\\([abfnrtv\\'\"`?]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
)


class LiteralError(ValueError):
    """A literal that the grammar allows but that has no value."""


def integer(text: str, *, negative: bool) -> int:
    """An int literal, decimal or hexadecimal."""
    number = int(text[2:], 16) if text.startswith("0x") else _decimal(text)
    number = -number if negative else number
    if not -(2**63) <= number < 2**63:
        raise LiteralError("invalid int literal")
    return number


def unsigned(text: str) -> UInt:
    """An uint literal with its final `u`."""
    digits = text[:-1]
    number = int(digits[2:], 16) if digits.startswith("0x") else _decimal(digits)
    if number >= 2**64:
        raise LiteralError("invalid uint literal")
    return UInt(number)


def double(text: str, *, negative: bool) -> float:
    """A double literal."""
    number = float(text)
    if math.isinf(number):
        raise LiteralError("invalid double literal")
    return -number if negative else number


def _decimal(text: str) -> int:
    # A number of thousands of digits is out of range whatever it is; reading it would be refused.
    return int(text) if len(text.lstrip("0")) <= 40 else 2**128


def string(text: str) -> str:
    """A string literal, quotes included."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPE.sub(_character, body)


def octets(text: str) -> bytes:
    """A bytes literal, without the `b`."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body.encode()
    found = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        found += body[position : match.start()].encode()
        escape = match.group(1)
        if escape[0] in "uU":
            raise LiteralError("unable to unescape string")
        found.append(_code(escape) & 0xFF)
        position = match.end()
    return bytes(found + body[position:].encode())


def _body(text: str) -> tuple[str, bool]:
    """What is between the quotes, with newlines made uniform, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    if len(text) >= 6 and text[:3] in ('"""', "'''"):
        return text[3:-3], raw
    return text[1:-1], raw


def _character(match: re.Match[str]) -> str:
    code = _code(match.group(1))
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _code(escape: str) -> int:
    simple = _SIMPLE.get(escape)
    if simple is not None:
        return simple
    return int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
