"""What is done to one object: it is deleted, freed of owners that are gone, or of a finalizer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import MERGE_PATCH, ApiClient, Object
from clusters.embedded.components.workqueue import SyncError
from clusters.embedded.controllers.discovery import Discovery, ServedResource
from clusters.embedded.controllers.garbage_collector.graph import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Node,
    OwnerReference,
    Reference,
    owner_identity,
)

_CONFLICT_ATTEMPTS: Final = 4
_CONFLICT_PAUSE: Final = 0.01


class _GoneError(Exception):
    """The server has no such object."""


class _NeverError(Exception):
    """An object without a namespace names an owner that has one: no retry will help."""


@dataclass(frozen=True)
class _Owners:
    """The owner references of an object: to what is there, to what is not, to what waits for its dependents."""

    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]


class Deletion:
    """Requests to the server on behalf of nodes of the graph."""

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        graph: Graph,
        enqueue: Callable[[Node], None],
        log: logging.Logger,
    ) -> None:
        """`enqueue` has a node looked at again."""
        self._client, self._discovery, self._graph = client, discovery, graph
        self._enqueue = enqueue
        self._log = log

    async def sync(self, node: Node) -> None:
        """Delete an object that nobody owns any more. Raises SyncError or ClientError when it has to be tried again."""
        if not node.observed:
            current = self._graph.get(node.identity.uid)
            if current is None or current.observed:
                return
        try:
            await self._attempt(node)
        except _GoneError:
            self._graph.drop_virtual(node.identity)
            return
        except _NeverError:
            return
        if not node.observed:
            # An object that came and went while a watch was broken would stay in the graph for ever.
            raise SyncError(f"{node} was not seen in a watch yet")

    async def orphan(self, node: Node) -> None:
        """Take an object out of the owners of its dependents, then remove its finalizer."""
        owner = node.identity.uid
        results = await asyncio.gather(
            *(self._remove_owners(one, [owner]) for one in list(node.dependents)), return_exceptions=True
        )
        for result in results:
            if isinstance(result, ClientError) and result.code == 404:
                continue
            if isinstance(result, BaseException):
                raise result
        await self._remove_finalizer(node.identity, ORPHAN)

    async def _attempt(self, node: Node) -> None:
        if node.being_deleted and not node.deleting_dependents:
            return
        latest = await self._live(node.identity)
        if node.deleting_dependents:
            await self._finish_foreground(node)
            return
        owners = latest["metadata"].get("ownerReferences") or []
        if not owners:
            return
        found = await self._classify(node.identity, owners)
        if found.solid:
            lost = [owner["uid"] for owner in (*found.dangling, *found.waiting)]
            if lost:
                await self._remove_owners(node, lost)
        elif found.waiting and node.dependents:
            if any(dependent.deleting_dependents for dependent in node.dependents):
                # Owners in a circle would wait for each other.
                await self._unblock_owners(node)
            await self._delete(node.identity, latest, "Foreground")
        else:
            finalizers = latest["metadata"].get("finalizers") or []
            policy = (
                "Orphan"
                if ORPHAN in finalizers
                else "Foreground"
                if FOREGROUND in finalizers
                else "Background"
            )
            await self._delete(node.identity, latest, policy)

    async def _finish_foreground(self, node: Node) -> None:
        blocking = node.blocking_dependents()
        if not blocking:
            await self._remove_finalizer(node.identity, FOREGROUND)
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self._enqueue(dependent)

    def _resource(self, reference: Reference) -> ServedResource:
        served = self._discovery.find_kind(reference.api_version, reference.kind)
        if served is None:
            raise SyncError(f'no resource for kind "{reference.kind}" in version "{reference.api_version}"')
        return served

    def _place(self, reference: Reference) -> tuple[str, str, str, str | None]:
        """API version, resource, name and namespace for requests."""
        served = self._resource(reference)
        if served.namespaced and not reference.namespace:
            raise _NeverError
        namespace = reference.namespace if served.namespaced else None
        return served.api_version, served.plural, reference.name, namespace

    async def _live(self, reference: Reference) -> Object:
        obj = await self._client.find(*self._place(reference))
        if obj is None or obj["metadata"]["uid"] != reference.uid:
            raise _GoneError
        return obj

    async def _classify(self, item: Reference, owners: Sequence[OwnerReference]) -> _Owners:
        found = _Owners([], [], [])
        for owner in owners:
            obj = await self._owner(owner, item.namespace)
            if obj is None:
                found.dangling.append(owner)
            elif "deletionTimestamp" in obj["metadata"] and FOREGROUND in (
                obj["metadata"].get("finalizers") or []
            ):
                found.waiting.append(owner)
            else:
                found.solid.append(owner)
        return found

    async def _owner(self, owner: OwnerReference, namespace: str) -> Object | None:
        """An owner's object, or None when it does not exist; those of another namespace do not."""
        reference = owner_identity(owner, namespace)
        absent = self._graph.absent
        if owner_identity(owner, "") in absent or reference in absent:
            return None
        if not self._resource(reference).namespaced:
            reference = owner_identity(owner, "")
        try:
            return await self._live(reference)
        except _GoneError:
            absent.add(reference)
            return None

    async def _remove_owners(self, node: Node, uids: Sequence[str]) -> None:
        references = [{"$patch": "delete", "uid": uid} for uid in uids]
        await self._patch_owners(node, references)

    async def _unblock_owners(self, node: Node) -> None:
        blocking = [
            {**owner, "blockOwnerDeletion": False} for owner in node.owners if owner.get("blockOwnerDeletion")
        ]
        await self._patch_owners(node, blocking)

    async def _patch_owners(self, node: Node, references: list[Any]) -> None:
        # The UID is a precondition.
        body = {"metadata": {"uid": node.identity.uid, "ownerReferences": references}}
        await self._client.patch(*_patch_place(self._place(node.identity), body))

    async def _delete(self, item: Reference, latest: Object, policy: str) -> None:
        preconditions = {"uid": item.uid, "resourceVersion": latest["metadata"]["resourceVersion"]}
        try:
            await self._request_deletion(item, preconditions, policy)
        except ClientError as error:
            if error.code != 409:
                raise
            live = await self._live(item)
            same_owners = live["metadata"].get("ownerReferences") == latest["metadata"].get("ownerReferences")
            if not same_owners or live["metadata"]["resourceVersion"] == preconditions["resourceVersion"]:
                raise
            # Writes that do not concern the owners must not keep the object alive.
            await self._request_deletion(item, {"uid": item.uid}, policy)

    async def _request_deletion(self, item: Reference, preconditions: dict[str, str], policy: str) -> None:
        body = {"preconditions": preconditions, "propagationPolicy": policy}
        try:
            await self._client.delete(*self._place(item), body)
        except ClientError as error:
            if error.code == 404:
                raise _GoneError from None
            raise
        self._log.info("deleted %s (%s)", item, policy)

    async def _remove_finalizer(self, owner: Reference, finalizer: str) -> None:
        for attempt in range(_CONFLICT_ATTEMPTS):
            obj = await self._client.find(*self._place(owner))
            finalizers = (obj["metadata"].get("finalizers") or []) if obj is not None else []
            if obj is None or finalizer not in finalizers:
                return
            metadata = {
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "finalizers": [name for name in finalizers if name != finalizer],
            }
            place = self._place(owner)
            try:
                await self._client.patch(
                    *_patch_place(place, {"metadata": metadata}), content_type=MERGE_PATCH
                )
                return
            except ClientError as error:
                if error.code == 404:
                    return
                if error.code != 409:
                    raise
            await asyncio.sleep(_CONFLICT_PAUSE * 5**attempt)
        raise SyncError(f"{owner} changes too often: the finalizer {finalizer} stays for now")


def _patch_place(place: tuple[str, str, str, str | None], body: Any) -> tuple[str, str, str, Any, str | None]:
    api_version, resource, name, namespace = place
    return api_version, resource, name, body, namespace
