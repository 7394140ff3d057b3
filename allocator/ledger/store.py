"""The claims in the API, which are right whatever a ledger says, and how writes into them are fenced off.

A scheduler writes an allocation only at a resourceVersion in which the claim has the finalizer for allocated claims,
and which it knew before its last successful `reserve` or `confirm`. A reservation expires in three steps: in the
ledger, from where on `confirm` fails; in the API, where the finalizer of the unallocated claim is taken off, so that no
write at an older version succeeds; and only then its devices are free. A scheduler that was paused for any time before
its write is refused by the API. In the same way a ledger is filled anew from all claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from allocator.state import allocation_of

from .keys import fact_of, key_of, version_of
from .records import ClaimKey, Fact
from .view import Claim


class StoreError(Exception):
    """The API does not answer, or somebody else wrote the claim at the same time; the text says which."""


class ClaimStore(Protocol):
    """Reads see every earlier write. All methods raise StoreError."""

    async def get(self, claim: ClaimKey) -> Claim | None:
        """The claim, None when it is gone."""
        ...

    async def list(self) -> Sequence[Claim]:
        """All claims."""
        ...

    async def fence(self, claim: Claim) -> Claim:
        """Take the finalizer, if any, off this version of an unallocated claim; returns the claim as it is then."""
        ...


async def all_allocations(store: ClaimStore, *, shares: bool) -> list[Fact]:
    """Every allocation that there is, and none can come that was planned before. Raises StoreError."""
    found = [await _fenced(store, claim, shares) for claim in await store.list()]
    return [fact for fact in found if fact is not None and fact.holding is not None]


async def outcome(store: ClaimStore, key: ClaimKey, token: int, *, shares: bool) -> Fact:
    """What has become of a claim; `token` is that of its expired reservation, 0 for none. Raises StoreError."""
    claim = await store.get(key)
    if claim is None:
        return Fact(key, 0, gone=True)
    if allocation_of(claim) is None and token:
        return Fact(key, version_of(await store.fence(claim)), token=token)
    return fact_of(claim, shares=shares)


async def _fenced(store: ClaimStore, claim: Claim, shares: bool) -> Fact | None:
    """What becomes of a claim that nobody can be about to allocate any more; None when it is gone."""
    key = key_of(claim)
    while allocation_of(claim) is None:
        try:
            claim = await store.fence(claim)
            break
        except StoreError:
            found = await store.get(key)
            if found is None:
                return None
            if version_of(found) == version_of(claim):
                raise  # nobody else wrote it
            claim = found
    return fact_of(claim, shares=shares)
