"""`format()`: clauses such as `%s` and `%.3f` (cel-go `ext/formatting.go`, locale en_US)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import types
from ..errors import EvalError
from ..gotext import quote
from ..values import CelMap, Duration, Timestamp, UInt, type_name

_DEFAULT_PRECISION: Final = 6
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_ONLY: Final = {
    "b": "only integers and bools can be formatted as binary, was given ",
    "d": "decimal clause can only be used on integers, was given ",
    "f": "fixed-point clause can only be used on doubles, was given ",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "o": "octal clause can only be used on integers, was given ",
    "e": "scientific clause can only be used on doubles, was given ",
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given ",
}
_TEXTS: Final = (int, UInt, float, bool, str, Timestamp, bytes, Duration, types.Type)


class ClauseError(EvalError):
    """An argument that its clause does not take; `id` is that of a node when it is known before evaluation."""

    def __init__(self, message: str, id: int | None = None) -> None:
        super().__init__(message)
        self.id = id


def refused(clause: str, kind: str, id: int | None = None) -> ClauseError:
    """The error for a type that a clause does not take."""
    return ClauseError(_ONLY[clause.lower()] + kind, id)


Formatter = Callable[[str, int | None, int], str]
"""Formats the argument with an index by a clause (its letter) and a precision."""


def parse(text: str, count: int, formatter: Formatter) -> str:
    """The text with its clauses replaced. Raises EvalError."""
    found: list[str] = []
    position = index = 0
    while position < len(text):
        end = text.find("%", position)
        if end < 0:
            found.append(text[position:])
            break
        found.append(text[position:end])
        if text[end + 1 : end + 2] == "%":
            found.append("%")
            position = end + 2
            continue
        if index >= count:
            raise EvalError(f"index {index} out of range")
        if end + 1 >= len(text):
            raise EvalError("unexpected end of string")
        clause, precision, position = _clause(text, end + 1)
        try:
            found.append(formatter(clause, precision, index))
        except EvalError as error:
            raise ClauseError(f"error during formatting: {error}", getattr(error, "id", None)) from None
        index += 1
    return "".join(found)


def _clause(text: str, position: int) -> tuple[str, int | None, int]:
    precision: int | None = None
    if text[position] == ".":
        match = re.compile("[0-9]*").match(text, position + 1)
        digits = match.group() if match else ""
        position += 1 + len(digits)
        if position >= len(text):
            raise _unparsable("error while parsing precision: could not find end of precision specifier")
        if not digits:
            raise _unparsable(
                "error while parsing precision: error while converting precision to integer: "
                'strconv.Atoi: parsing "": invalid syntax'
            )
        if len(digits.lstrip("0")) > 19 or int(digits) >= 2**63:
            raise _unparsable(
                "error while parsing precision: error while converting precision to integer: "
                f"strconv.Atoi: parsing {quote(digits)}: value out of range"
            )
        precision = int(digits)
    clause = text[position]
    if clause not in "sdfebxXo":
        # The clause is looked at byte by byte.
        shown_clause = chr(clause.encode("utf-8", "surrogatepass")[0])
        raise _unparsable(f'unrecognized formatting clause "{shown_clause}"')
    return clause, precision, position + 1


def _unparsable(reason: str) -> EvalError:
    return EvalError(f"could not parse formatting clause: {reason}")


def format_text(text: str, values: Sequence[Any]) -> str:
    """`text.format(values)`. Raises EvalError."""
    return parse(
        text, len(values), lambda clause, precision, index: _format(clause, precision, values[index])
    )


def _format(clause: str, precision: int | None, value: Any) -> str:
    kind = type(value)
    integer = kind is int or kind is UInt
    match clause:
        case "s":
            return _string(value)
        case "d" if integer:
            return str(int(value))
        case "b" if integer or kind is bool:
            return format(int(value), "b")
        case "o" if integer:
            return format(int(value), "o")
        case "x" | "X" if integer:
            return format(int(value), clause)
        case "x" | "X" if kind is str or kind is bytes:
            octets = value if kind is bytes else value.encode("utf-8", "surrogatepass")
            found: str = octets.hex()
            return found.upper() if clause == "X" else found
        case "f" | "e" if kind is float or value in ("NaN", "Infinity", "-Infinity"):
            number = float(value)
            places = _DEFAULT_PRECISION if precision is None else precision
            return _fixed(number, places) if clause == "f" else _scientific(number, places)
    raise refused(clause, type_name(value))


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def _fixed(value: float, places: int) -> str:
    return _special(value) or f"{value:,.{places}f}"


def _scientific(value: float, places: int) -> str:
    special = _special(value)
    if special is not None:
        return special
    mantissa, _, exponent = f"{value:.{places}e}".partition("e")
    power = int(exponent)
    raised = f"{'-' if power < 0 else ''}{abs(power):02d}".translate(_SUPERSCRIPT)
    return f"{mantissa}×10{raised}"


def _string(value: Any) -> str:
    from .conversions import text

    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(_literal(each) for each in value)}]"
    if isinstance(value, CelMap):
        return _map(value)
    if type(value) in _TEXTS:
        try:
            return text(value)
        except EvalError as error:
            raise EvalError(f"could not convert argument {quote(str(error))} to string") from None
    raise refused("s", type_name(value))


def _map(value: CelMap) -> str:
    pairs: list[tuple[str, str]] = []
    for key, entry in value.items():
        if type(key) not in (str, bool, int, UInt):
            raise EvalError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((_quoted(key, _string(key)), _literal(entry)))
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{entry}" for key, entry in pairs) + "}"


def _literal(value: Any) -> str:
    """An element as a literal of the language."""
    kind = type(value)
    if kind is Timestamp or kind is Duration:
        return f"{'timestamp' if kind is Timestamp else 'duration'}({quote(_string(value))})"
    if kind is float:
        special = {"NaN": "NaN", "∞": "+Inf", "-∞": "-Inf"}.get(_special(value) or "")
        return quote(special) if special else f"{value:.{_DEFAULT_PRECISION}f}"
    if kind is types.Type:
        return f"type({value.name})"
    if value is None or isinstance(value, (list, CelMap)) or kind in (int, UInt, str, bytes, bool):
        return _quoted(value, _string(value))
    raise EvalError(f"no formatting function for {type_name(value)}")


def _quoted(value: Any, text: str) -> str:
    if type(value) is str:
        return quote(text)
    return f"b{quote(text)}" if type(value) is bytes else text
