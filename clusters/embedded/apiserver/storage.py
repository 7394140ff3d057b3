"""Objects in memory, with a revision for each write and a window of history (what etcd and the watch cache do).

One store serves one event loop: every call is synchronous, so a read followed by a write in the same step is
atomic. Stored objects are never changed in place; callers copy before they change.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Object = dict[str, Any]
Objects = list[Object]
Predicate = Callable[[Object], bool]


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


class ExpiredError(Exception):
    """The asked revision lies before the history that is kept. `oldest` is the first one still known."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is compacted, oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class ExistsError(Exception):
    """An object with that name is stored already."""


@dataclass(slots=True)
class Change:
    """One write: `type` is ADDED, MODIFIED or DELETED; `object` carries the write's revision."""

    revision: int
    type: str
    namespace: str
    name: str
    object: Object
    previous: Object | None
    encoded: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    """Encodings by (event type, form): many watchers share one."""
    _left: Object | None = None

    def left(self) -> Object:
        """The previous object with this revision: what a watcher sees when its selector stops matching."""
        if self._left is None:
            previous = self.previous or self.object
            self._left = {
                **previous,
                "metadata": {**previous["metadata"], "resourceVersion": str(self.revision)},
            }
        return self._left


class Notice(NamedTuple):
    """A change as one watcher sees it: selectors can turn MODIFIED into ADDED or DELETED."""

    type: str
    object: Object
    change: Change


class Watcher:
    """A bounded queue of the changes which one watch request has yet to send."""

    def __init__(self, since: int, namespace: str | None, matches: Predicate | None, limit: int) -> None:
        self._since = since
        self._namespace = namespace
        self._matches = matches
        self._limit = limit
        self._queue: deque[Notice] = deque()
        self._wake = asyncio.Event()
        self.closed = False
        """True once nothing more will come: too slow a reader, or the server stops."""
        self.on_overflow: Callable[[], None] | None = None
        """Called when the reader was too slow: it may hang in a write that never ends."""

    def offer(self, change: Change) -> None:
        """Take a change if the watcher selects it; a full queue closes the watcher."""
        if self.closed or (self._namespace is not None and self._namespace != change.namespace):
            return
        if change.revision <= self._since:
            # A client may name a revision of the future.
            return
        notice = self._select(change)
        if notice is None:
            return
        if len(self._queue) >= self._limit:
            self.close()
            if self.on_overflow is not None:
                self.on_overflow()
            return
        self._queue.append(notice)
        self._wake.set()

    def _select(self, change: Change) -> Notice | None:
        if self._matches is None:
            return Notice(change.type, change.object, change)
        now = change.type != "DELETED" and self._matches(change.object)
        before = change.previous is not None and self._matches(change.previous)
        if now:
            return Notice("MODIFIED" if before else "ADDED", change.object, change)
        if not before:
            return None
        if change.type == "DELETED":
            return Notice("DELETED", change.object, change)
        return Notice("DELETED", change.left(), change)

    def close(self) -> None:
        """End the stream after what is queued."""
        self.closed = True
        self._wake.set()

    async def take(self, timeout: float) -> list[Notice]:
        """All queued notices; waits up to `timeout` seconds for the first."""
        if not self._queue and not self.closed:
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return []
        self._wake.clear()
        notices = list(self._queue)
        self._queue.clear()
        return notices


class _Expiry(NamedTuple):
    """When the object of one write ends, unless it is written again."""

    time: float
    place: tuple[str, str]
    object: Object


class _Table:
    """The objects of one resource."""

    __slots__ = ("compacted", "expiring", "history", "lifetime", "objects", "order", "watchers")

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.order: list[tuple[str, str]] | None = []
        self.history: deque[Change] = deque()
        self.compacted = 0
        self.watchers: set[Watcher] = set()
        self.lifetime: Callable[[], float] | None = None
        """When an object that is written now ends."""
        self.expiring: deque[_Expiry] = deque()

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
        table.history.append(change)
        while len(table.history) > self._history:
            table.compacted = table.history.popleft().revision
        for watcher in list(table.watchers):
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
    ) -> Watcher:
        """Watch the changes after revision `since` (None: from now); raises ExpiredError. End with `unwatch`."""
        table = self._table(key)
        watcher = Watcher(since or 0, namespace, matches, self._queue_limit)
        if since is not None:
            if since < table.compacted:
                raise ExpiredError(since, table.compacted)
            for change in self._changes(table, since):
                watcher.offer(change)
        table.watchers.add(watcher)
        return watcher

    @staticmethod
    def _changes(table: _Table, since: int) -> Iterator[Change]:
        recent: deque[Change] = deque()
        for change in reversed(table.history):
            if change.revision <= since:
                break
            recent.appendleft(change)
        return iter(recent)

    def unwatch(self, key: ResourceKey, watcher: Watcher) -> None:
        """Stop feeding a watcher."""
        watcher.close()
        self._table(key).watchers.discard(watcher)

    def close_watchers(self) -> None:
        """End every watch, as a server that stops does."""
        for table in self._tables.values():
            for watcher in list(table.watchers):
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
