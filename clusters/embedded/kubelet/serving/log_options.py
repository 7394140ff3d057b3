"""Which part of a log somebody asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusters.clock import parse_stamp

_TRUE = ("1", "t", "T", "TRUE", "true", "True")


class LogOptionsError(Exception):
    """A request that cannot be answered, with the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class LogOptions:
    """PodLogOptions. `since_seconds` counts back from now, `since_time` is seconds since the epoch."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: float | None = None


def read_options(query: Mapping[str, str]) -> LogOptions:
    """The options of a URL's query. Raises LogOptionsError."""
    try:
        options = LogOptions(
            follow=query.get("follow", "") in _TRUE,
            previous=query.get("previous", "") in _TRUE,
            timestamps=query.get("timestamps", "") in _TRUE,
            tail_lines=_number(query, "tailLines"),
            limit_bytes=_number(query, "limitBytes"),
            since_seconds=_number(query, "sinceSeconds"),
            since_time=parse_stamp(query["sinceTime"]) if query.get("sinceTime") else None,
        )
    except ValueError:
        raise LogOptionsError(400, '{"message": "Unable to decode query."}') from None
    tail, limit, since = options.tail_lines, options.limit_bytes, options.since_seconds
    invalid = (
        (tail is not None and tail < 0)
        or (limit is not None and limit < 1)
        or (since is not None and since < 1)
        or (since is not None and options.since_time is not None)
    )
    if invalid:
        raise LogOptionsError(422, '{"message": "Invalid request."}')
    return options


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    return int(text) if text else None
