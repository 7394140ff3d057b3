"""One scheduler's part in a ledger: what it plans on, its reservations, and keeping the ledger true to the API."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from .interface import Caller, Ledger
from .records import (
    Answer,
    ClaimKey,
    Conflict,
    Fact,
    LedgerLostError,
    LedgerUnavailableError,
    State,
    Wish,
)
from .store import ClaimStore, StoreError, all_allocations, outcome
from .view import Claim, View

RESERVATION_SECONDS: Final = 10.0
"""How long a reservation stands that is not written: writing takes far less."""
_TURN_SECONDS: Final = 1.0
_DOUBT_SECONDS: Final = 2.0
_AT_ONCE: Final = 200
_LOST: Final = "the ledger was lost meanwhile"


class RacedError(Exception):
    """Another scheduler was first; what it took is known now."""

    def __init__(self, conflicts: Iterable[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        names = ", ".join(dict.fromkeys(conflict.name or "the claim itself" for conflict in self.conflicts))
        super().__init__(
            f"reserved by another scheduler in the meantime: {names}" if names else "planned too early"
        )


class Seen(NamedTuple):
    """On what a plan rests."""

    ledger: str
    until: int


class Session:
    """From one start of a scheduler to its end."""

    def __init__(
        self,
        ledger: Ledger,
        store: ClaimStore,
        name: str,
        log: logging.Logger,
        *,
        shares: bool = True,
        freed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        age: float = RESERVATION_SECONDS,
    ) -> None:
        """`name` is the scheduler's, without "#"; what an earlier session of this name has reserved expires at once.

        `shares` is the gate DRAConsumableCapacity. `freed` is called when others have given something back. `age` is
        how long reservations stand, in seconds.
        """
        self.session = f"{name}#{secrets.token_hex(8)}"
        self._ledger, self._store, self._log = ledger, store, log
        self._shares, self._freed, self._clock, self._age = shares, freed, clock, age
        self._view = View()
        self._id = ""
        self._problem = "the ledger has not answered yet"
        self._said = ""
        self._wake = asyncio.Event()
        self.tried = asyncio.Event()
        """Set when the ledger has answered, or has failed to."""
        self._facts: dict[str, Fact] = {}
        self._doubts: dict[str, float] = {}

    # What plans rest on.

    @property
    def problem(self) -> str:
        """Why nothing can be reserved now; empty when it can."""
        return self._problem

    def seen(self) -> Seen:
        """On what a plan rests that is made now, with `ahead`."""
        return Seen(self._id, self._view.until)

    def ahead(self, counted: Callable[[Claim], bool]) -> Iterator[Claim]:
        """Allocations that count and are not in the API as far as it is known, as claims.

        `counted` tells whether the scheduler has counted the devices of such a claim, by what it knows of it.
        """
        return self._view.ahead(counted)

    def is_reserved(self, uid: str) -> bool:
        """Whether a claim may be about to get an allocation, this scheduler's own included: it cannot be planned."""
        entry = self._view.entries.get(uid)
        return entry is not None and entry.state is not State.COMMITTED

    def inform(self, old: Claim | None, new: Claim | None) -> None:
        """The handler for the informer of claims."""
        for uid in self._view.inform(old, new):
            self._look(uid)

    # Reservations.

    async def reserve(self, seen: Seen, wishes: Sequence[Wish]) -> Grant:
        """Reserve the allocations of one pod, all or none. Raises RacedError and LedgerUnavailableError."""
        facts = list(self._facts.values())[:_AT_ONCE]

        if seen.ledger != self._id and not self._problem:
            raise RacedError(())
        answer = await self._ask(
            seen.ledger, lambda caller: self._ledger.reserve(caller, seen.until, wishes, facts)
        )
        self._told(facts)
        if not answer.token:
            raise RacedError(answer.conflicts)
        return Grant(self, seen.ledger, {wish.claim.uid: answer.token for wish in wishes})

    # A later ledger counts its tokens from the beginning, so that they could be mistaken for those of an earlier one.

    async def confirm(self, ledger: str, tokens: Mapping[str, int]) -> bool:
        """Whether all these reservations in a ledger stand. Raises LedgerUnavailableError."""
        return not (await self._ask(ledger, lambda caller: self._ledger.confirm(caller, tokens))).unknown

    async def commit(self, ledger: str, written: Mapping[str, tuple[int, int]]) -> None:
        """Tell of what was written. When that fails, it is found out later."""
        with contextlib.suppress(LedgerUnavailableError):
            answer = await self._ask(ledger, lambda caller: self._ledger.commit(caller, written))
            for uid in answer.unknown:
                self._look(uid)

    async def release(self, ledger: str, tokens: Mapping[str, int]) -> None:
        """Give back what was not written. When that fails, it expires."""
        with contextlib.suppress(LedgerUnavailableError):
            await self._ask(ledger, lambda caller: self._ledger.release(caller, tokens))

    async def _ask(self, asked: str, question: Callable[[Caller], Awaitable[Answer]]) -> Answer:
        if self._problem:
            raise LedgerUnavailableError(self._problem)
        if self._id != asked:
            raise LedgerUnavailableError(_LOST)
        try:
            answer = await question(self._caller())
        except LedgerLostError:
            if self._id == asked:
                self._lost()
            raise LedgerUnavailableError(self._problem or _LOST) from None
        except LedgerUnavailableError as error:
            self._fails(str(error))
            raise
        if self._id != asked:
            raise LedgerUnavailableError(_LOST)
        return self._take(answer)

    # Keeping it true.

    async def run(self) -> None:
        """Keep up with the ledger, and the ledger with the API, until cancelled."""
        while True:
            try:
                await self._turn()
                self._well()
            except LedgerLostError:
                self._lost()
            except LedgerUnavailableError as error:
                self._fails(str(error))
            except StoreError as error:
                self._log.info("ledger: %s", error)
            self.tried.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TURN_SECONDS):
                    await self._wake.wait()

    async def _turn(self) -> None:
        self._wake.clear()
        if not self._id:
            await self._join()
        self._take(await self._ledger.expire(self._caller(), self._age))
        if facts := list(self._facts.values())[:_AT_ONCE]:
            self._take(await self._ledger.settle(self._caller(), facts))
            self._told(facts)
        for uid, since in list(self._doubts.items()):
            claim = self._view.doubtful(uid)
            if claim is None:
                self._doubts.pop(uid, None)
                continue
            entry = self._view.entries.get(uid)
            expired = entry is not None and entry.state is State.EXPIRING
            if expired or self._clock() - since >= _DOUBT_SECONDS:
                try:
                    await self._resolve(claim, entry.token if entry is not None and expired else 0)
                except StoreError as error:
                    # That is no reason to leave the others, or to allocate nothing.
                    self._log.info("ledger: claim %s/%s: %s", claim.namespace, claim.name, error)

    async def _join(self) -> None:
        opened = await self._ledger.open(secrets.token_hex(16))
        caller = Caller(opened.id, self.session, 0)
        if not opened.filled:
            self._log.info("ledger: filling it from the claims in the API")
            facts = await all_allocations(self._store, shares=self._shares)
            for start in range(0, len(facts), _AT_ONCE):
                await self._ledger.settle(caller, facts[start : start + _AT_ONCE])
            await self._ledger.fill(caller)
            self._log.info("ledger: filled with %d allocated claims", len(facts))
        answer = await self._ledger.read(caller)
        self._view.forget()
        self._id = opened.id
        self._take(answer)
        for uid in self._view.claims():
            self._look(uid)

    async def _resolve(self, key: ClaimKey, token: int) -> None:
        """Find out what the API says, and tell the ledger; `token` is that of an expired reservation."""
        fact = await outcome(self._store, key, token, shares=self._shares)
        self._take(await self._ledger.settle(self._caller(), [fact]))
        self._doubts.pop(key.uid, None)

    def _take(self, answer: Answer) -> Answer:
        changed, freed = self._view.apply(answer.delta)
        for uid in changed:
            self._look(uid)
        if freed:
            self._freed()
        return answer

    def _look(self, uid: str) -> None:
        """Compare what ledger and API say about a claim."""
        fact = self._view.fact(uid)
        if fact is not None:
            self._facts[uid] = fact
            self._wake.set()
        else:
            self._facts.pop(uid, None)
        if self._view.doubtful(uid) is not None:
            self._doubts.setdefault(uid, self._clock())

    def _told(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if self._facts.get(fact.claim.uid) is fact:
                del self._facts[fact.claim.uid]

    def _caller(self) -> Caller:
        return Caller(self._id, self.session, self._view.until)

    def _lost(self) -> None:
        self._id = ""
        self._fails("the ledger was lost and is being filled from the API")
        self._wake.set()

    def _fails(self, problem: str) -> None:
        self._problem = problem
        if problem != self._said:
            self._said = problem
            self._log.warning("%s; no device is allocated meanwhile", problem)

    def _well(self) -> None:
        if not self._id:
            return  # it was lost while the last answer was on its way
        if self._problem:
            self._log.info("ledger: connected")
            self._freed()
        self._problem = self._said = ""


class Grant:
    """The reservations for one pod."""

    def __init__(self, session: Session, ledger: str, tokens: Mapping[str, int]) -> None:
        self._session = session
        self._ledger = ledger
        self._open: dict[str, int] = dict(tokens)

    async def confirm(self, uid: str) -> bool:
        """Whether the reservation of a claim still stands. Raises LedgerUnavailableError."""
        return uid in self._open and await self._session.confirm(self._ledger, {uid: self._open[uid]})

    async def commit(self, uid: str, version: int) -> None:
        """The allocation of a claim is in the API since a resourceVersion."""
        if uid in self._open:
            await self._session.commit(self._ledger, {uid: (self._open.pop(uid), version)})

    async def release(self) -> None:
        """Give back what was neither committed nor will be written."""
        tokens, self._open = self._open, {}
        if tokens:
            await self._session.release(self._ledger, tokens)
