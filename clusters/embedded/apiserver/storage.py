"""Objects in memory, with a revision for each write and a window of history (what etcd and the watch cache do).

One store serves one event loop: every call is synchronous, so a read followed by a write in the same step is
atomic. Stored objects are never changed in place; callers copy before they change.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from clusters.embedded.apiserver.changes import Change, Object, Predicate, Watcher

__all__ = [
    "ExistsError", "ExpiredError", "Object", "Objects", "Predicate", "Reader", "ResourceKey", "Store", "Watcher",
]  # fmt: skip

Objects = list[Object]
Getter = Callable[[Object], str]
# So many of the last changes of a resource keep the bytes that went to watchers; the history outlives its use.
_ENCODED = 256


class ResourceKey(NamedTuple):
    """Where objects of one kind live: API group and plural name, whatever the version."""

    group: str
    resource: str


class Reader(Protocol):
    """What authorization and admission may know: stored objects, in the storage version, not to be changed."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object or None; `namespace` is empty for cluster-scoped kinds."""

    def list(self, group: str, resource: str, namespace: str | None = None) -> Objects:
        """All objects of a kind, of one namespace or of all, ordered by namespace and name."""

    def select(self, group: str, resource: str, field: str, value: str) -> Objects:
        """The objects of a kind whose indexed field has a value, in no order."""

    def changed(self, group: str, resource: str) -> object:
        """Something that equals an earlier answer as long as no object of the kind was written in between."""


class ExpiredError(Exception):
    """The asked revision lies before the history that is kept. `oldest` is the first one still known."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is compacted, oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class ExistsError(Exception):
    """An object with that name is stored already."""


class _Expiry(NamedTuple):
    """When the object of one write ends, unless it is written again."""

    time: float
    place: tuple[str, str]
    object: Object


class _Index:
    """Objects and watchers of one resource by the value of one field."""

    __slots__ = ("get", "objects", "watchers")

    def __init__(self, get: Getter) -> None:
        self.get = get
        self.objects: defaultdict[str, dict[tuple[str, str], Object]] = defaultdict(dict)
        self.watchers: defaultdict[str, set[Watcher]] = defaultdict(set)

    def move(self, place: tuple[str, str], new: Object | None, old: Object | None) -> None:
        if old is not None:
            value = self.get(old)
            del self.objects[value][place]
            if not self.objects[value]:
                del self.objects[value]
        if new is not None:
            self.objects[self.get(new)][place] = new

    def concerned(self, change: Change) -> Iterator[Watcher]:
        """The watchers that select the value before or after a change."""
        after = self.get(change.object)
        yield from self.watchers.get(after, ())
        if change.previous is not None:
            before = self.get(change.previous)
            if before != after:
                yield from self.watchers.get(before, ())


class _Table:
    """The objects of one resource."""

    __slots__ = (
        "changed", "compacted", "expiring", "history", "indexes", "lifetime", "objects", "order", "watchers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.order: list[tuple[str, str]] | None = []
        self.history: deque[Change] = deque()
        self.compacted = 0
        self.watchers: set[Watcher] = set()
        """Those that no index knows."""
        self.indexes: dict[str, _Index] = {}
        self.changed = 0
        self.lifetime: Callable[[], float] | None = None
        """When an object that is written now ends."""
        self.expiring: deque[_Expiry] = deque()

    def every_watcher(self) -> list[Watcher]:
        found = list(self.watchers)
        for index in self.indexes.values():
            for group in index.watchers.values():
                found += group
        return found

    def group(self, selects: tuple[str, str] | None) -> set[Watcher]:
        """Where a watcher of one value of an indexed field belongs, or one of anything."""
        index = self.indexes.get(selects[0]) if selects else None
        return self.watchers if index is None or selects is None else index.watchers[selects[1]]

    def ordered(self) -> list[tuple[str, str]]:
        if self.order is None:
            self.order = sorted(self.objects, key=_sort_key)
        return self.order


def _sort_key(key: tuple[str, str]) -> bytes:
    return f"{key[0]}/{key[1]}".encode()


class Store:
    """All objects of an API server. It outlives the server, as etcd does."""

    def __init__(self, history: int = 10_000, queue_limit: int = 10_000) -> None:
        """`history`: changes kept per resource; `queue_limit`: changes a slow watcher may lag behind."""
        self._history = history
        self._queue_limit = queue_limit
        self._tables: dict[ResourceKey, _Table] = {}
        # A revision of 0 means "any" and clients take 1 for an empty etcd, so the first write gets 2.
        self.revision = 1
        self.last: Change | None = None
        """The latest write."""
        self._advanced: set[asyncio.Event] = set()

    def _table(self, key: ResourceKey) -> _Table:
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table()
        return table

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """See Reader."""
        return self._table(ResourceKey(group, resource)).objects.get((namespace, name))

    def list(self, group: str, resource: str, namespace: str | None = None) -> Objects:
        """See Reader."""
        table = self._table(ResourceKey(group, resource))
        return [table.objects[key] for key in table.ordered() if namespace is None or key[0] == namespace]

    def index(self, key: ResourceKey, field: str, get: Getter) -> None:
        """Keep the objects of a resource by the value of a field, for `select` and for watchers of one value."""
        table = self._table(key)
        if field in table.indexes:
            return
        index = table.indexes[field] = _Index(get)
        for place, obj in table.objects.items():
            index.move(place, obj, None)

    def select(self, group: str, resource: str, field: str, value: str) -> Objects:
        """See Reader."""
        found = self._table(ResourceKey(group, resource)).indexes[field].objects.get(value)
        return list(found.values()) if found else []

    def changed(self, group: str, resource: str) -> int:
        """See Reader: the revision of the last write."""
        return self._table(ResourceKey(group, resource)).changed

    def list_at(self, key: ResourceKey, revision: int, namespace: str | None = None) -> Objects:
        """The objects as they were at a past revision; raises ExpiredError."""
        table = self._table(key)
        if revision < table.compacted:
            raise ExpiredError(revision, table.compacted)
        objects = dict(table.objects)
        for change in reversed(table.history):
            if change.revision <= revision:
                break
            if change.previous is None:
                objects.pop((change.namespace, change.name), None)
            else:
                objects[change.namespace, change.name] = change.previous
        return [objects[k] for k in sorted(objects, key=_sort_key) if namespace is None or k[0] == namespace]

    def create(self, key: ResourceKey, obj: Object) -> Object:
        """Store a new object; the stored form carries its resourceVersion. Raises ExistsError."""
        metadata = obj["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        table = self._table(key)
        if place in table.objects:
            raise ExistsError(place)
        return self._write(table, "ADDED", place, obj, None)

    def update(self, key: ResourceKey, obj: Object) -> Object:
        """Replace a stored object; KeyError when there is none."""
        metadata = obj["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        table = self._table(key)
        return self._write(table, "MODIFIED", place, obj, table.objects[place])

    def delete(self, key: ResourceKey, namespace: str, name: str, last: Object | None = None) -> Object:
        """Remove an object; returns its last state (`last` if given) with the deletion's revision."""
        table = self._table(key)
        previous = table.objects[namespace, name]
        return self._write(table, "DELETED", (namespace, name), last or previous, previous)

    def _write(
        self, table: _Table, kind: str, place: tuple[str, str], obj: Object, previous: Object | None
    ) -> Object:
        self.revision += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        if kind == "DELETED":
            del table.objects[place]
        else:
            table.objects[place] = stored
            if table.lifetime is not None:
                table.expiring.append(_Expiry(table.lifetime(), place, stored))
        if kind != "MODIFIED":
            table.order = None
        change = Change(self.revision, kind, place[0], place[1], stored, previous)
        self.last = change
        table.history.append(change)
        table.changed = self.revision
        if len(table.history) > _ENCODED:
            table.history[-_ENCODED - 1].encoded.clear()
        while len(table.history) > self._history:
            table.compacted = table.history.popleft().revision
        for watcher in table.watchers:
            watcher.offer(change)
        for index in table.indexes.values():
            index.move(place, None if kind == "DELETED" else stored, previous)
            for watcher in index.concerned(change):
                watcher.offer(change)
        for event in self._advanced:
            event.set()
        return stored

    def expire_after(self, key: ResourceKey, seconds: float, clock: Callable[[], float]) -> None:
        """Let objects of a resource end so long after their last write; `expire` removes them."""
        self._table(key).lifetime = lambda: clock() + seconds

    def expire(self, key: ResourceKey, now: float) -> None:
        """Delete the objects of a resource whose time is over."""
        table = self._table(key)
        while table.expiring and table.expiring[0].time <= now:
            entry = table.expiring.popleft()
            if table.objects.get(entry.place) is entry.object:
                self.delete(key, *entry.place)

    def compact(self) -> None:
        """Forget all history: older revisions can no longer be listed or watched from."""
        for table in self._tables.values():
            table.history.clear()
            table.compacted = self.revision

    def watch(
        self,
        key: ResourceKey,
        since: int | None,
        namespace: str | None = None,
        matches: Predicate | None = None,
        selects: tuple[str, str] | None = None,
    ) -> Watcher:
        """Watch the changes after revision `since` (None: from now); raises ExpiredError. End with `unwatch`.

        `selects` is a field and the value that `matches` demands of it: an index spares the watcher the rest.
        """
        table = self._table(key)
        watcher = Watcher(since or 0, namespace, matches, self._queue_limit)
        if since is not None:
            if since < table.compacted:
                raise ExpiredError(since, table.compacted)
            for change in self._changes(table, since):
                watcher.offer(change)
        table.group(selects).add(watcher)
        return watcher

    @staticmethod
    def _changes(table: _Table, since: int) -> Iterator[Change]:
        recent: deque[Change] = deque()
        for change in reversed(table.history):
            if change.revision <= since:
                break
            recent.appendleft(change)
        return iter(recent)

    def unwatch(self, key: ResourceKey, watcher: Watcher, selects: tuple[str, str] | None = None) -> None:
        """Stop feeding a watcher that was opened with the same `selects`."""
        watcher.close()
        table = self._table(key)
        group = table.group(selects)
        group.discard(watcher)
        if selects is not None and not group and group is not table.watchers:
            del table.indexes[selects[0]].watchers[selects[1]]

    def close_watchers(self) -> None:
        """End every watch, as a server that stops does."""
        for table in self._tables.values():
            for watcher in table.every_watcher():
                watcher.close()

    async def reached(self, revision: int, timeout: float) -> bool:
        """Wait until the store has reached a revision; False when that takes longer than `timeout` seconds."""
        if self.revision >= revision:
            return True
        event = asyncio.Event()
        self._advanced.add(event)
        try:
            async with asyncio.timeout(timeout):
                while self.revision < revision:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            return False
        finally:
            self._advanced.discard(event)
        return True
