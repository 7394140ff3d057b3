"""What a ledger keeps about claims, what schedulers ask of it and what they tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple


class State(StrEnum):
    """How far the allocation of a claim is."""

    RESERVED = "reserved"
    """A scheduler is about to write it to the API."""
    EXPIRING = "expiring"
    """Nobody may write it any more; whether it has been written is being found out. Its devices stay taken."""
    COMMITTED = "committed"
    """It is in the API."""


class ClaimKey(NamedTuple):
    """One claim, and no later one of the same name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Holding:
    """What an allocation takes: names that exclude each other, the meaning of which `keys` knows.

    A name in `takes` has no other holder. A name in `joins` may have several, none of which takes it; whoever joins
    must know all of them.
    """

    takes: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    results: str = "[]"
    """The device results of the allocation as JSON, as far as they count for the allocated state."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A claim in the ledger."""

    claim: ClaimKey
    state: State
    token: int
    """Grows with every reservation: the later one of two reservations of a claim has the higher token."""
    session: str
    """Whose reservation it is, or was."""
    version: int
    """The resourceVersion of the claim when it was written; before that, one at which it had no allocation."""
    holding: Holding

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Entry:
        """Read what `MemoryLedger` and the script in Redis write."""
        return cls(
            ClaimKey(data["namespace"], data["name"], data["uid"]),
            State(data["state"]),
            int(data["token"]),
            data["session"],
            int(data["version"]),
            # An empty list of Lua is an empty object.
            Holding(tuple(data["takes"] or ()), tuple(data["joins"] or ()), data["results"]),
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """An allocation to reserve."""

    claim: ClaimKey
    holding: Holding
    version: int = 0
    """The resourceVersion of the claim, without allocation, on which the plan rests."""

    def data(self) -> dict[str, Any]:
        """For a backend."""
        return {**self.claim._asdict(), **holding_data(self.holding), "version": self.version}


@dataclass(frozen=True, slots=True)
class Fact:
    """What the API says about a claim, which is always right."""

    claim: ClaimKey
    version: int
    """The resourceVersion of the claim at which this holds."""
    holding: Holding | None = None
    """None: it has no allocation."""
    gone: bool = False
    """The claim does not exist any more."""
    token: int = 0
    """No reservation of this token, or of an earlier one, can reach the API any more: it has been fenced off."""

    def data(self) -> dict[str, Any]:
        """For a backend."""
        held = {} if self.holding is None else holding_data(self.holding)
        rest = {"version": self.version, "gone": self.gone, "token": self.token}
        return {**self.claim._asdict(), **held, **rest, "allocated": self.holding is not None}


class Conflict(NamedTuple):
    """Why a reservation was refused: who stands in the way of a name, or has joined it unknown to the planner."""

    name: str
    holder: str
    """The UID of a claim."""


@dataclass(frozen=True, slots=True)
class Delta:
    """What has changed since a point in time; points are numbers that grow with every change."""

    until: int
    changed: tuple[Entry, ...]
    removed: tuple[str, ...]
    """UIDs."""
    whole: bool
    """`changed` is all there is: the changes are not remembered that far back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a ledger says to a request, with everything that has changed since the last one."""

    delta: Delta
    token: int = 0
    """Of the reservations that were granted; 0 when they were not."""
    conflicts: tuple[Conflict, ...] = ()
    unknown: tuple[str, ...] = ()
    """UIDs for which what was asked for is not so."""


class LedgerUnavailableError(Exception):
    """The ledger does not answer; the text says which and why."""


class LedgerLostError(Exception):
    """The ledger is empty, or another than before: it has to be filled from the API."""


def holding_data(holding: Holding) -> dict[str, Any]:
    """For a backend."""
    return {"takes": list(holding.takes), "joins": list(holding.joins), "results": holding.results}


def uids(wishes: Iterable[Wish]) -> list[str]:
    """The UIDs of the claims."""
    return [wish.claim.uid for wish in wishes]
