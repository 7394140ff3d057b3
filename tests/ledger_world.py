"""Schedulers, an API and a ledger in one loop, where a test decides what happens when.

Every request goes onto a wire and waits there. It is carried out, and answered, or fails, when the test says so; it may
be carried out long after its sender was told that it failed, or was killed. What schedulers do is the real thing:
Session, ClaimWriter and ApiClaims; only what they plan is simple.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from allocator.ledger import (
    Caller,
    Grant,
    Ledger,
    LedgerUnavailableError,
    RacedError,
    Session,
    Wish,
    holding_of,
    key_of,
    same_devices,
    version_of,
)
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.controllers.resource_claim.references import FINALIZER
from clusters.embedded.scheduler.dynamic_resources.claim_writer import ClaimWriter, WriteError
from clusters.embedded.scheduler.dynamic_resources.reservations import ApiClaims, confirm

DRIVER, POOL = "d.example.com", "pool"
WHOLE = ("whole-0", "whole-1", "whole-2")
SHARED, SHARES = "shared", 2
PARTS, COUNTER = ("part-0", "part-1", "part-2"), 2
"""Each part consumes one of the counters of the pool, of which there are fewer than parts."""
KINDS = ("whole", "share", "part")
POD = {"metadata": {"name": "pod", "namespace": "ns", "uid": "pod"}}
Claim = dict[str, Any]


class Api:
    """The claims, with resourceVersions and preconditions as an API server has them."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.listeners: list[Callable[[Claim | None, Claim | None], None]] = []
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    def create(self, name: str, kind: str) -> None:
        if name not in self.claims:
            metadata = {"namespace": "ns", "name": name, "uid": f"uid-{next(self._uids)}"}
            self._store({"metadata": metadata, "spec": {"kind": kind}, "status": {}})

    def update(self, claim: Claim, subresource: str | None = None) -> Claim:
        old = self.get(claim["metadata"]["name"])
        for part in ("uid", "resourceVersion"):
            if old["metadata"][part] != claim["metadata"][part]:
                raise ClientError(409, "Conflict", f"{part} has changed")
        changed = copy.deepcopy(claim if subresource is None else old)
        changed["status"] = copy.deepcopy(old["status"] if subresource is None else claim["status"])
        return self._store(changed)

    def get(self, name: str) -> Claim:
        if name not in self.claims:
            raise ClientError(404, "NotFound", name)
        return self.claims[name]

    def deallocate(self, name: str) -> None:
        """As the claim controller does: first the status, then the finalizer."""
        claim = copy.deepcopy(self.claims[name])
        if claim["status"].get("allocation"):
            claim["status"] = {}
            claim = copy.deepcopy(self._store(claim))
            claim["metadata"]["finalizers"] = []
            self._store(claim)

    def delete(self, name: str) -> None:
        self._tell(self.claims.pop(name), None)

    def _store(self, claim: Claim) -> Claim:
        claim["metadata"]["resourceVersion"] = str(next(self._versions))
        old = self.claims.get(claim["metadata"]["name"])
        self.claims[claim["metadata"]["name"]] = claim
        self._tell(old, claim)
        return claim

    def _tell(self, old: Claim | None, new: Claim | None) -> None:
        for listener in self.listeners:
            listener(old, new)


@dataclass(eq=False)
class Request:
    sender: str
    what: str
    effect: Callable[[], Awaitable[Any]]
    answer: asyncio.Future[Any]
    failure: Callable[[], Exception]
    outcome: tuple[Any, Exception | None] | None = None


class Wire:
    """Where requests wait."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self.open = False

    async def send(
        self, sender: str, what: str, effect: Callable[[], Awaitable[Any]], failure: Callable[[], Exception]
    ) -> Any:
        if self.open:
            return await effect()
        request = Request(sender, what, effect, asyncio.get_running_loop().create_future(), failure)
        self.waiting.append(request)
        return await request.answer

    async def carry_out(self, request: Request) -> None:
        if request.outcome is None:
            try:
                request.outcome = (await request.effect(), None)
            except Exception as problem:  # noqa: BLE001 - whatever it is, the sender gets it
                request.outcome = (None, problem)

    async def answer(self, request: Request) -> None:
        await self.carry_out(request)
        self.waiting.remove(request)
        assert request.outcome is not None
        value, problem = request.outcome
        if not request.answer.done():
            if problem is not None:
                request.answer.set_exception(problem)
            else:
                request.answer.set_result(value)

    def fail(self, request: Request) -> None:
        """Its sender is told that it failed; it may be carried out all the same."""
        if not request.answer.done():
            request.answer.set_exception(request.failure())
        if request.outcome is not None:
            self.waiting.remove(request)


class Client:
    """An ApiClient of one scheduler, as far as it is used."""

    def __init__(self, api: Api, wire: Wire, sender: str) -> None:
        self._api, self._wire, self._sender = api, wire, sender

    async def update(self, _: str, resource: str, claim: Claim, subresource: str | None = None) -> Claim:
        sent = copy.deepcopy(claim)
        return await self._send(f"update {subresource}", lambda: self._api.update(sent, subresource))

    async def get(self, _: str, resource: str, name: str, namespace: str) -> Claim:
        return await self._send("get", lambda: self._api.get(name))

    async def find(self, _: str, resource: str, name: str, namespace: str) -> Claim | None:
        return await self._send("find", lambda: self._api.claims.get(name))

    async def list(self, _: str, resource: str) -> dict[str, Any]:
        return await self._send("list", lambda: {"items": list(self._api.claims.values())})

    async def _send(self, what: str, effect: Callable[[], Any]) -> Any:
        async def carry_out() -> Any:
            return copy.deepcopy(effect())

        gone = partial(ClientError, 0, "Unreachable", "cut")
        return await self._wire.send(self._sender, what, carry_out, gone)


class WiredLedger(Ledger):
    """The ledger as one scheduler reaches it."""

    def __init__(self, ledger: Ledger, wire: Wire, sender: str) -> None:
        self._ledger, self._wire, self._sender = ledger, wire, sender

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        gone = partial(LedgerUnavailableError, "cut")
        sent = copy.deepcopy(dict(arguments))
        answer: dict[str, Any] = await self._wire.send(
            self._sender, operation, lambda: self._ledger._call(operation, sent), gone
        )
        return answer


@dataclass(eq=False)
class Scheduler:
    """One life of a scheduler that allocates whatever claim has no allocation."""

    name: str
    api: Api
    wire: Wire
    ledger: Ledger
    clock: Callable[[], float]
    mine: Callable[[str], bool] = lambda name: True
    """Which claims are for this one."""
    known: dict[str, Claim] = field(default_factory=dict)
    """By UID, as the informer and own writes have shown."""
    news: list[tuple[Claim | None, Claim | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.client = Client(self.api, self.wire, self.name)
        wired = WiredLedger(self.ledger, self.wire, self.name)
        log = logging.getLogger("ledger-world")
        store = ApiClaims(self.client)  # type: ignore[arg-type]
        self.session = Session(wired, store, self.name, log, clock=self.clock, age=1000.0)
        self.writer = ClaimWriter(self.client, Clock(), timestamps=False)  # type: ignore[arg-type]
        self._flying: dict[str, Claim] = {}
        self._shares = itertools.count()
        for claim in copy.deepcopy(list(self.api.claims.values())):
            self._inform(None, claim)
        self._listener = lambda old, new: self.news.append(copy.deepcopy((old, new)))
        self.api.listeners.append(self._listener)
        self._wake = asyncio.Event()
        self._tasks = [asyncio.ensure_future(self.session.run()), asyncio.ensure_future(self._cycle())]

    def kill(self) -> list[asyncio.Task[Any]]:
        self.api.listeners.remove(self._listener)
        for task in self._tasks:
            task.cancel()
        return self._tasks

    def hear(self) -> None:
        """The informer gets its next event."""
        if self.news:
            self._inform(*self.news.pop(0))

    def wake(self) -> None:
        """Time to try again."""
        self._wake.set()

    def _inform(self, old: Claim | None, new: Claim | None) -> None:
        self.session.inform(old, new)
        if new is None:
            assert old is not None
            self.known.pop(old["metadata"]["uid"], None)
        else:
            self._assume(new)

    def _assume(self, claim: Claim) -> None:
        before = self.known.get(claim["metadata"]["uid"])
        version = int(claim["metadata"]["resourceVersion"])
        if before is None or version > int(before["metadata"]["resourceVersion"]):
            self.known[claim["metadata"]["uid"]] = claim

    async def _cycle(self) -> None:
        while True:
            for uid in list(self.known):
                claim = self.known.get(uid)
                free = claim is not None and not allocated(claim) and uid not in self._flying
                if claim is not None and free and self.mine(claim["metadata"]["name"]):
                    await self._schedule(claim)
            await self._wake.wait()
            self._wake.clear()

    async def _schedule(self, claim: Claim) -> None:
        if self.session.problem or self.session.is_reserved(claim["metadata"]["uid"]):
            return
        uid, seen = claim["metadata"]["uid"], self.session.seen()
        allocation = plan(claim, self._taken(), f"{self.session.session}-{next(self._shares)}")
        if allocation is None:
            return
        self._flying[uid] = {**claim, "status": {"allocation": allocation}}
        holding = holding_of(allocation, lambda device: device.device in PARTS)
        wish = Wish(key_of(claim), holding, version_of(claim))
        try:
            grant = await self.session.reserve(seen, [wish])
        except (RacedError, LedgerUnavailableError):
            del self._flying[uid]
            return
        self._tasks.append(asyncio.ensure_future(self._bind(claim, allocation, grant)))

    async def _bind(self, claim: Claim, allocation: dict[str, Any], grant: Grant) -> None:
        uid = claim["metadata"]["uid"]
        try:
            bound = await self.writer.bind(claim, allocation, POD, partial(confirm, grant, uid))
        except WriteError as problem:
            if not problem.uncertain:
                await grant.release()
        else:
            self._assume(bound)
            await grant.commit(uid, int(bound["metadata"]["resourceVersion"]))
        finally:
            self._flying.pop(uid, None)

    def _taken(self) -> list[Claim]:
        own = {uid: claim for uid, claim in self.known.items() if allocated(claim)} | self._flying

        def counted(claim: Mapping[str, Any]) -> bool:
            known = own.get(claim["metadata"]["uid"])
            return known is not None and same_devices(known, claim)

        ahead = self.session.ahead(counted)
        return [*own.values(), *map(dict, ahead)]


def allocated(claim: Mapping[str, Any]) -> bool:
    return bool(claim["status"].get("allocation"))


def results(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        (claim["status"].get("allocation") or {}).get("devices", {}).get("results", [])
    )
    return found


def plan(claim: Claim, taken: list[Claim], share: str) -> dict[str, Any] | None:
    """A device for the claim, if there is one beside what is taken."""
    used = Counter(result["device"] for other in taken for result in results(other))
    kind = claim["spec"]["kind"]
    names = {"whole": WHOLE, "share": (SHARED,), "part": PARTS}[kind]
    if kind == "part" and sum(used[name] for name in PARTS) >= COUNTER:
        return None
    for name in names:
        if used[name] < (SHARES if kind == "share" else 1):
            result = {"request": "r", "driver": DRIVER, "pool": POOL, "device": name}
            if kind == "share":
                result |= {"shareID": share, "consumedCapacity": {"units": "1"}}  # type: ignore[dict-item]
            return {"devices": {"results": [result]}}
    return None


def overbooked(api: Api) -> list[str]:
    """What has been given away too often, by what the API says."""
    used = Counter(result["device"] for claim in api.claims.values() for result in results(claim))
    found = [name for name in (*WHOLE, *PARTS) if used[name] > 1]
    if used[SHARED] > SHARES:
        found.append(SHARED)
    if sum(used[name] for name in PARTS) > COUNTER:
        found.append("counters")
    return found


async def entries(ledger: Ledger) -> dict[str, Any]:
    """What a ledger has: UID -> entry."""
    opened = await ledger.open("nobody's")
    answer = await ledger.read(Caller(opened.id, "reader#1", 0))
    return {entry.claim.uid: entry for entry in answer.delta.changed}


def held(claim: Claim) -> set[str]:
    """The devices of a claim."""
    return {result["device"] for result in results(claim)}


def held_by(entry: Any) -> set[str]:
    """The devices of an entry."""
    return {result["device"] for result in json.loads(entry.holding.results)}


__all__ = ["FINALIZER", "KINDS", "Api", "Scheduler", "Wire", "entries", "held", "held_by", "overbooked"]
