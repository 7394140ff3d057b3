"""Caches of the objects that quotas count; one is filled when a quota asks for it first.

Clusters without quotas need none, and a cache of every resource would cost more than all other controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.discovery import ServedResource
from clusters.embedded.quota.evaluator import Evaluator, GroupResource, Objects

_NAMESPACE: Final = "namespace"
Freed = Callable[[GroupResource, str], None]
"""Told of a resource and a namespace in which something stopped counting."""


class CountedObjects:
    """The caches by resource; see clusters.embedded.quota.evaluator.Stored."""

    def __init__(self, client: ApiClient, group: asyncio.TaskGroup, freed: Freed) -> None:
        """Caches run in `group`; `freed` may be called from then on."""
        self._client = client
        self._group = group
        self._freed = freed
        self._informers: dict[GroupResource, Informer] = {}

    async def fill(self, resource: GroupResource, api_version: str, evaluator: Evaluator | None) -> None:
        """Have a cache of a resource; without an evaluator nothing is told of its changes."""
        informer = self._informers.get(resource)
        if informer is None:
            metadata_only = evaluator is not None and not evaluator.full_objects
            informer = Informer(self._client, api_version, resource.resource, metadata_only=metadata_only)
            informer.index(_NAMESPACE, lambda obj: [obj["metadata"].get("namespace", "")])
            self._informers[resource] = informer
            if evaluator is not None:
                informer.add_handler(self._handler(resource, evaluator))
            self._group.create_task(informer.run())
        await informer.wait_synced()

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object or None."""
        informer = self._informers.get(GroupResource(group, resource))
        return None if informer is None else informer.get(namespace, name)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Objects:
        """All objects, of one namespace if given."""
        informer = self._informers.get(GroupResource(group, resource))
        if informer is None:
            return []
        return informer.items() if namespace is None else informer.by_index(_NAMESPACE, namespace)

    def _handler(self, resource: GroupResource, evaluator: Evaluator) -> Callable[[Any, Any], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            if old is not None and (new is None or evaluator.freed(old, new)):
                self._freed(resource, old["metadata"].get("namespace", ""))

        return changed


def version_of(resource: GroupResource, served: list[ServedResource]) -> str | None:
    """The apiVersion in which a resource is served; None for one that no quota can count."""
    for each in served:
        if (each.group, each.plural) == resource and each.namespaced:
            return each.api_version
    return None
