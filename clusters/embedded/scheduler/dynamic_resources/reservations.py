"""The part of a ledger in scheduling: several schedulers allocate devices without giving one away twice.

A scheduler that is alone has none, and does without all of this.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from allocator.ledger import (
    ClaimKey,
    Grant,
    Ledger,
    LedgerUnavailableError,
    RacedError,
    Seen,
    Session,
    StoreError,
    Wish,
    holding_of,
    key_of,
    version_of,
)
from allocator.model import DeviceID
from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient
from clusters.embedded.controllers.resource_claim.references import FINALIZER
from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Resource
from clusters.embedded.scheduler.framework.plugin import OutdatedPlanError

from .claim_tracker import ClaimTracker, results_of
from .claim_writer import API, RESOURCE, WriteError
from .slice_tracker import SliceTracker

DEVICES_FREED: Final = ClusterEvent(Resource.CLAIM, Action.DELETE, "LedgerChanged")
FREED_CLAIM: Final[Object] = {"metadata": {}, "status": {"allocation": {}}}
"""Stands for whatever has had the devices."""


class ApiClaims:
    """The claims in the API server; a `ClaimStore`."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, claim: ClaimKey) -> Object | None:
        """The claim, None when it is gone. Raises StoreError."""
        found = await _stored(self._client.find(API, RESOURCE, claim.name, claim.namespace))
        return found if found is not None and found["metadata"]["uid"] == claim.uid else None

    async def list(self) -> Sequence[Object]:
        """All claims as they are now. Raises StoreError."""
        answer: Object = await _stored(self._client.list(API, RESOURCE))
        return list(answer["items"])

    async def fence(self, claim: Mapping[str, Any]) -> Object:
        """Take the finalizer, if any, off this version of an unallocated claim. Raises StoreError."""
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return dict(claim)
        rest = [name for name in finalizers if name != FINALIZER]
        changed = {**claim, "metadata": {**metadata, "finalizers": rest}}
        found: Object = await _stored(self._client.update(API, RESOURCE, changed))
        return found


async def _stored(request: Awaitable[Any]) -> Any:
    try:
        return await request
    except ClientError as problem:
        raise StoreError(str(problem)) from None


class Reservations:
    """What the plugin DynamicResources asks of the ledger."""

    def __init__(
        self,
        ledger: Ledger,
        client: ApiClient,
        name: str,
        claims: ClaimTracker,
        slices: SliceTracker,
        log: logging.Logger,
        *,
        shares: bool,
        freed: Callable[[], None],
    ) -> None:
        """`shares` is the gate DRAConsumableCapacity; `freed` is called when others have given devices back."""
        self.session = Session(ledger, ApiClaims(client), name, log, shares=shares, freed=freed)
        self._claims, self._slices, self._shares = claims, slices, shares

    @property
    def problem(self) -> str:
        """Why nothing can be reserved now; empty when it can."""
        return self.session.problem

    def plan(self) -> tuple[Seen, list[Object]]:
        """On what a plan rests that is made now: the point in time, and allocations that only the ledger knows."""
        return self.session.seen(), [dict(claim) for claim in self.session.ahead(self._claims.counts)]

    async def reserve(self, seen: Seen, decided: Iterable[tuple[Object, dict[str, Any]]]) -> Grant:
        """Reserve the allocations of claims. Raises OutdatedPlanError and LedgerUnavailableError."""
        wishes = [
            Wish(
                key_of(claim),
                holding_of(allocation, self._consuming(allocation).__contains__, shares=self._shares),
                version_of(claim),
            )
            for claim, allocation in decided
        ]
        try:
            return await self.session.reserve(seen, wishes)
        except RacedError as problem:
            raise OutdatedPlanError(str(problem)) from None

    def _consuming(self, allocation: dict[str, Any]) -> set[DeviceID]:
        """The devices of an allocation that consume counters."""
        wanted = {
            DeviceID(result["driver"], result["pool"], result["device"]) for result in results_of(allocation)
        }
        pools = {(device.driver, device.pool) for device in wanted}
        return {
            DeviceID(spec["driver"], spec["pool"]["name"], device["name"])
            for spec in (entry["spec"] for entry in self._slices.slices())
            if (spec["driver"], spec["pool"]["name"]) in pools
            for device in spec.get("devices") or ()
            if device.get("consumesCounters")
        } & wanted


async def confirm(grant: Grant | None, uid: str) -> None:
    """Raise WriteError unless the reservation of a claim stands."""
    try:
        if grant is not None and await grant.confirm(uid):
            return
    except LedgerUnavailableError as problem:
        raise WriteError(str(problem)) from None
    raise WriteError("the reservation of its devices has expired in the meantime")
