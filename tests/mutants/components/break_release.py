"""Mutants of the resource claim controller: consumers, deallocation, deletion."""

from __future__ import annotations

from typing import Any

from clusters.embedded.controllers.resource_claim import controller, references
from clusters.embedded.controllers.resource_claim.claim_sync import ClaimSync
from clusters.embedded.controllers.resource_claim.pod_sync import PodSync
from tests.mutants.registry import component_mutant

WRITE = ClaimSync._write_status
SYNC = ClaimSync.sync


@component_mutant("keeps-finalizers")
def keeps_finalizers() -> None:
    """The finalizer of a claim that nobody uses any more is left."""

    async def keep(self: ClaimSync, claim: Any) -> None:
        return

    ClaimSync._remove_finalizer = keep  # type: ignore[method-assign]


@component_mutant("keeps-allocations")
def keeps_allocations() -> None:
    """The last consumer goes, the allocation stays."""

    async def write(self: ClaimSync, claim: Any, consumers: Any, *, deallocate: bool) -> Any:
        return await WRITE(self, claim, consumers, deallocate=False)

    ClaimSync._write_status = write  # type: ignore[method-assign]


@component_mutant("waits-for-deletion")
def waits_for_deletion() -> None:
    """Pods hold their claims until they are deleted, also when they have completed."""
    references.is_terminal = lambda pod: False


@component_mutant("keeps-claims-of-done-pods")
def keeps_claims_of_done_pods() -> None:
    """Claims made for a Pod are left to garbage collection."""

    async def keep(self: ClaimSync, claim: Any) -> None:
        return

    ClaimSync._delete_unneeded = keep  # type: ignore[method-assign]


@component_mutant("frees-with-the-first")
def frees_with_the_first() -> None:
    """The first Pod that goes takes the allocation of a shared claim with it."""

    async def write(self: ClaimSync, claim: Any, consumers: Any, *, deallocate: bool) -> Any:
        return await WRITE(self, claim, [], deallocate=True)

    ClaimSync._write_status = write  # type: ignore[method-assign]


@component_mutant("reserves-for-nobody")
def reserves_for_nobody() -> None:
    """Pods that have their node from others are not made consumers of their claims."""

    async def nothing(self: PodSync, pod: Any) -> None:
        return

    PodSync._reserve_all = nothing  # type: ignore[method-assign]


@component_mutant("overlooks-deleted-claims")
def overlooks_deleted_claims() -> None:
    """Claims that were deleted before the controller started are not looked at."""
    real = controller._Life._claim_changed

    def changed(self: Any, old: Any, new: Any) -> None:
        if old is not None or new is None or "deletionTimestamp" not in new["metadata"]:
            real(self, old, new)

    controller._Life._claim_changed = changed  # type: ignore[method-assign]


@component_mutant("stops-at-strangers")
def stops_at_strangers() -> None:
    """A consumer that is no Pod ends the clean-up of a claim."""

    async def sync(self: ClaimSync, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        consumers = [] if claim is None else references.reserved_for(claim)
        if all(consumer.get("resource") == "pods" for consumer in consumers):
            await SYNC(self, namespace, name)

    ClaimSync.sync = sync  # type: ignore[method-assign]


@component_mutant("drops-strangers")
def drops_strangers() -> None:
    """Consumers of unknown kinds are removed like Pods that are gone."""
    real = ClaimSync._is_over

    async def is_over(self: ClaimSync, namespace: str, consumer: Any) -> bool:
        return consumer.get("resource") != "pods" or await real(self, namespace, consumer)

    ClaimSync._is_over = is_over  # type: ignore[method-assign]


@component_mutant("frees-deleted-claims")
def frees_deleted_claims() -> None:
    """A claim that is deleted goes at once, whoever uses it."""

    async def sync(self: ClaimSync, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        if claim is not None and "deletionTimestamp" in claim["metadata"]:
            await self._remove_finalizer(claim)
        else:
            await SYNC(self, namespace, name)

    ClaimSync.sync = sync  # type: ignore[method-assign]


@component_mutant("frees-before-unprepare")
def frees_before_unprepare() -> None:
    """A Pod that is being deleted counts as gone."""
    real = references.is_done
    references.is_done = lambda pod: "deletionTimestamp" in pod["metadata"] or real(pod)


@component_mutant("trusts-names")
def trusts_names() -> None:
    """A consumer is there when a Pod of its name is."""

    async def is_over(self: ClaimSync, namespace: str, consumer: Any) -> bool:
        return self._pods.get(namespace, consumer["name"]) is None

    ClaimSync._is_over = is_over  # type: ignore[method-assign]


@component_mutant("deallocates-unreserved")
def deallocates_unreserved() -> None:
    """An allocation without consumers is taken back."""

    async def sync(self: ClaimSync, namespace: str, name: str) -> None:
        claim = self._claims.get(namespace, name)
        if claim is not None and references.is_allocated(claim) and not references.reserved_for(claim):
            await self._remove_finalizer(await WRITE(self, claim, [], deallocate=True))
        else:
            await SYNC(self, namespace, name)

    ClaimSync.sync = sync  # type: ignore[method-assign]
