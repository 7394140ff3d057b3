"""Timestamps as the API prints them."""

from __future__ import annotations

import datetime


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC with whole seconds, as metav1.Time."""
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.datetime.fromisoformat(text).timestamp()
