"""The moments in which a device could be given away twice, one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ledger_machine import Loop
from ledger_world import Api, Claim, Request, Scheduler, Wire, allocated, entries, held, overbooked

from allocator.ledger import Caller, ClaimKey, Holding, MemoryLedger, State, Wish
from clusters.client import ClientError


class Race:
    """Two schedulers, `a` and `b`, and claims that all want the same; `a` acts first."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.api, self.wire = Api(), Wire()
        self.ledger = MemoryLedger(self.loop.time)
        self.schedulers: dict[str, Scheduler] = {}

    def __enter__(self) -> Race:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.schedulers):
            self.kill(name)
        self.loop.close()

    def do(self, work: Awaitable[Any]) -> Any:
        async def play() -> Any:
            result = await work
            for _ in range(25):
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(play())

    def start(self, name: str) -> None:
        """`a` has the first claim, and `b` the others."""

        async def begin() -> Scheduler:
            def mine(claim: str) -> bool:
                return (claim == "claim-0") == (name == "a")

            return Scheduler(name, self.api, self.wire, self.ledger, self.loop.time, mine)

        self.schedulers[name] = self.do(begin())

    def kill(self, name: str) -> None:
        self.do(asyncio.gather(*self.schedulers.pop(name).kill(), return_exceptions=True))

    def flow(
        self, *names: str, until: Callable[[Request], bool] = lambda request: False, deaf: str = ""
    ) -> Request | None:
        """Let these schedulers go on for some time, or until one sends a request that is then left on the wire.

        Whoever is deaf gets no news from the API.
        """
        for _ in range(60):
            for name in names:
                scheduler = self.schedulers.get(name)
                if scheduler is not None:
                    while scheduler.news and name not in deaf:
                        scheduler.hear()
                    scheduler.wake()
            self.do(asyncio.sleep(0))
            sent = [request for request in self.wire.waiting if request.sender in names]
            for request in [request for request in sent if not request.answer.done()]:
                if until(request):
                    return request
                if request in self.wire.waiting:
                    self.do(self.wire.answer(request))
            self.loop.moment += 0.3
        return None

    def expire(self) -> None:
        async def now() -> None:
            opened = await self.ledger.open("expirer's")
            await self.ledger.expire(Caller(opened.id, "expirer#1", 0), 0)

        self.do(now())

    def allocated(self) -> int:
        return sum(map(allocated, self.api.claims.values()))


def writes(request: Request) -> bool:
    return request.what == "update status"


def protects(request: Request) -> bool:
    return request.what == "update None"


def reserves(request: Request) -> bool:
    return request.what == "reserve"


@contextmanager
def race_for_whole(*names: str) -> Iterator[Race]:
    """These schedulers, which have done nothing yet, and four claims for the three whole devices."""
    with Race() as race:
        for number in range(4):
            race.api.create(f"claim-{number}", "whole")
        for name in names:
            race.start(name)
        yield race


@contextmanager
def write_on_the_wire(*names: str) -> Iterator[tuple[Race, Request]]:
    """`a` has sent its allocation, which is still under way; the others have done nothing."""
    with race_for_whole("a", *names) as race:
        yield race, sent_by_a(race, writes)


def sent_by_a(race: Race, until: Callable[[Request], bool]) -> Request:
    request = race.flow("a", until=until)
    assert request is not None
    return request


def plan_at_once(race: Race) -> None:
    """Both plan before one of them has reserved anything; `b` is the first to reserve."""
    race.flow("a", until=reserves)
    race.flow("b", until=reserves)
    race.flow("b")
    race.flow("a", "b")


def test_a_write_that_comes_after_the_reservation_expired_is_refused() -> None:
    with write_on_the_wire() as (race, write):
        race.kill("a")
        race.expire()
        race.start("b")
        race.flow("b")
        assert race.allocated() == 3, "the devices of the dead are free again"
        race.do(race.wire.answer(write))
        assert race.allocated() == 3
        assert overbooked(race.api) == []


def test_whoever_protects_a_claim_too_late_does_not_write_it() -> None:
    with race_for_whole("a") as race:
        sent_by_a(race, protects)
        race.expire()
        race.start("b")
        race.flow("b")
        race.flow("a")
        assert race.allocated() == 3
        assert overbooked(race.api) == []


def test_a_write_that_was_carried_out_counts_though_nobody_told_of_it() -> None:
    with Race() as race:
        race.api.create("claim-0", "whole")
        race.start("a")
        write = sent_by_a(race, writes)
        race.do(race.wire.carry_out(write))
        race.kill("a")
        race.expire()
        for number in range(1, 4):
            race.api.create(f"claim-{number}", "whole")
        race.start("b")
        race.flow("b")
        assert race.allocated() == 3
        assert overbooked(race.api) == []


def test_a_reservation_is_not_given_back_while_its_write_may_come() -> None:
    with write_on_the_wire("b") as (race, write):
        # The connection breaks; what was sent is still on its way. That the claim is not written, `a` sees itself.
        race.wire.fail(write)
        race.flow("a", "b")
        race.do(race.wire.answer(write))
        race.flow("a", "b")
        assert overbooked(race.api) == []
        assert race.allocated() == 3


def test_a_write_from_before_the_loss_of_the_ledger_is_refused() -> None:
    with write_on_the_wire() as (race, write):
        race.ledger.lose()
        race.start("b")
        race.flow("b")
        assert race.allocated() == 3
        race.do(race.wire.answer(write))
        race.flow("a")
        assert overbooked(race.api) == []


def test_shares_of_a_device_are_planned_with_all_others_in_view() -> None:
    with Race() as race:
        race.start("a")
        race.start("b")
        race.flow("a", "b")
        for number in range(3):
            race.api.create(f"claim-{number}", "share")
        plan_at_once(race)
        assert (race.allocated(), overbooked(race.api)) == (2, [])


def test_counters_of_a_pool_are_planned_with_all_others_in_view() -> None:
    with Race() as race:
        for number in range(4):
            race.api.create(f"claim-{number}", "part")
        race.start("a")
        race.start("b")
        plan_at_once(race)
        devices = [held(claim) for claim in race.api.claims.values() if allocated(claim)]
        assert (len(devices), overbooked(race.api)) == (2, [])


def test_what_the_ledger_alone_tells_counts_for_plans() -> None:
    with Race() as race:
        race.start("a")
        race.start("b")
        race.api.create("claim-0", "share")
        race.flow("a", "b", until=reserves)
        for number in range(1, 3):
            race.api.create(f"claim-{number}", "share")
        race.flow("b")
        race.flow("a", deaf="a")
        assert (race.allocated(), overbooked(race.api)) == (2, [])


def test_what_was_deallocated_is_free_again() -> None:
    with Race() as race:
        for number in range(1, 5):
            race.api.create(f"claim-{number}", "whole")
        race.start("b")
        race.flow("b")
        waiting = [name for name, claim in race.api.claims.items() if not allocated(claim)]
        race.api.create("claim-0", "whole")
        race.start("a")
        first = next(name for name, claim in race.api.claims.items() if allocated(claim))
        race.api.deallocate(first)
        race.flow("a", "b")
        assert race.allocated() == 3
        race.api.delete(next(name for name, claim in race.api.claims.items() if allocated(claim)))
        race.flow("a", "b")
        assert race.allocated() == 3
        assert (len(waiting), overbooked(race.api)) == (1, [])


def test_a_write_that_was_sent_twice_is_known_as_ones_own() -> None:
    with write_on_the_wire() as (race, write):
        # The answer is lost with its connection; the HTTP client sends it again, and hears that the claim has changed.
        race.do(race.wire.carry_out(write))
        write.outcome = (None, ClientError(409, "Conflict", "the object has been modified"))
        race.do(race.wire.answer(write))
        race.flow("a", deaf="a", until=lambda request: request.what == "release")
        (entry,) = race.do(entries(race.ledger)).values()
        assert entry.state is State.COMMITTED


def test_a_claim_that_cannot_be_fenced_off_keeps_nobody_else_waiting() -> None:
    with write_on_the_wire() as (race, _):
        race.kill("a")
        race.expire()
        update = race.api.update

        def refuse(claim: Claim, subresource: str | None = None) -> Claim:
            if claim["metadata"]["name"] == "claim-0":
                raise ClientError(403, "Forbidden", "no")
            return update(claim, subresource)

        race.api.update = refuse  # type: ignore[method-assign]
        race.start("b")
        race.flow("b")
        assert race.schedulers["b"].session.problem == ""
        assert race.allocated() == 2, "the third device stays taken"


def test_a_token_of_a_lost_ledger_is_none_of_the_next() -> None:
    with Race() as race:
        race.api.create("claim-0", "whole")
        race.start("a")
        protection = sent_by_a(race, protects)
        (before,) = race.do(entries(race.ledger)).values()
        race.ledger.lose()
        for _ in range(20):
            race.loop.moment += 0.3
            for request in [request for request in race.wire.waiting if request is not protection]:
                race.do(race.wire.answer(request))
            race.do(asyncio.sleep(0))
        # The claim is for another now, and its reservation happens to have the same number.
        ledger = race.do(race.ledger.open("M")).id
        other = Wish(ClaimKey("ns", "claim-0", before.claim.uid), Holding(("another device",)))
        granted = race.do(race.ledger.reserve(Caller(ledger, "x#1", 0), 0, [other]))
        assert granted.token == before.token
        assert race.flow("a", until=writes) is None


def test_a_claim_whose_write_may_come_gets_no_other_devices_before_it_is_fenced_off() -> None:
    with write_on_the_wire("b") as (race, write):
        race.wire.fail(write)
        race.flow("a", until=lambda request: writes(request) and request is not write)
        race.flow("b")
        race.do(race.wire.answer(write))
        assert overbooked(race.api) == []
        race.flow("a", "b")
        assert (race.allocated(), overbooked(race.api)) == (3, [])
