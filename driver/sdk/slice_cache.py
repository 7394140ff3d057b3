"""The driver's own slices as the API server has them: list, then watch, list again when the watch is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from driver.sdk import log
from driver.sdk.api import ApiFailure
from driver.sdk.backoff import Backoff

Slice = dict[str, Any]
_SHORT_WATCH_SECONDS = 1.0


class SliceReader(Protocol):
    """Where slices are read from; all raise ApiFailure."""

    def list_slices(self, selector: str) -> tuple[list[Slice], str]:
        """Items and resourceVersion."""

    def watch_slices(self, selector: str, version: str) -> Iterator[tuple[str, Slice]]:
        """Changes."""


def _version(item: Slice) -> int:
    return int(item["metadata"]["resourceVersion"])


class SliceCache:
    """Slices by name. What a write returned is put in at once; older news from the watch do not undo it."""

    def __init__(self, api: SliceReader, selector: str, changed: Callable[[], None]) -> None:
        """`changed` is called after each change that somebody else has made."""
        self._api = api
        self._selector = selector
        self._changed = changed
        self._lock = threading.Lock()
        self._items: dict[str, Slice] = {}
        self._deleted: dict[str, str] = {}
        self.filled = threading.Event()

    def items(self) -> list[Slice]:
        """A snapshot."""
        with self._lock:
            return list(self._items.values())

    def relist(self) -> str:
        """Read everything anew; returns the resourceVersion. ApiFailure if the list cannot be read.

        What another thread has written or deleted meanwhile, after the list was made, stays as it is.
        """
        with self._lock:
            before = dict(self._deleted)
        items, version = self._api.list_slices(self._selector)
        with self._lock:
            found = {item["metadata"]["name"]: item for item in items}
            self._deleted = {name: uid for name, uid in self._deleted.items() if before.get(name) != uid}
            for name, uid in self._deleted.items():
                if name in found and found[name]["metadata"]["uid"] == uid:
                    del found[name]
            later = {name: item for name, item in self._items.items() if _version(item) > int(version or 0)}
            self._items = {**found, **later}
        self.filled.set()
        return version

    def put(self, item: Slice) -> bool:
        """Take over a stored object unless it is known or older; return whether it was news."""
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        with self._lock:
            known = self._items.get(name)
            if self._deleted.get(name) == uid or (known is not None and _version(known) >= _version(item)):
                return False
            self._items[name] = item
            return True

    def drop(self, item: Slice) -> bool:
        """Take over that an object is gone; return whether it was news."""
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        with self._lock:
            known = self._items.get(name)
            self._deleted[name] = uid
            if known is None or known["metadata"]["uid"] != uid:
                return False
            del self._items[name]
            return True

    def run(self, stop: threading.Event) -> None:
        """Follow the API server until `stop` is set."""
        backoff = Backoff()
        while not stop.is_set():
            try:
                version = self.relist()
                self._changed()
                self._follow(version, stop, backoff)
            except ApiFailure as problem:
                delay = max(backoff.next(), problem.retry_after)
                log.warning(
                    "slices cannot be followed, listing them again", problem=problem, seconds=round(delay, 1)
                )
                stop.wait(delay)

    def _follow(self, version: str, stop: threading.Event, backoff: Backoff) -> None:
        """Watch, and watch on from where it ended; ApiFailure 410 when that is too long ago."""
        while not stop.is_set():
            began = time.monotonic()
            problem: ApiFailure | None = None
            try:
                for kind, item in self._api.watch_slices(self._selector, version):
                    version = str(item["metadata"]["resourceVersion"])
                    if kind != "BOOKMARK" and (self.drop(item) if kind == "DELETED" else self.put(item)):
                        self._changed()
            except ApiFailure as found:
                if not found.transient:
                    raise
                problem = found
            # A server that ends watches at once must not be asked in a busy loop; one that has served us well and
            # then restarts is no such server.
            lasted = time.monotonic() - began > _SHORT_WATCH_SECONDS
            if lasted:
                backoff.reset()
            if problem is not None:
                delay = max(backoff.next(), problem.retry_after)
                log.info("watch of slices lost, watching again", problem=problem, seconds=round(delay, 1))
                stop.wait(delay)
            elif not lasted:
                stop.wait(backoff.next())
