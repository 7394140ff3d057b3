"""What client-go does to core/v1 events before they are written: similar ones are combined, floods are cut.

Source: client-go v0.37.2 `tools/record/events_cache.go`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from clusters.clock import Clock

COMBINED: Final = "(combined from similar events): "
_REMEMBERED: Final = 4096
_SIMILAR_SECONDS: Final = 600.0
_SIMILAR_LIMIT: Final = 10
_BURST: Final = 25
_REFILL_SECONDS: Final = 300.0
Value = TypeVar("Value")
Key = tuple[str, ...]


class Remembered(Generic[Value]):
    """A dict of the keys that were used last, 4096 at most."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Set the value of a key; the one that was unused for longest may go."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)


@dataclass
class _Similar:
    last: float
    messages: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Written:
    count: int
    first: str
    name: str


@dataclass
class _Tokens:
    left: float
    time: float


class Correlator:
    """Correlates the events of one source; may change them. Seconds are those of the clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._similar: Remembered[_Similar] = Remembered()
        self._written: Remembered[_Written] = Remembered()
        self._tokens: Remembered[_Tokens] = Remembered()

    def correlate(self, event: dict[str, Any]) -> bool:
        """Give the event its message, name and count; whether it is to be written, and not one too many."""
        key = self._aggregate(event)
        known = self._written.get(key)
        if known is not None:
            event["metadata"]["name"] = known.name
            event["firstTimestamp"] = known.first
            event["count"] = known.count + 1
        self._written.put(key, _Written(event["count"], event["firstTimestamp"], event["metadata"]["name"]))
        return self._accepts(event)

    def _aggregate(self, event: dict[str, Any]) -> Key:
        """From the tenth different message of a reason within ten minutes on, they count as one event."""
        about = event["involvedObject"]
        group = (*_object(about), event["type"], event["reason"])
        now = self._clock.now()
        similar = self._similar.get(group)
        if similar is None or now - similar.last > _SIMILAR_SECONDS:
            similar = _Similar(now)
        similar.last = now
        similar.messages.add(event["message"])
        self._similar.put(group, similar)
        if len(similar.messages) < _SIMILAR_LIMIT:
            return (*group, about.get("fieldPath", ""), event["message"])
        similar.messages.pop()
        event["message"] = COMBINED + event["message"]
        return group

    def _accepts(self, event: Mapping[str, Any]) -> bool:
        """Of one object and type 25 events at once, then one in five minutes."""
        key = (*_object(event["involvedObject"]), event["type"])
        now = self._clock.now()
        tokens = self._tokens.get(key) or _Tokens(_BURST, now)
        tokens.left = min(_BURST, tokens.left + (now - tokens.time) / _REFILL_SECONDS)
        tokens.time = now
        self._tokens.put(key, tokens)
        if tokens.left < 1:
            return False
        tokens.left -= 1
        return True


def _object(about: Mapping[str, Any]) -> Key:
    names = ("kind", "namespace", "name", "uid", "apiVersion")
    return tuple(str(about.get(name, "")) for name in names)
