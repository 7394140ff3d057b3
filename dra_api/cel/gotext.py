"""Text as Go writes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


def quote(text: str) -> str:
    """A string in quotes, as strconv.Quote writes it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    simple = _ESCAPES.get(char)
    if simple is not None:
        return simple
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def fixed_shortest(value: float) -> str:
    """The shortest decimal without exponent, as Go's FormatFloat(v, 'f', -1, 64)."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
