"""What a scheduler keeps reserved in its ledger when it does not hear what has become of a write."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

from scheduler_harness import CLAIMS, Bench, bench

from allocator.ledger import Caller, ClaimKey, Holding, Ledger, MemoryLedger, Wish
from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient

THE_DEVICE = Wish(ClaimKey("default", "other", "other"), Holding(("device gpu.example.com n1 gpu-0",)))


class Watched(Ledger):
    """Notes what, from the first reservation on, let another scheduler have the device. Nothing expires by time."""

    def __init__(self) -> None:
        self._ledger = MemoryLedger(clock=lambda: 0.0)
        self.asked: list[str] = []
        self.freed_by: list[str] = []

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._ledger._call(operation, arguments)
        if operation == "reserve" or self.asked:
            self.asked.append(operation)
            trial, other = copy.deepcopy(self._ledger), Caller(arguments["ledger"], "other#1", 0)
            if (await trial.reserve(other, 0, [THE_DEVICE])).token:
                self.freed_by.append(operation)
        return answer


class Contested(Ledger):
    """Others are always faster, and have given the device back by the time of the next plan."""

    def __init__(self) -> None:
        self._ledger = MemoryLedger()
        self.plans = 0

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if operation != "reserve":
            return await self._ledger._call(operation, arguments)
        self.plans += 1
        answer = await self._ledger._call("read", arguments)
        return {**answer, "conflicts": [{"name": THE_DEVICE.holding.takes[0], "holder": "other"}]}


class Wire:
    """What becomes of the first allocation that is written: it is `applied`, or still under way."""

    def __init__(self, problem: ClientError, *, applied: bool) -> None:
        self.problem, self.applied = problem, applied
        self.sent: dict[str, Any] = {}


class Client(ApiClient):
    """Hears of that write only that something went wrong."""

    def __init__(self, wire: Wire, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._wire = wire

    async def update(
        self, api_version: str, resource: str, body: Mapping[str, Any], subresource: str | None = None
    ) -> dict[str, Any]:
        if self._wire.sent or "allocation" not in (body.get("status") or {}):
            return await super().update(api_version, resource, body, subresource)
        self._wire.sent = copy.deepcopy(dict(body))
        if self._wire.applied:
            await super().update(api_version, resource, body, subresource)
        raise self._wire.problem


def begin(b: Bench, wire: Wire, ledger: Ledger) -> None:
    """One device, and a pod that is to have it."""
    b.node("n1")
    b.device_class()
    b.slice("n1", "gpu-0")
    b.claim("first")
    b.pod("first", "first")
    b.add_scheduler(client=partial(Client, wire), ledger=ledger)
    b.until(lambda: wire.sent, lambda: "\n".join(b.host.logs("scheduler")))


def holders(b: Bench) -> list[str]:
    """The claims that have the device."""
    claims = b.get(CLAIMS)["items"]
    return [claim["metadata"]["name"] for claim in claims if (claim.get("status") or {}).get("allocation")]


def test_what_may_have_been_written_is_not_given_back() -> None:
    ledger = Watched()
    timeout = ClientError(504, "Timeout", "the request did not complete within the allotted duration")
    with bench(start=False) as b:
        begin(b, Wire(timeout, applied=True), ledger)
        assert b.node_of("first") == "n1"
        assert holders(b) == ["first"]
    assert "reserve" in ledger.asked
    assert ledger.freed_by == []


def test_a_device_whose_write_is_under_way_is_for_nobody_else() -> None:
    wire = Wire(ClientError(0, "Unreachable", "connection reset"), applied=False)
    with bench(start=False) as b:
        begin(b, wire, Watched())
        assert b.events("FailedScheduling", "first")
        b.claim("second")
        b.pod("second", "second")
        # Refused, or bound.
        b.until(lambda: b.condition("second"))
        assert b.http.put(f"{CLAIMS}/first/status", wire.sent).code == 200
        assert b.node_of("first") == "n1"
        assert holders(b) == ["first"]


def test_a_pod_that_others_always_overtake_keeps_those_behind_it_waiting_for_a_while_only() -> None:
    ledger = Contested()
    with bench(start=False) as b:
        b.node("n1")
        b.device_class()
        b.slice("n1", "gpu-0")
        b.claim("overtaken")
        b.pod("overtaken", "overtaken")
        b.add_scheduler(ledger=ledger)
        b.until(lambda: ledger.plans)
        b.pod("behind")
        assert b.node_of("behind") == "n1"
        reason = "reserved by another scheduler in the meantime: device gpu.example.com n1 gpu-0"
        assert b.refusal("overtaken")["message"] == reason
        assert ledger.plans >= 50, "it is worth several attempts"
