"""The spelling of quantities: sign, digits, suffix (apimachinery `api/resource`)."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
BINARY_NAMES: Final = {exponent: suffix for suffix, exponent in _BINARY_SUFFIXES.items()}
_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")

WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


class QuantityError(ValueError):
    """A string that is no quantity; the message is that of the API server."""


def split(text: str) -> tuple[bool, str, str, str, bool]:
    """Sign, digits before and after the point, suffix, and whether the number has any digit at all."""
    end = len(text)
    start = 1 if text[0] in "+-" else 0
    position = start
    while position < end and text[position] in _DIGITS:
        position += 1
    whole = text[start:position].lstrip("0") or "0"
    fraction = ""
    digits_seen = position > start
    if position < end and text[position] == "." and position >= start:
        point = position + 1
        position = point
        while position < end and text[position] in _DIGITS:
            position += 1
        fraction = text[point:position]
        digits_seen = digits_seen or bool(fraction)
    suffix_start = position
    while position < end and text[position] in _SUFFIX_LETTERS:
        position += 1
    if position < end and text[position] in "+-":
        position += 1
    while position < end and text[position] in _DIGITS:
        position += 1
    if position < end:
        raise QuantityError(WRONG_FORMAT)
    return text[0] == "-", whole, fraction, text[suffix_start:], digits_seen


def interpret(suffix: str) -> tuple[str, int]:
    """Notation and exponent (of 2 for BinarySI, else of 10)."""
    if suffix in _DECIMAL_SUFFIXES:
        return DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    if suffix in _BINARY_SUFFIXES:
        return BINARY_SI, _BINARY_SUFFIXES[suffix]
    number = suffix[1:]
    bare = number[1:] if number[:1] in ("+", "-") else number
    if suffix[:1] not in ("e", "E") or not bare or not _DIGITS.issuperset(bare):
        raise QuantityError(WRONG_SUFFIX)
    exponent = integer(bare) * (-1 if number[0] == "-" else 1)
    if not -(2**63) <= exponent < 2**63:
        raise QuantityError(WRONG_SUFFIX)
    return DECIMAL_EXPONENT, wrap32(exponent)


def integer(digits: str) -> int:
    """int() without Python's limit of 4300 digits."""
    return int(digits) if len(digits) < 4000 else int(Decimal(digits))


def digits(number: int) -> str:
    """str() without Python's limit of 4300 digits."""
    return str(number) if number.bit_length() < 13_000 else f"{Decimal(number):f}"


def wrap32(number: int) -> int:
    """The number as a 32-bit integer, as upstream keeps exponents."""
    return (number + 2**31) % 2**32 - 2**31
