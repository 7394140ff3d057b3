"""Which part of a log somebody asks for, as the query of a URL says it."""

from __future__ import annotations

from collections.abc import Mapping

from clusters.clock import parse_stamp
from clusters.containers.log_reader import LogOptions, since

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_STREAMS = {"": "", "All": "", "Stdout": "stdout", "Stderr": "stderr"}


class LogRequestError(Exception):
    """A request that cannot be answered, with the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def wants_previous(query: Mapping[str, str]) -> bool:
    """Whether the log of the container before the current one is meant."""
    return query.get("previous", "") in _TRUE


def read_options(query: Mapping[str, str], now: float) -> LogOptions:
    """PodLogOptions of a URL's query; `now` is seconds since the epoch. Raises LogRequestError."""
    try:
        tail, limit, seconds = (_number(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
        moment = parse_stamp(query["sinceTime"]) if query.get("sinceTime") else None
        stream = _STREAMS[query.get("stream", "")]
    except (ValueError, KeyError):
        raise LogRequestError(400, '{"message": "Unable to decode query."}') from None
    invalid = (
        (tail is not None and tail < 0)
        or (limit is not None and limit < 1)
        or (seconds is not None and seconds < 1)
        or (seconds is not None and moment is not None)
    )
    if invalid:
        raise LogRequestError(422, '{"message": "Invalid request."}')
    return LogOptions(
        follow=query.get("follow", "") in _TRUE,
        tail=tail,
        since=since(seconds, moment, now),
        timestamps=query.get("timestamps", "") in _TRUE,
        limit_bytes=limit,
        stream=stream,
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    return int(text) if text else None
