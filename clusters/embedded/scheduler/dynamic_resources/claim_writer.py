"""Writes allocations and reservations into claims, and takes them back (components 2.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from allocator import allocation_of
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.controllers.resource_claim.references import FINALIZER, is_reserved_for
from clusters.embedded.scheduler.framework.events import Object

API: Final = "resource.k8s.io/v1"
RESOURCE: Final = "resourceclaims"
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.01


Confirm = Callable[[], Awaitable[None]]


class WriteError(Exception):
    """A claim could not be written, or is not what it was; the text says why.

    `uncertain`: it may be written all the same, even later.
    """

    def __init__(self, text: str, *, uncertain: bool = False) -> None:
        super().__init__(text)
        self.uncertain = uncertain


class ClaimWriter:
    """The scheduler's writes to claims."""

    def __init__(self, client: ApiClient, clock: Clock, *, timestamps: bool) -> None:
        """`timestamps`: new allocations get their time, as the gates of binding conditions want it."""
        self._client = client
        self._clock = clock
        self._timestamps = timestamps

    async def bind(
        self, claim: Object, allocation: dict[str, Any] | None, pod: Object, confirm: Confirm | None = None
    ) -> Object:
        """Store the allocation, if one is given, and reserve the claim for the pod; returns the claim as written.

        Conflicts are tried again with the current claim. `confirm` is asked before an allocation is written into a
        later version of the claim than the given one; WriteError of it ends the attempt. Raises WriteError.
        """
        current = claim
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    await asyncio.sleep(_PAUSE)
                    current = await self._step(
                        f"get updated claim {_where(claim)} after conflict", self._fetch, claim
                    )
                    if is_reserved_for(pod, current):
                        # Whoever loses a connection before the answer sends a PUT again, which contradicts the first.
                        return current
                if (
                    attempt
                    and confirm is not None
                    and FINALIZER in (current["metadata"].get("finalizers") or ())
                ):
                    await confirm()
                return await self._bind_once(current, allocation, pod, confirm)
            except _ConflictError as conflict:
                last = conflict
            except _NoAnswerError:
                written = await self._outcome(claim)
                if written is None or not is_reserved_for(pod, written):
                    raise
                return written
        raise WriteError(str(last), uncertain=True)

    async def _bind_once(
        self, claim: Object, allocation: dict[str, Any] | None, pod: Object, confirm: Confirm | None
    ) -> Object:
        where = _where(claim)
        if claim["metadata"].get("deletionTimestamp"):
            raise WriteError(f"claim {where} got deleted in the meantime")
        if allocation is not None:
            if allocation_of(claim) is not None:
                text = f"claim {where} got allocated elsewhere in the meantime"
                raise WriteError(text, uncertain=True)
            if FINALIZER not in (claim["metadata"].get("finalizers") or ()):
                changed = _copy(claim)
                changed["metadata"]["finalizers"] = [
                    *(changed["metadata"].get("finalizers") or ()),
                    FINALIZER,
                ]
                claim = await self._step(f"add finalizer to claim {where}", self._put, changed)
                if confirm is not None:
                    await confirm()
        changed = _copy(claim)
        status = changed["status"]
        if allocation is not None:
            status["allocation"] = allocation
        if self._timestamps:
            if status.get("allocation") is None:
                raise WriteError(f"claim {where} got deallocated elsewhere in the meantime")
            # As upstream, also for an allocation that somebody stored without: the server refuses that change.
            now = self._clock.timestamp()
            status["allocation"] = {"allocationTimestamp": now, **status["allocation"]}
        what = "reservation" if allocation is None else "allocation and reservation"
        metadata = pod["metadata"]
        consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        return await self._step(f"add {what} to claim {where}", self._put_status, changed)

    async def unreserve(self, claim: Object, pod: Object) -> Object:
        """Take the pod out of the claim's consumers. Raises ClientError."""
        metadata = claim["metadata"]
        entry = {"$patch": "delete", "uid": pod["metadata"]["uid"]}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"reservedFor": [entry]}}
        return await self._client.patch(
            API, RESOURCE, metadata["name"], patch, metadata["namespace"], "status"
        )

    async def deallocate(self, claim: Object) -> None:
        """Clear allocation, consumers and device status. Raises ClientError."""
        changed = _copy(claim)
        for field in ("reservedFor", "allocation", "devices"):
            changed["status"].pop(field, None)
        await self._put_status(changed)

    async def _step(self, what: str, call: Callable[[Object], Awaitable[Object]], claim: Object) -> Object:
        try:
            return await call(claim)
        except ClientError as problem:
            kind = _ConflictError if problem.reason == "Conflict" else WriteError
            kind = kind if problem.code else _NoAnswerError
            uncertain = problem.code == 0 or problem.code >= 500
            raise kind(f"{what}: {problem.message}", uncertain=uncertain) from None

    async def _outcome(self, claim: Object) -> Object | None:
        """The claim after a write without an answer, or None when it is gone.

        The API server went away in the middle: until it is known what it stored, the devices must not be given to
        anybody else.
        """
        while True:
            try:
                metadata = claim["metadata"]
                found = await self._client.find(API, RESOURCE, metadata["name"], metadata["namespace"])
            except ClientError:
                await asyncio.sleep(_PAUSE)
                continue
            return found if found is not None and found["metadata"]["uid"] == metadata["uid"] else None

    async def _fetch(self, claim: Object) -> Object:
        metadata = claim["metadata"]
        return await self._client.get(API, RESOURCE, metadata["name"], metadata["namespace"])

    async def _put(self, claim: Object) -> Object:
        return await self._client.update(API, RESOURCE, claim)

    async def _put_status(self, claim: Object) -> Object:
        return await self._client.update(API, RESOURCE, claim, "status")


class _NoAnswerError(WriteError):
    """Nobody knows whether it was written."""


class _ConflictError(WriteError):
    """Somebody else wrote the claim at the same time."""


def _copy(claim: Object) -> Object:
    return {**claim, "metadata": dict(claim["metadata"]), "status": dict(claim.get("status") or {})}


def _where(claim: Object) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
