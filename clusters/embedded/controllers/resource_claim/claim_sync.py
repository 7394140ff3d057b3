"""What a claim needs: consumers that are gone taken out, then allocation and finalizer (components section 3.3)."""

from __future__ import annotations

from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.controllers.resource_claim.created import SeenDeleted

_RESOURCE: Final = ("resource.k8s.io/v1", "resourceclaims")


class ClaimSync:
    """Takes away from one claim what no consumer needs any more."""

    def __init__(self, context: Context, pods: Informer, claims: Informer, deleted: SeenDeleted) -> None:
        self._client, self._log = context.client, context.log
        self._pods, self._claims = pods, claims
        self._deleted = deleted

    async def sync(self, namespace: str, name: str) -> None:
        """Handle a claim. Raises ClientError when it has to be tried again."""
        claim = self._claims.get(namespace, name)
        if claim is None:
            return
        consumers = references.reserved_for(claim)
        remaining = [consumer for consumer in consumers if not await self._is_over(namespace, consumer)]
        has_finalizer = references.FINALIZER in (claim["metadata"].get("finalizers") or [])
        if len(remaining) < len(consumers):
            # The allocation goes with the last consumer. One that never had a consumer stays: drivers need not set
            # both at once.
            deallocate = not remaining and has_finalizer
            updated = await self._write_status(claim, remaining, deallocate=deallocate)
            self._log.info("claim %s/%s: %d consumers left", namespace, name, len(remaining))
            if not references.is_allocated(updated):
                await self._remove_finalizer(updated)
        elif has_finalizer and "deletionTimestamp" in claim["metadata"] and not remaining:
            updated = claim
            if references.is_allocated(claim):
                updated = await self._write_status(claim, remaining, deallocate=True)
            await self._remove_finalizer(updated)
        if not remaining:
            await self._delete_unneeded(claim)

    async def _is_over(self, namespace: str, consumer: Object) -> bool:
        """Whether a consumer is certainly gone or done; what kind is unknown stays."""
        if consumer.get("apiGroup", "") != "" or consumer.get("resource") != "pods":
            return False
        if consumer["uid"] in self._deleted:
            return True
        pod = self._pods.get(namespace, consumer["name"])
        if pod is not None:
            return bool(pod["metadata"]["uid"] != consumer["uid"] or references.is_done(pod))
        # The cache may be behind a scheduler that works for a new pod: only the server knows.
        live = await self._client.find("v1", "pods", consumer["name"], namespace)
        return live is None or live["metadata"]["uid"] != consumer["uid"]

    async def _write_status(self, claim: Object, consumers: list[Object], *, deallocate: bool) -> Object:
        # An update, not a patch: whatever changed in the meantime has to be looked at first.
        status = {**claim.get("status", {}), "reservedFor": consumers}
        if not consumers:
            del status["reservedFor"]
        if deallocate:
            status.pop("allocation", None)
        return await self._client.update(*_RESOURCE, {**claim, "status": status}, "status")

    async def _remove_finalizer(self, claim: Object) -> None:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if references.FINALIZER not in finalizers:
            return
        rest = [name for name in finalizers if name != references.FINALIZER]
        await self._client.update(*_RESOURCE, {**claim, "metadata": {**metadata, "finalizers": rest}})

    async def _delete_unneeded(self, claim: Object) -> None:
        """Delete the claim of a pod that will not run; that of a pod which is gone is garbage collection's."""
        metadata = claim["metadata"]
        namespace = metadata["namespace"]
        name, uid = references.owning_pod(claim)
        pod = self._pods.get(namespace, name) if name else None
        if pod is None:
            return
        if pod["metadata"]["uid"] != uid or references.is_done(pod):
            await self._client.delete(*_RESOURCE, metadata["name"], namespace)
            self._log.info("deleted claim %s/%s, which its pod no longer needs", namespace, metadata["name"])
