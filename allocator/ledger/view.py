"""What one scheduler knows of the ledger, and how that fits with what it knows of the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from allocator.state import allocation_of

from .keys import key_of, same_devices, version_of
from .records import ClaimKey, Delta, Entry, Fact, State

Claim = Mapping[str, Any]


class View:
    """The entries up to a point in time, beside the claims that the informer has shown."""

    def __init__(self) -> None:
        self.until = 0
        self.entries: dict[str, Entry] = {}
        self._claims: dict[str, Claim] = {}
        self._deleted: dict[str, ClaimKey] = {}
        # Entries that the informer has not caught up with.
        self._ahead: dict[str, Claim] = {}

    def forget(self) -> None:
        """There is another ledger now, of which nothing is known."""
        self.until = 0
        self.entries.clear()
        self._ahead.clear()

    def apply(self, delta: Delta) -> tuple[set[str], bool]:
        """Take changes in; returns the UIDs that they concern, and whether anything became free."""
        if delta.until <= self.until:
            return set(), False
        self.until = delta.until
        gone = set(delta.removed) & self.entries.keys()
        if delta.whole:
            gone |= self.entries.keys() - {entry.claim.uid for entry in delta.changed}
        for uid in gone:
            del self.entries[uid]
            self._ahead.pop(uid, None)
        for entry in delta.changed:
            uid = entry.claim.uid
            self.entries[uid] = entry
            results = json.loads(entry.holding.results)
            self._ahead[uid] = {
                "metadata": {"namespace": entry.claim.namespace, "name": entry.claim.name, "uid": uid},
                "status": {"allocation": {"devices": {"results": results}}},
            }
        return gone | {entry.claim.uid for entry in delta.changed}, bool(gone)

    def inform(self, old: Claim | None, new: Claim | None) -> list[str]:
        """Take a change of a claim in; returns its UID, and that of the one of the same name that it replaces."""
        changed = []
        if old is not None and (new is None or old["metadata"]["uid"] != new["metadata"]["uid"]):
            changed.append(self._delete(old))
        if new is not None:
            uid = str(new["metadata"]["uid"])
            self._claims[uid] = new
            changed.append(uid)
        return changed

    def _delete(self, claim: Claim) -> str:
        key = key_of(claim)
        self._claims.pop(key.uid, None)
        if key.uid in self.entries:
            self._deleted[key.uid] = key
        return key.uid

    def ahead(self, counted: Callable[[Claim], bool]) -> Iterator[Claim]:
        """Allocations of which the ledger alone knows, as claims; without those for which `counted` is true.

        What an informer that is late shows as allocated may be what the claim had before.
        """
        for uid in list(self._ahead):
            entry, claim, planned = self.entries[uid], self._claims.get(uid), self._ahead[uid]
            written = entry.state is State.COMMITTED
            if uid in self._deleted or (written and claim is not None and version_of(claim) >= entry.version):
                del self._ahead[uid]
            elif not (claim is not None and same_devices(claim, planned)) and not counted(planned):
                yield planned

    def fact(self, uid: str) -> Fact | None:
        """What the API says about the claim against its entry, as far as an informer, which comes late, can tell."""
        entry, claim = self.entries.get(uid), self._claims.get(uid)
        if entry is None:
            self._deleted.pop(uid, None)
            return None
        if uid in self._deleted:
            return Fact(entry.claim, entry.version, gone=True)
        if claim is None or entry.state is not State.COMMITTED or allocation_of(claim) is not None:
            return None
        version = version_of(claim)
        return Fact(entry.claim, version) if version > entry.version else None

    def doubtful(self, uid: str) -> ClaimKey | None:
        """The claim, when only the API itself can tell what is to become of its entry."""
        entry, claim = self.entries.get(uid), self._claims.get(uid)
        if entry is None:
            return key_of(claim) if claim is not None and allocation_of(claim) is not None else None
        expired = entry.state is State.EXPIRING
        unseen = entry.state is State.COMMITTED and claim is None
        return entry.claim if expired or unseen else None

    def claims(self) -> set[str]:
        """The UIDs of all claims that are known."""
        return self._claims.keys() | self.entries.keys()
