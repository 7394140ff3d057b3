"""Spans of time as Go writes them: `1m0s`, `500ms`."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_INT64: Final = 2**63


def parse(text: str) -> int:
    """Nanoseconds. Raises ValueError with Go's words."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quoted}")
    total, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            raise ValueError(f"time: invalid duration {quoted}")
        number, unit = part.groups()
        if not unit:
            raise ValueError(f"time: missing unit in duration {quoted}")
        if unit not in _UNITS:
            raise ValueError(f'time: unknown unit "{unit}" in duration {quoted}')
        whole, _, fraction = number.partition(".")
        total += int(whole or "0") * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
        position = part.end()
    if total > _INT64 or (total == _INT64 and sign == 1):
        raise ValueError(f"time: invalid duration {quoted}")
    return sign * total


def text(nanoseconds: int) -> str:
    """Go's spelling of a span."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if rest < size * 1000:
            return f"{sign}{_decimal(rest, size)}{unit}"
    minutes, seconds = divmod(rest, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    result = f"{_decimal(seconds, 10**9)}s"
    if hours or minutes:
        result = f"{minutes}m{result}"
    if hours:
        result = f"{hours}h{result}"
    return sign + result


def _decimal(amount: int, size: int) -> str:
    whole, fraction = divmod(amount, size)
    if not fraction:
        return str(whole)
    digits = str(fraction).rjust(len(str(size)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}"
