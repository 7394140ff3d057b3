"""Spans of time and ages as tables print them."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.times import parse

_UNKNOWN: Final = "<unknown>"
_YEAR: Final = 365


def human_duration(seconds: float) -> str:
    """A span of time in at most two units, as tables print it."""
    whole = int(seconds)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 2 * _YEAR:
        return f"{days}d"
    years = days // _YEAR
    if days < 8 * _YEAR:
        return f"{years}y{days % _YEAR}d" if days % _YEAR else f"{years}y"
    return f"{years}y"


def since(text: str | None, now: float) -> str:
    """The age of a timestamp."""
    return human_duration(now - parse(text)) if text else _UNKNOWN


def age(obj: Object, now: float) -> str:
    """The age of an object."""
    return since(obj["metadata"].get("creationTimestamp"), now)
