"""Schedules and time zones of CronJobs, with the texts of the parser that Kubernetes uses (robfig/cron v3)."""

from __future__ import annotations

import re
import zoneinfo
from typing import Final, NamedTuple

_DESCRIPTORS: Final = (
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
)  # fmt: skip
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ZONE_PART: Final = r"[A-Za-z.\-_0-9+]{1,14}"
_DURATION: Final = r"[-+]?(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))*|0"


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS: Final = (
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, {name: index + 1 for index, name in enumerate(_MONTHS)}),
    _Bounds(0, 6, {name: index for index, name in enumerate(_DAYS)}),
)


def schedule_problem(schedule: str) -> str:
    """Why a text is no schedule; empty when it is one."""
    try:
        _check(schedule)
    except ValueError as error:
        return str(error)
    return ""


def _check(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        name = zone.partition("=")[2]
        if not schedule:
            raise ValueError("invalid schedule format")
        if not _known(name):
            raise ValueError(f"provided bad location {name}: unknown time zone {name}")
        schedule = schedule.strip()
    if schedule.startswith("@every "):
        duration = schedule.removeprefix("@every ")
        if not re.fullmatch(_DURATION, duration):
            raise ValueError(f'failed to parse duration {schedule}: time: invalid duration "{duration}"')
        return
    if schedule.startswith("@"):
        if schedule not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {schedule}")
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = f"[{' '.join(fields)}]"
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: {shown}")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for expression in filter(None, field.split(",")):
            _check_range(expression, bounds)


def _check_range(expression: str, bounds: _Bounds) -> None:
    span, *steps = expression.split("/")
    low, *highs = span.split("-")
    if low in ("*", "?"):
        start, end = bounds.low, bounds.high
    else:
        start = _number(low, bounds.names)
        if len(highs) > 1:
            raise ValueError(f"too many hyphens: {expression}")
        end = _number(highs[0], bounds.names) if highs else start
    step = 1
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {expression}")
    if steps:
        step = _number(steps[0], {})
        end = end if highs else bounds.high
    if start < bounds.low:
        raise ValueError(f"beginning of range ({start}) below minimum ({bounds.low}): {expression}")
    if end > bounds.high:
        raise ValueError(f"end of range ({end}) above maximum ({bounds.high}): {expression}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {expression}")


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch("[-+]?[0-9]+", text):
        problem = f'strconv.Atoi: parsing "{text}": invalid syntax'
        raise ValueError(f"failed to parse int from {text}: {problem}")
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def time_zone_problems(zone: str) -> list[str]:
    """Why a text is no time zone of a CronJob."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not re.fullmatch(_ZONE_PART, part):
            return [f"unknown time zone {zone}"]
    problems = []
    if zone.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        problems.append(text)
    if zone != "Local" and not _known(zone):
        problems.append(f"unknown time zone {zone}")
    return problems


def _known(zone: str) -> bool:
    if zone in ("UTC", "Local"):
        return True
    try:
        return zone in zoneinfo.available_timezones()
    except (OSError, ValueError):
        return False
