"""Events that happened while pods were being tried, so that none is lost for them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from clusters.embedded.scheduler.framework.events import ClusterEvent, Object


@dataclass(frozen=True, slots=True)
class Happened:
    """An event with its objects."""

    event: ClusterEvent
    old: Object | None
    new: Object | None


class InFlight:
    """Pods between the queue and the end of their attempt, each with the events since its start."""

    def __init__(self) -> None:
        self._start: dict[str, int] = {}
        self._events: deque[Happened] = deque()
        self._first = 0
        """The number of the first event in the deque."""

    def __contains__(self, uid: str) -> bool:
        return uid in self._start

    def __len__(self) -> int:
        return len(self._start)

    def start(self, uid: str) -> None:
        """An attempt begins."""
        self._start[uid] = self._first + len(self._events)

    def note(self, happened: Happened) -> None:
        """Remember an event for the pods in flight."""
        if self._start:
            self._events.append(happened)

    def events(self, uid: str) -> list[Happened]:
        """What happened since the attempt began."""
        start = self._start[uid] - self._first
        return [self._events[index] for index in range(start, len(self._events))]

    def end(self, uid: str) -> None:
        """The attempt is over; unknown pods are ignored."""
        if self._start.pop(uid, None) is None:
            return
        # Pods start in the order of the events, so the first one needs the oldest.
        oldest = next(iter(self._start.values()), self._first + len(self._events))
        while self._first < oldest:
            self._events.popleft()
            self._first += 1
