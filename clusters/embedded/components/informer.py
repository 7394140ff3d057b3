"""A cache of one resource, filled by list and kept current by watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.embedded.components.client import JSON, METADATA_LIST, METADATA_ONLY, ApiClient, Object

_LOG: Final = logging.getLogger(__name__)
_FIRST_RETRY, _LAST_RETRY = 0.1, 5.0
_SHORT_WATCH: Final = 1.0
Handler = Callable[[Object | None, Object | None], None]
"""Called with (old, new): old is None for an addition, new is None for a deletion."""
IndexFunction = Callable[[Object], Iterable[str]]


class Informer:
    """Lists, then watches; the objects in the cache must not be changed by anybody.

    Handlers run in the loop, in the order of the changes, after the cache has changed. A relist after a gap calls
    them for what the gap hid. A handler added later gets additions for what is cached. An exception of a handler ends
    the informer: whoever missed a change has to begin anew.
    """

    def __init__(
        self,
        client: ApiClient,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        field_selector: str = "",
        label_selector: str = "",
        metadata_only: bool = False,
    ) -> None:
        """`metadata_only`: cached objects are PartialObjectMetadata."""
        self._metadata_only = metadata_only
        self._client = client
        self.api_version = api_version
        self.resource = resource
        self._namespace = namespace
        self._query = {
            key: value
            for key, value in (("fieldSelector", field_selector), ("labelSelector", label_selector))
            if value
        }
        self._objects: dict[tuple[str, str], Object] = {}
        self._handlers: list[Handler] = []
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[str, dict[tuple[str, str], Object]]] = {}
        self._synced = asyncio.Event()
        self._version = ""

    @property
    def synced(self) -> bool:
        """Whether the first list is in the cache."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the cache is current; empty before the first list."""
        return self._version

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._synced.wait()

    def get(self, namespace: str, name: str) -> Object | None:
        """One object; the namespace of cluster-scoped ones is empty."""
        return self._objects.get((namespace, name))

    def items(self) -> list[Object]:
        """All objects, in no particular order."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def index(self, name: str, function: IndexFunction) -> None:
        """Keep an index: `function` gives the keys under which an object is found."""
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._put(name, key, obj)

    def by_index(self, name: str, key: str) -> list[Object]:
        """The objects with this key in the index."""
        return list(self._indexes[name].get(key, {}).values())

    def add_handler(self, handler: Handler) -> None:
        """Be told of changes from now on, and of all that is cached at once."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            handler(None, obj)

    async def run(self) -> None:
        """List and watch until cancelled; broken connections and expired versions are survived."""
        retry = _FIRST_RETRY
        loop = asyncio.get_running_loop()
        while True:
            try:
                if not self._version:
                    await self._relist()
                    retry = _FIRST_RETRY
                began = loop.time()
                await self._watch()
                if loop.time() - began >= _SHORT_WATCH:
                    retry = _FIRST_RETRY
                    continue
                # A server that ends watches at once must not be asked without a pause.
                await asyncio.sleep(retry * CHANCE.uniform(1.0, 1.5))
                retry = min(retry * 2, _LAST_RETRY)
            except ClientError as error:
                if error.code in (410, 400) or error.reason == "Expired":
                    self._version = ""
                    if error.code == 410:
                        continue
                _LOG.debug("informer %s: %s", self.resource, error)
                await asyncio.sleep(retry * CHANCE.uniform(1.0, 1.5))
                retry = min(retry * 2, _LAST_RETRY)

    async def _relist(self) -> None:
        accept = METADATA_LIST if self._metadata_only else JSON
        answer = await self._client.list(
            self.api_version, self.resource, self._namespace, accept=accept, **self._query
        )
        present: dict[tuple[str, str], Object] = {_key(item): item for item in answer["items"]}
        for key in [key for key in self._objects if key not in present]:
            self._apply(key, None)
        for key, item in present.items():
            known = self._objects.get(key)
            if known is not None and known["metadata"].get("uid") != item["metadata"].get("uid"):
                self._apply(key, None)
                known = None
            if known is None or _version(known) != _version(item):
                self._apply(key, item)
        self._version = str(answer["metadata"]["resourceVersion"])
        self._synced.set()

    async def _watch(self) -> None:
        query: Mapping[str, Any] = {
            **self._query,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        accept = METADATA_ONLY if self._metadata_only else JSON
        stream = self._client.watch(self.api_version, self.resource, self._namespace, accept=accept, **query)
        # An async generator that is left early must be closed by hand, else its connection stays open.
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                obj: Object = event["object"]
                self._version = _version(obj)
                if event["type"] == "BOOKMARK":
                    continue
                self._apply(_key(obj), None if event["type"] == "DELETED" else obj, gone=obj)

    def _apply(self, key: tuple[str, str], new: Object | None, gone: Object | None = None) -> None:
        """Take a change into cache and indexes and tell the handlers; `gone` is the last state of a deleted object."""
        old = self._objects.get(key)
        if new is None:
            if old is None:
                return
            del self._objects[key]
        else:
            self._objects[key] = new
        for name in self._functions:
            if old is not None:
                for value in self._functions[name](old):
                    entry = self._indexes[name].get(value, {})
                    entry.pop(key, None)
                    if not entry:
                        self._indexes[name].pop(value, None)
            if new is not None:
                self._put(name, key, new)
        for handler in self._handlers:
            handler(gone if new is None and gone is not None else old, new)

    def _put(self, name: str, key: tuple[str, str], obj: Object) -> None:
        for value in self._functions[name](obj):
            self._indexes[name].setdefault(value, {})[key] = obj


async def run_informers(informers: Iterable[Informer]) -> None:
    """Run several informers until cancelled."""
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion", ""))
