"""Claims as the scheduler knows them: from the informer, or newer from its own writes.

Source: kubernetes v1.37.2 `pkg/scheduler/util/assumecache/assume_cache.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusters.embedded.components.informer import Handler
from clusters.embedded.scheduler.framework.events import Object

Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    latest: Object
    informed: Object


class AssumeCache:
    """Tells its handlers of changes of the latest object, wherever that came from."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._handlers: list[Handler] = []

    def add_handler(self, handler: Handler) -> None:
        """Be told of changes from now on."""
        self._handlers.append(handler)

    def get(self, namespace: str, name: str) -> Object | None:
        """The latest object."""
        entry = self._entries.get((namespace, name))
        return entry.latest if entry else None

    def inform(self, old: Object | None, new: Object | None) -> None:
        """The handler for the informer. Objects that are not newer than what is known change nothing."""
        if new is None:
            if old is not None and (entry := self._entries.pop(_key(old), None)) is not None:
                self._tell(entry.latest, None)
            return
        known = self._entries.get(_key(new))
        if known is not None and _version(new) <= _version(known.latest):
            if _version(new) > _version(known.informed):
                known.informed = new
            return
        self._entries[_key(new)] = _Entry(new, new)
        self._tell(known.latest if known else None, new)

    def assume(self, obj: Object) -> bool:
        """Take an object from the answer to a write; False when the informer knows better already."""
        entry = self._entries.get(_key(obj))
        if entry is None or _version(obj) < _version(entry.latest):
            return False
        old, entry.latest = entry.latest, obj
        self._tell(old, obj)
        return True

    def restore(self, namespace: str, name: str) -> None:
        """Go back to what the informer said last."""
        entry = self._entries.get((namespace, name))
        if entry is not None:
            old, entry.latest = entry.latest, entry.informed
            self._tell(old, entry.informed)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        for handler in self._handlers:
            handler(old, new)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
