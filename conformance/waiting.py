"""Waiting for what a subject does in its own time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from conformance.model import Failed

FIRST_POLL, LAST_POLL = 0.03, 0.4
T = TypeVar("T")


def poll(
    probe: Callable[[], T | None],
    timeout: float,
    expected: str,
    seen: Callable[[], object] = lambda: "it did not happen",
) -> T:
    """The first truthy answer of `probe`. Raises Failed after `timeout` seconds, saying what was expected."""
    deadline = time.monotonic() + timeout
    pause, interval = threading.Event(), FIRST_POLL
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise Failed(f"{expected} within {timeout:g} s", str(seen()))
        pause.wait(interval)
        interval = min(LAST_POLL, interval * 1.5)
