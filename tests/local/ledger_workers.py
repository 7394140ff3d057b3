"""A scheduler as a process of its own, on claims in a file, which may be killed at any moment.

The file stands for the API: it has resourceVersions and preconditions as an API server has them, and tells what has
changed. All else is the real thing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from allocator.ledger import LedgerUnavailableError, RacedError, Session, Wish, holding_of, key_of, version_of
from allocator.ledger.remote import connect
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.scheduler.dynamic_resources.claim_writer import ClaimWriter, WriteError
from clusters.embedded.scheduler.dynamic_resources.reservations import ApiClaims, confirm

UNHEARD = 0.1
POD = {"metadata": {"name": "pod", "namespace": "ns", "uid": "pod"}}
Claim = dict[str, Any]
_SCHEMA = """
CREATE TABLE claims (name TEXT PRIMARY KEY, version INTEGER, state TEXT, text TEXT);
CREATE INDEX versions ON claims (version);
CREATE TABLE holdings (device TEXT, name TEXT);
CREATE TABLE doubled (device TEXT, name TEXT);
"""


class Table:
    """The claims; `state` is pending, held or done. Whether a device has two holders is looked at in each write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._base = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute("PRAGMA synchronous=OFF")

    def make(self, count: int) -> None:
        self._base.executescript(_SCHEMA)
        self._base.execute("BEGIN")
        for number in range(count):
            name = f"claim-{number}"
            metadata = {
                "namespace": "ns",
                "name": name,
                "uid": f"u{number}",
                "resourceVersion": str(number + 1),
            }
            text = json.dumps({"metadata": metadata, "spec": {}, "status": {}})
            self._base.execute("INSERT INTO claims VALUES (?, ?, 'pending', ?)", (name, number + 1, text))
        self._base.execute("COMMIT")

    def get(self, name: str) -> Claim | None:
        row = self._base.execute(
            "SELECT text FROM claims WHERE name = ? AND state != 'done'", (name,)
        ).fetchone()
        return None if row is None else json.loads(row[0])

    def list(self) -> list[Claim]:
        rows = self._base.execute("SELECT text FROM claims WHERE state != 'done'")
        return [json.loads(row[0]) for row in rows]

    def since(self, version: int) -> list[tuple[int, str, Claim]]:
        rows = self._base.execute(
            "SELECT version, state, text FROM claims WHERE version > ? ORDER BY version", (version,)
        )
        return [(found, state, json.loads(text)) for found, state, text in rows]

    def update(self, claim: Claim, subresource: str | None) -> Claim:
        name = claim["metadata"]["name"]
        self._base.execute("BEGIN IMMEDIATE")
        try:
            old = self.get(name)
            if old is None:
                raise ClientError(404, "NotFound", name)
            if old["metadata"]["resourceVersion"] != claim["metadata"]["resourceVersion"]:
                raise ClientError(409, "Conflict", "the object has been modified")
            new = {**(claim if subresource is None else old)}
            new["status"] = old["status"] if subresource is None else claim["status"]
            return self._store(name, new)
        finally:
            self._base.execute("COMMIT")

    def end(self, name: str) -> None:
        """Deallocate and delete, as when its pod has gone."""
        self._base.execute("BEGIN IMMEDIATE")
        claim = self.get(name)
        if claim is not None:
            claim["status"] = {}
            self._store(name, claim, "done")
        self._base.execute("COMMIT")

    def _store(self, name: str, claim: Claim, state: str = "") -> Claim:
        version = self._base.execute("SELECT MAX(version) FROM claims").fetchone()[0] + 1
        stored = {**claim, "metadata": {**claim["metadata"], "resourceVersion": str(version)}}
        device = device_of(stored)
        state = state or ("held" if device else "pending")
        text = json.dumps(stored)
        self._base.execute(
            "UPDATE claims SET version = ?, state = ?, text = ? WHERE name = ?", (version, state, text, name)
        )
        self._base.execute("DELETE FROM holdings WHERE name = ?", (name,))
        if device:
            self._base.execute("INSERT INTO holdings VALUES (?, ?)", (device, name))
            self._base.execute(
                "INSERT INTO doubled SELECT device, name FROM holdings WHERE device = ? AND name != ?",
                (device, name),
            )
        return stored

    def doubled(self) -> list[tuple[str, str]]:
        """Devices that ever had two holders."""
        return list(self._base.execute("SELECT device, name FROM doubled"))

    def progress(self) -> dict[str, int]:
        return dict(self._base.execute("SELECT state, COUNT(*) FROM claims GROUP BY state"))

    def holders(self) -> dict[str, str]:
        """Claim -> device."""
        return {name: device for device, name in self._base.execute("SELECT device, name FROM holdings")}


class Client:
    """An ApiClient on the table, which does not hear of some allocations that were written."""

    def __init__(self, table: Table, chance: random.Random) -> None:
        self._table, self._chance = table, chance

    async def update(self, _: str, resource: str, claim: Claim, subresource: str | None = None) -> Claim:
        await asyncio.sleep(0)
        written = self._table.update(claim, subresource)
        if subresource is not None and self._chance.random() < UNHEARD:
            raise ClientError(504, "Timeout", "the request did not complete within the allotted duration")
        return written

    async def get(self, _: str, resource: str, name: str, namespace: str) -> Claim:
        found = self._table.get(name)
        if found is None:
            raise ClientError(404, "NotFound", name)
        return found

    async def find(self, _: str, resource: str, name: str, namespace: str) -> Claim | None:
        return self._table.get(name)

    async def list(self, _: str, resource: str) -> dict[str, Any]:
        return {"items": self._table.list()}


def device_of(claim: Claim) -> str:
    allocation = claim["status"].get("allocation")
    return str(allocation["devices"]["results"][0]["device"]) if allocation else ""


class Worker:
    """Gives each of its claims a device, and ends the claims that it has had longest."""

    def __init__(self, number: int, processes: int, devices: int, url: str, path: Path, seed: float) -> None:
        self._table = Table(path)
        self._devices = [f"dev-{index}" for index in range(devices)]
        self._most = devices // processes
        count = len(self._table.since(0)) // processes
        self._mine = [f"claim-{index}" for index in range(number * count, (number + 1) * count)]
        self._chance = random.Random(seed)
        client = Client(self._table, self._chance)
        self._ledger = connect(url, "race")
        store = ApiClaims(client)  # type: ignore[arg-type]
        self._session = Session(self._ledger, store, f"worker-{number}", logging.getLogger("worker"))
        self._writer = ClaimWriter(client, Clock(), timestamps=False)  # type: ignore[arg-type]
        self._known: dict[str, Claim] = {}
        self._version = 0

    async def run(self) -> None:
        keeping = asyncio.create_task(self._session.run())
        self._follow()
        for place, name in enumerate(self._mine):
            if place >= self._most:
                self._table.end(self._mine[place - self._most])
                self._follow()
            while (claim := self._known.get(name)) is not None and not device_of(claim):
                await self._allocate(claim)
                self._follow()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await self._ledger.close()

    def _follow(self) -> None:
        """What an informer does."""
        for version, state, claim in self._table.since(self._version):
            self._version = version
            name = claim["metadata"]["name"]
            old = self._known.pop(name, None)
            if state != "done":
                self._known[name] = claim
                self._session.inform(old, claim)
            elif old is not None:
                self._session.inform(old, None)

    async def _allocate(self, claim: Claim) -> None:
        device, seen = self._free(), self._session.seen()
        if self._session.problem or not device:
            await asyncio.sleep(0.02)
            return
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": device}
        allocation = {"devices": {"results": [result]}}
        uid = claim["metadata"]["uid"]
        try:
            grant = await self._session.reserve(
                seen, [Wish(key_of(claim), holding_of(allocation, lambda device: False), version_of(claim))]
            )
        except (RacedError, LedgerUnavailableError):
            await asyncio.sleep(0.005)
            return
        try:
            bound = await self._writer.bind(claim, allocation, POD, partial(confirm, grant, uid))
        except WriteError as problem:
            if not problem.uncertain:
                await grant.release()
            return
        await grant.commit(uid, int(bound["metadata"]["resourceVersion"]))

    def _free(self) -> str:
        used = {device_of(claim) for claim in self._known.values()}
        used |= {device_of(dict(claim)) for claim in self._session.ahead(lambda claim: False)}
        free = [device for device in self._devices if device not in used]
        if not free:
            return ""
        # Most go where all others go, too.
        return free[0] if self._chance.random() < 0.2 else self._chance.choice(free)


def work(number: int, processes: int, devices: int, url: str, path: Path, seed: float) -> None:
    """One life of one of the processes; it ends by itself when all of its claims have had a device."""
    asyncio.run(Worker(number, processes, devices, url, path, seed).run())
