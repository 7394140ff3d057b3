"""The log of what the plugin half of a kubelet saw and did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

EventKind = Literal[
    "started",
    "stopped",
    "registering",
    "registered",
    "registration-failed",
    "deregistered",
    "connected",
    "disconnected",
    "called",
    "call-failed",
]


@dataclass(frozen=True)
class PluginEvent:
    """One event. `time` is monotonic seconds; `path` a registration socket or, for calls, the endpoint."""

    kind: EventKind
    driver: str = ""
    path: str = ""
    text: str = ""
    time: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.driver, self.path, self.text) if part)


class EventLog:
    """A thread-safe list of events that can be waited on."""

    def __init__(self) -> None:
        self._events: list[PluginEvent] = []
        self._listeners: list[Callable[[PluginEvent], None]] = []
        self._changed = threading.Condition()

    def add(self, event: PluginEvent) -> None:
        """Append and wake whoever waits for a change."""
        with self._changed:
            self._events.append(event)
            listeners = list(self._listeners)
            self._changed.notify_all()
        for listener in listeners:
            listener(event)

    def subscribe(self, listener: Callable[[PluginEvent], None]) -> None:
        """Have each further event told at once, in the thread where it happens."""
        with self._changed:
            self._listeners.append(listener)

    @property
    def count(self) -> int:
        """Number of events so far."""
        with self._changed:
            return len(self._events)

    def wait_beyond(self, count: int, timeout: float) -> int:
        """Wait until there are more than `count` events, at most `timeout` seconds; return their number."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) > count, timeout)
            return len(self._events)

    def since(self, start: float = 0.0) -> list[PluginEvent]:
        """Return the events from the monotonic time on, in order."""
        with self._changed:
            return [event for event in self._events if event.time >= start]
