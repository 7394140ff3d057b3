"""Room for deeply nested expressions, which need more frames than Python allows by default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import Final, TypeVar

_Result = TypeVar("_Result")
_FRAMES: Final = 50_000
_lock: Final = Lock()
_users = 0
_limit = 0


def with_room(call: Callable[[], _Result]) -> _Result:
    """Call, and once more with room when the frames do not suffice.

    The limit of frames belongs to the whole process: it is raised only while such calls run. Nesting is limited
    by the parser, so it cannot grow without bounds.
    """
    try:
        return call()
    except RecursionError:
        pass
    _enter()
    try:
        return call()
    finally:
        _leave()


def _enter() -> None:
    global _users, _limit
    with _lock:
        if not _users:
            _limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_limit, _FRAMES))
        _users += 1


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        if not _users:
            sys.setrecursionlimit(_limit)
