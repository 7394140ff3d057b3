"""Durations and timestamps: text forms and accessors (cel-go `common/stdlib`, Go's `time`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..values import Duration, Timestamp
from .operators import timestamp

_SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A day within the years that datetime knows in every zone.
_FIRST_SECOND: Final = -62135596800 + 86400
_LAST_SECOND: Final = 253402300799 - 86400


def parse_duration(text: str) -> Duration | None:
    """A duration such as `1h30m` as Go reads it, else None."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None:
            return None
        whole, fraction, unit = match.groups()
        if unit not in _UNITS or not (whole or fraction):
            return None
        total += int(whole or "0") * _UNITS[unit]
        if fraction:
            total += int(fraction[:18]) * _UNITS[unit] // 10 ** len(fraction[:18])
        if total > 2**63:
            return None
        position = match.end()
    total *= sign
    return Duration(total) if rest and -(2**63) <= total < 2**63 else None


def seconds_text(nanoseconds: int) -> str:
    """Seconds as Go's FormatFloat(..., 'f', -1) prints their double."""
    from ..gotext import fixed_shortest

    whole, rest = divmod(abs(nanoseconds), _SECOND)
    value = float(whole) + rest / 1e9
    return fixed_shortest(-value if nanoseconds < 0 else value)


def duration_text(nanoseconds: int) -> str:
    """A duration as Go prints it: `1h0m0s`, `1.5ms`."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    if rest < _SECOND:
        for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
            if rest < size * 1000:
                return sign + _decimal(rest, size) + unit
    seconds = _decimal(rest % (60 * _SECOND), _SECOND)
    minutes, hours = rest // (60 * _SECOND) % 60, rest // (3600 * _SECOND)
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}s"
    return f"{sign}{minutes}m{seconds}s" if minutes else f"{sign}{seconds}s"


def _decimal(number: int, unit: int) -> str:
    whole, rest = divmod(number, unit)
    return f"{whole}.{str(unit + rest)[1:].rstrip('0')}" if rest else str(whole)


def parse_timestamp(text: str) -> Timestamp | None:
    """An RFC 3339 time as Go reads it, else None; raises EvalError for years that CEL does not have."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, off_hours, off_minutes = match.groups()
    offset = 0
    if sign:
        if int(off_hours) > 24 or int(off_minutes) > 60:
            return None
        offset = (int(off_hours) * 3600 + int(off_minutes) * 60) * (-1 if sign == "-" else 1)
    days = _days(int(year), int(month), int(day))
    if days is None or int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        return None
    seconds = days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second) - offset
    return timestamp(seconds * _SECOND + int((fraction or "0")[:9].ljust(9, "0")), offset)


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a date, None when there is no such day."""
    # The calendar repeats after 400 years, which datetime knows from year 1 to 9999 only.
    cycles, year_in_cycle = divmod(year, 400)
    try:
        found = datetime(2000 + year_in_cycle, month, day, tzinfo=UTC)
    except ValueError:
        return None
    return (found - _EPOCH).days + (cycles - 5) * 146097


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many digits of the second as there are."""
    moment = local(value, value.offset)
    rest = value.nanoseconds % _SECOND
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset) // 60, 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    date = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    return f"{date}T{moment.hour:02d}:{moment.minute:02d}:{moment.second:02d}{fraction}{zone}"


class Wall(NamedTuple):
    """What a clock and a calendar show; years may be outside of those that datetime knows."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    day_of_year: int


def local(value: Timestamp, offset: int) -> Wall:
    """The wall clock at an offset in seconds."""
    days, second = divmod(value.nanoseconds // _SECOND + offset, 86400)
    cycles, day_in_cycle = divmod(days, 146097)
    found = _EPOCH + timedelta(days=day_in_cycle)
    return Wall(
        found.year + 400 * cycles,
        found.month,
        found.day,
        second // 3600,
        second // 60 % 60,
        second % 60,
        (days + 4) % 7,
        found.timetuple().tm_yday,
    )


def _offset(value: Timestamp, zone: str) -> int:
    """The offset of a zone at a time, in seconds."""
    found = _zone(zone)
    if isinstance(found, int):
        return found
    seconds = min(max(value.nanoseconds // _SECOND, _FIRST_SECOND), _LAST_SECOND)
    offset = (_EPOCH + timedelta(seconds=seconds)).astimezone(found).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _zone(name: str) -> ZoneInfo | int:
    """A zone, or an offset in seconds."""
    hours, colon, minutes = name.partition(":")
    if colon:
        hour, minute = _number(hours), _number(minutes)
        return 60 * (hour * 60 - minute if name.startswith("-") else hour * 60 + minute)
    if name in ("", "UTC", "Local"):
        return 0
    if ".." in name or name[0] in "/\\":
        raise EvalError("time: invalid location name")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvalError(f"unknown time zone {name}") from None


def _number(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) is None:
        from ..gotext import quote

        raise EvalError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    return int(text)


_Accessor = Callable[[Wall], int]
_ACCESSORS: Final[tuple[tuple[str, str, str, _Accessor], ...]] = (
    ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", lambda t: t.year),
    ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", lambda t: t.month - 1),
    (
        "getDayOfYear",
        "timestamp_to_day_of_year",
        "timestamp_to_day_of_year_with_tz",
        lambda t: t.day_of_year - 1,
    ),
    (
        "getDayOfMonth",
        "timestamp_to_day_of_month",
        "timestamp_to_day_of_month_with_tz",
        lambda t: t.day - 1,
    ),
    (
        "getDate",
        "timestamp_to_day_of_month_1_based",
        "timestamp_to_day_of_month_1_based_with_tz",
        lambda t: t.day,
    ),
    (
        "getDayOfWeek",
        "timestamp_to_day_of_week",
        "timestamp_to_day_of_week_with_tz",
        lambda t: t.weekday,
    ),
    ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", lambda t: t.hour),
    ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", lambda t: t.minute),
    ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", lambda t: t.second),
)
_SPANS: Final = (
    ("getHours", "duration_to_hours", 3600 * _SECOND),
    ("getMinutes", "duration_to_minutes", 60 * _SECOND),
    ("getSeconds", "duration_to_seconds", _SECOND),
)


def _accessor(name: str, id: str, id_with_zone: str, read: _Accessor) -> Function:
    def in_zone(value: Timestamp, zone: str) -> int:
        return read(local(value, _offset(value, zone)))

    return Function(
        name,
        (
            Overload(id, (types.TIMESTAMP,), types.INT, True, lambda value: read(local(value, 0))),
            Overload(id_with_zone, (types.TIMESTAMP, types.STRING), types.INT, True, in_zone),
        ),
    )


def _span(name: str, id: str, unit: int) -> Function:
    def read(value: Duration) -> int:
        whole = abs(value.nanoseconds) // unit
        return -whole if value.nanoseconds < 0 else whole

    return Function(name, (Overload(id, (types.DURATION,), types.INT, True, read),))


def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _zone(zone)
    return value.nanoseconds % _SECOND // 10**6


def _duration_milliseconds(value: Duration) -> int:
    # Only the part below a second, as upstream does it for protobuf durations.
    whole = abs(value.nanoseconds) // 10**6
    return -whole if value.nanoseconds < 0 else whole


def _milliseconds_function() -> Any:
    return Function(
        "getMilliseconds",
        (
            Overload("timestamp_to_milliseconds", (types.TIMESTAMP,), types.INT, True, _milliseconds),
            Overload(
                "timestamp_to_milliseconds_with_tz",
                (types.TIMESTAMP, types.STRING),
                types.INT,
                True,
                _milliseconds,
            ),
            Overload("duration_to_milliseconds", (types.DURATION,), types.INT, True, _duration_milliseconds),
        ),
    )


TIMES: Final = library(
    *(_accessor(*row) for row in _ACCESSORS), *(_span(*row) for row in _SPANS), _milliseconds_function()
)
"""Accessors of timestamps and durations."""
