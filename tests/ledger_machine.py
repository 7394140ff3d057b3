"""Hypothesis plays schedulers against each other through any ledger, and looks for what is given away twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from hypothesis import settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from ledger_world import KINDS, Api, Scheduler, Wire, allocated, entries, held, held_by, overbooked, plan

from allocator.ledger import Caller, Ledger, State

CLAIMS = [f"claim-{number}" for number in range(7)]
NAMES = ["a", "b", "c"]
HELD_BACK = ["update status", "update None", "commit", "reserve", "confirm"]


class Backend(NamedTuple):
    ledger: Ledger
    lose: Callable[[], Awaitable[None]]
    """What happens when the server dies without having stored anything."""


class Loop(asyncio.SelectorEventLoop):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 1000.0

    def time(self) -> float:
        return self.moment


class LedgerMachine(RuleBasedStateMachine):
    """`make` is called in the loop, with a function that tells the time."""

    make: Callable[[Callable[[], float]], Awaitable[Backend]]

    @initialize()
    def begin(self) -> None:
        self.loop = Loop()
        self.wire, self.api = Wire(), Api()
        self.backend = self.do(type(self).make(self.loop.time))
        self.schedulers: dict[str, Scheduler] = {}
        for number, name in enumerate(CLAIMS):
            self.api.create(name, KINDS[number % len(KINDS)])
        for name in NAMES[:2]:
            self.start(name)

    def do(self, work: Awaitable[Any], spins: int = 25) -> Any:
        async def play() -> Any:
            result = await work
            for _ in range(spins):
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(play())

    def rest(self) -> None:
        self.do(asyncio.sleep(0))

    # The user, and the claim controller.

    @rule(name=strategies.sampled_from(CLAIMS), kind=strategies.sampled_from(KINDS))
    def create(self, name: str, kind: str) -> None:
        self.api.create(name, kind)

    @precondition(lambda self: any(map(allocated, self.api.claims.values())))
    @rule(data=strategies.data())
    def deallocate(self, data: strategies.DataObject) -> None:
        names = [name for name, claim in self.api.claims.items() if allocated(claim)]
        self.api.deallocate(data.draw(strategies.sampled_from(names)))

    @precondition(lambda self: self.api.claims)
    @rule(data=strategies.data())
    def delete(self, data: strategies.DataObject) -> None:
        self.api.delete(data.draw(strategies.sampled_from(sorted(self.api.claims))))

    # Schedulers.

    @precondition(lambda self: len(self.schedulers) < len(NAMES))
    @rule(data=strategies.data())
    def start_one(self, data: strategies.DataObject) -> None:
        self.start(data.draw(strategies.sampled_from(sorted(set(NAMES) - self.schedulers.keys()))))

    def start(self, name: str) -> None:
        async def begin() -> Scheduler:
            return Scheduler(name, self.api, self.wire, self.backend.ledger, self.loop.time)

        self.schedulers[name] = self.do(begin())

    @precondition(lambda self: self.schedulers)
    @rule(data=strategies.data())
    def kill(self, data: strategies.DataObject) -> None:
        self.end(data.draw(strategies.sampled_from(sorted(self.schedulers))))

    def end(self, name: str) -> None:
        self.do(asyncio.gather(*self.schedulers.pop(name).kill(), return_exceptions=True))

    @precondition(lambda self: self.schedulers)
    @rule(data=strategies.data(), news=strategies.integers(0, 5))
    def go_on(self, data: strategies.DataObject, news: int) -> None:
        scheduler = self.schedulers[data.draw(strategies.sampled_from(sorted(self.schedulers)))]
        for _ in range(news):
            scheduler.hear()
        scheduler.wake()
        self.rest()

    # What is on the way.

    @precondition(lambda self: self.wire.waiting)
    @rule(
        data=strategies.data(),
        how=strategies.sampled_from(["answer", "answer", "answer", "carry out", "fail", "drop"]),
    )
    def go_through(self, data: strategies.DataObject, how: str) -> None:
        index = data.draw(strategies.integers(0, len(self.wire.waiting) - 1))
        request = self.wire.waiting[index]
        if how == "answer":
            self.do(self.wire.answer(request))
        elif how == "carry out":
            self.do(self.wire.carry_out(request))
        else:
            self.wire.fail(request)
            if how == "drop" and request in self.wire.waiting:
                self.wire.waiting.remove(request)
        self.rest()

    @rule(times=strategies.integers(4, 30), held_back=strategies.sampled_from(["", "", *HELD_BACK]))
    def let_flow(self, times: int, held_back: str) -> None:
        """Everybody goes on; requests of one kind stay on the wire."""
        for scheduler in self.schedulers.values():
            while scheduler.news:
                scheduler.hear()
            scheduler.wake()
        self.rest()
        for _ in range(times):
            flowing = [request for request in self.wire.waiting if not held_back or request.what != held_back]
            if not flowing:
                self.loop.moment += 0.3
                self.rest()
                continue
            self.do(self.wire.answer(flowing[0]))
            self.nothing_is_given_away_twice()

    @rule(seconds=strategies.sampled_from([0.02, 1.1, 3.0]))
    def wait(self, seconds: float) -> None:
        self.loop.moment += seconds
        self.rest()

    # The ledger.

    @rule()
    def expire(self) -> None:
        async def now() -> None:
            ledger = self.backend.ledger
            opened = await ledger.open("expirer's")
            if opened.filled:
                await ledger.expire(Caller(opened.id, "expirer#1", 0), 0)

        self.do(now())

    @rule()
    def lose(self) -> None:
        self.do(self.backend.lose())

    # What must hold.

    @invariant()
    def nothing_is_given_away_twice(self) -> None:
        if hasattr(self, "api"):
            assert not overbooked(self.api)

    def teardown(self) -> None:
        if not hasattr(self, "api"):
            return
        try:
            self._settle_down()
            self._check_settled()
        finally:
            for name in list(self.schedulers):
                self.end(name)
            self.do(self.backend.ledger.close())
            self.loop.close()

    def _settle_down(self) -> None:
        """Nothing goes wrong from now on."""
        for name in NAMES:
            if name not in self.schedulers:
                self.start(name)
        self.wire.open = True
        while self.wire.waiting:
            self.do(self.wire.answer(self.wire.waiting[0]))
            self.nothing_is_given_away_twice()
        for turn in range(14):
            self.loop.moment += 1.1
            if turn < 4:
                # Time enough passes for what nobody knows the outcome of.
                self.expire()
            for scheduler in self.schedulers.values():
                while scheduler.news:
                    scheduler.hear()
                scheduler.wake()
            for _ in range(12):
                self.rest()
                time.sleep(self.patience)
            self.nothing_is_given_away_twice()

    patience = 0.0

    def _check_settled(self) -> None:
        assert {scheduler.session.problem for scheduler in self.schedulers.values()} == {""}
        taken = [claim for claim in self.api.claims.values() if allocated(claim)]
        for claim in self.api.claims.values():
            assert allocated(claim) or plan(claim, taken, "share") is None, "there is room for the claim"
        found = self.do(entries(self.backend.ledger))
        assert {uid: held_by(entry) for uid, entry in found.items()} == {
            claim["metadata"]["uid"]: held(claim) for claim in taken
        }
        assert all(entry.state is State.COMMITTED for entry in found.values())


def play(
    make: Callable[[Callable[[], float]], Awaitable[Backend]],
    examples: int,
    steps: int,
    patience: float = 0.0,
) -> None:
    """Run the machine on a backend."""
    machine = type("Machine", (LedgerMachine,), {"make": staticmethod(make), "patience": patience})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=False, database=None
        ),
    )
