"""The component: watches of all kinds, the graph, and the two queues."""

from __future__ import annotations

import asyncio
import functools
from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers
from clusters.embedded.controllers.discovery import ServedResource, discover
from clusters.embedded.controllers.garbage_collector.deletion import Deletion
from clusters.embedded.controllers.garbage_collector.graph import (
    Graph,
    Node,
    OwnerReference,
    Reference,
    owner_identity,
)

_WORKERS: Final = 20
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class GarbageCollector:
    """Deletes objects whose owners are gone, and carries out foreground deletion and orphaning.

    What the server serves is asked once in a life.
    """

    name = "garbage-collector-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        life = _Life(context)
        await life.run()


class _Life:
    """One life; it is the graph's Work."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._to_delete: WorkQueue[Node] = WorkQueue(context.clock)
        self._to_orphan: WorkQueue[Node] = WorkQueue(context.clock)
        self._events = EventRecorder(context.client, "garbage-collector-controller", context.clock)
        self._graph = Graph(self)

    async def run(self) -> None:
        client, log = self._context.client, self._context.log
        discovery = await discover(client)
        deletion = Deletion(client, discovery, self._graph, self.delete, log)
        informers = []
        for resource in discovery.preferred("delete", "list", "watch"):
            if (resource.group, resource.plural) in _IGNORED:
                continue
            informer = Informer(client, resource.api_version, resource.plural, metadata_only=True)
            informer.add_handler(functools.partial(self._changed, resource))
            informers.append(informer)
        async with asyncio.TaskGroup() as group:
            for informer in informers:
                group.create_task(informer.run())
            group.create_task(self._events.run())
            for informer in informers:
                await informer.wait_synced()
            log.info("the graph of %d resources is filled", len(informers))
            group.create_task(run_workers(self._to_delete, deletion.sync, _WORKERS, log=log))
            group.create_task(run_workers(self._to_orphan, deletion.orphan, _WORKERS, log=log))

    def _changed(self, resource: ServedResource, old: Object | None, new: Object | None) -> None:
        obj = new if new is not None else old
        if obj is None:
            return
        metadata = obj["metadata"]
        identity = Reference(
            resource.kind,
            resource.api_version,
            metadata.get("namespace", ""),
            metadata["name"],
            metadata["uid"],
        )
        if new is None:
            self._graph.drop(identity)
        else:
            self._graph.put(identity, old, new)

    def delete(self, node: Node) -> None:
        """As Work."""
        self._to_delete.add(node)

    def delete_later(self, node: Node) -> None:
        """As Work."""
        self._to_delete.add_rate_limited(node)

    def orphan(self, node: Node) -> None:
        """As Work."""
        self._to_orphan.add(node)

    def invalid_namespace(self, dependent: Node, owner: OwnerReference) -> None:
        """As Work."""
        identity = dependent.identity
        metadata = {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid}
        obj = {"apiVersion": identity.api_version, "kind": identity.kind, "metadata": metadata}
        named = owner_identity(owner, identity.namespace)
        text = f'ownerRef {named} does not exist in namespace "{identity.namespace}"'
        self._events.event(obj, "Warning", "OwnerRefInvalidNamespace", text)
