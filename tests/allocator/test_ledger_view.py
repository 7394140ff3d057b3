"""What a scheduler concludes from the ledger and from an informer that is late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from allocator.ledger import ClaimKey, Delta, Entry, Holding, State, StoreError
from allocator.ledger.store import Claim, all_allocations
from allocator.ledger.view import View
from clusters.embedded.scheduler.dynamic_resources.claim_tracker import ClaimTracker


def results(device: str, share: str = "") -> list[dict[str, Any]]:
    extra = {"shareID": share} if share else {}
    return [{"driver": "d.example.com", "pool": "p", "device": device, **extra}]


def claim(uid: str, device: str = "", share: str = "", version: int = 5) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": "c", "uid": uid, "resourceVersion": str(version)}
    status = {"allocation": {"devices": {"results": results(device, share)}}} if device else {}
    return {"metadata": metadata, "status": status}


def knowing(device: str, share: str = "", state: State = State.RESERVED, version: int = 0) -> View:
    view = View()
    holding = Holding(results=json.dumps(results(device, share)))
    entry = Entry(ClaimKey("ns", "c", "uid"), state, 7, "b#1", version, holding)
    view.apply(Delta(9, (entry,), (), whole=True))
    return view


def ahead(view: View) -> list[str]:
    return [
        found["status"]["allocation"]["devices"]["results"][0]["device"]
        for found in view.ahead(lambda claim: False)
    ]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (claim("uid"), ["new"]),
        (claim("uid", "old"), ["new"]),
        (claim("uid", "new", "an earlier share"), ["new"]),
        (claim("uid", "new", "s"), []),
    ],
)
def test_an_earlier_allocation_of_a_claim_does_not_hide_the_one_that_is_reserved(
    known: dict[str, Any], expected: list[str]
) -> None:
    view = knowing("new", "s")
    view.inform(None, known)
    assert ahead(view) == expected


def test_what_was_written_is_known_from_the_version_on() -> None:
    view = knowing("new", state=State.COMMITTED, version=8)
    view.inform(None, claim("uid", "old", version=7))
    assert ahead(view) == ["new"]
    view.inform(None, claim("uid", version=9))
    assert ahead(view) == []


def test_a_scheduler_counts_the_devices_that_a_claim_has_and_no_earlier_ones() -> None:
    tracker = ClaimTracker(consumable_capacity=True)
    tracker.cache.inform(None, claim("uid", "old"))
    assert [tracker.counts(claim("uid", device)) for device in ("old", "new")] == [True, False]
    tracker.signal(claim("uid", "new"))
    assert not tracker.counts(claim("uid", "new")), "the claim has an allocation"


def test_of_a_claim_in_flight_the_devices_count_that_were_decided() -> None:
    tracker = ClaimTracker(consumable_capacity=True)
    tracker.cache.inform(None, claim("uid"))
    tracker.signal(claim("uid", "mine"))
    assert [tracker.counts(claim("uid", device)) for device in ("mine", "theirs")] == [True, False]


def test_a_claim_that_another_of_the_same_name_has_replaced_is_gone() -> None:
    view = knowing("new", state=State.COMMITTED, version=5)
    view.inform(None, claim("uid", "new"))
    changed = view.inform(claim("uid", "new"), claim("later", version=6))
    facts = [view.fact(uid) for uid in changed]
    assert [fact.claim.uid for fact in facts if fact is not None and fact.gone] == ["uid"]


def test_a_ledger_is_not_filled_by_asking_again_for_what_is_always_refused() -> None:
    known = claim("uid")

    class Refusing:
        asked = 0

        async def get(self, claim: ClaimKey) -> Claim | None:
            return known

        async def list(self) -> Sequence[Claim]:
            return [known]

        async def fence(self, claim: Claim) -> Claim:
            self.asked += 1
            assert self.asked < 3, "it is refused for good"
            raise StoreError("no")

    with pytest.raises(StoreError):
        asyncio.run(all_allocations(Refusing(), shares=True))
