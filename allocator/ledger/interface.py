"""The ledger as its users see it: what every backend answers to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .records import Answer, Conflict, Delta, Entry, Fact, LedgerLostError, Wish

FORGOTTEN_AFTER = 10_000
"""How many removals are remembered for those who have not heard of them."""


class Opened(NamedTuple):
    """A ledger and whether it is filled."""

    id: str
    filled: bool


class Caller(NamedTuple):
    """Who asks: the ledger that is meant, the asking session, and the point until which its changes are known."""

    ledger: str
    session: str
    since: int


class Ledger(ABC):
    """Who has which device, for several schedulers. Each method is one round trip and happens as a whole or not at all.

    All methods raise LedgerUnavailableError. All but `open` and `close` raise LedgerLostError when the ledger that the
    caller means is no more; all but `settle` and `fill` also while it is not filled.
    """

    @abstractmethod
    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Do it. `{"lost": true}` is for a ledger that is another."""

    async def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of connections."""

    async def open(self, proposal: str) -> Opened:
        """The ledger that there is, else a new and empty one with the proposed id."""
        data = await self._call("open", {"id": proposal})
        return Opened(data["id"], bool(data["filled"]))

    async def fill(self, caller: Caller) -> None:
        """Every allocation in the API has been told of, and no earlier one can come: reservations may begin."""
        await self._ask("fill", caller)

    async def reserve(
        self, caller: Caller, seen: int, wishes: Sequence[Wish], facts: Sequence[Fact] = ()
    ) -> Answer:
        """Reserve all allocations or none, after taking note of facts.

        `seen` is the point until which changes were known when the allocations were planned. Refused are names that
        another claim takes, names that others have joined after that point, and claims that have an entry, except for
        the same results by the same session, which has asked twice. Other devices for a claim have to wait until those
        that it may still get are given back, or fenced off.
        """
        arguments = {
            "seen": seen,
            "wishes": [wish.data() for wish in wishes],
            "facts": [fact.data() for fact in facts],
        }
        return await self._ask("reserve", caller, arguments)

    async def confirm(self, caller: Caller, tokens: Mapping[str, int]) -> Answer:
        """Ask whether the reservations (UID -> token) still stand; `unknown` are those that do not.

        Those that do begin to age anew.
        """
        return await self._ask("confirm", caller, {"tokens": dict(tokens)})

    async def commit(self, caller: Caller, written: Mapping[str, tuple[int, int]]) -> Answer:
        """The allocations (UID -> token, resourceVersion) are in the API; `unknown` are those with no such entry."""
        pairs = {uid: {"token": token, "version": version} for uid, (token, version) in written.items()}
        return await self._ask("commit", caller, {"written": pairs})

    async def release(self, caller: Caller, tokens: Mapping[str, int]) -> Answer:
        """Give reservations (UID -> token) back that were not written and never will be."""
        return await self._ask("release", caller, {"tokens": dict(tokens)})

    async def expire(self, caller: Caller, age: float) -> Answer:
        """Let reservations expire that are older than `age` (seconds), and all of earlier sessions of the caller.

        A session's name is what stands before the "#" in it. Devices stay taken until `settle`.
        """
        return await self._ask("expire", caller, {"age": int(age * 1000)})

    async def settle(self, caller: Caller, facts: Sequence[Fact]) -> Answer:
        """Take note of what the API says.

        An allocation is entered unless more is known of the claim, and reservations that take the same expire. Without
        allocation an entry goes when it was committed at an earlier version, when it has been fenced off, or the claim
        is gone.
        """
        return await self._ask("settle", caller, {"facts": [fact.data() for fact in facts]})

    async def read(self, caller: Caller) -> Answer:
        """What has changed."""
        return await self._ask("read", caller)

    async def _ask(
        self, operation: str, caller: Caller, arguments: Mapping[str, Any] | None = None
    ) -> Answer:
        data = await self._call(operation, {**caller._asdict(), **(arguments or {})})
        if data.get("lost"):
            raise LedgerLostError
        return Answer(
            Delta(
                int(data["until"]),
                tuple(map(Entry.of, data["changed"] or ())),
                tuple(data["removed"] or ()),
                bool(data["whole"]),
            ),
            int(data.get("token") or 0),
            tuple(Conflict(entry["name"], entry["holder"]) for entry in data.get("conflicts") or ()),
            tuple(data.get("unknown") or ()),
        )
