"""The ledger's backends, and what an allocation takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from ledger_contract import check_contract, check_forgetting

from allocator.ledger import (
    Caller,
    ClaimKey,
    Holding,
    Ledger,
    LedgerUnavailableError,
    MemoryLedger,
    Wish,
    holding_of,
)
from allocator.ledger.remote import RedisLedger, connect
from allocator.ledger.server import LedgerServer


def on_fakeredis(remembered: int = 100) -> Ledger:
    return RedisLedger(FakeAsyncRedis(server=FakeServer()), "test", remembered=remembered)


@asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[None]:
    server = asyncio.create_task(LedgerServer(socket).run())
    while not socket.exists():
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)


@asynccontextmanager
async def one_reservation() -> AsyncIterator[tuple[FakeAsyncRedis, Ledger, Caller, int]]:
    """A server, and its ledger in which somebody has reserved the device `d` with a token."""
    client = FakeAsyncRedis(server=FakeServer())
    ledger = RedisLedger(client, "test")
    try:
        caller = await filled(ledger, "L")
        granted = await ledger.reserve(caller, 0, [wish_for_d("x")])
        yield client, ledger, caller, granted.token
    finally:
        await ledger.close()


async def filled(ledger: Ledger, name: str) -> Caller:
    caller = Caller((await ledger.open(name)).id, f"{name}#1", 0)
    await ledger.fill(caller)
    return caller


def wish_for_d(claim: str) -> Wish:
    return Wish(ClaimKey("ns", claim, f"uid-{claim}"), Holding(("d",)))


@pytest.mark.parametrize("make", [MemoryLedger, on_fakeredis])
def test_the_contract_holds(make: Callable[[], Ledger]) -> None:
    asyncio.run(check_contract(make))


@pytest.mark.parametrize("make", [MemoryLedger, on_fakeredis])
def test_whoever_has_missed_forgotten_removals_gets_everything(make: Callable[..., Ledger]) -> None:
    async def check() -> None:
        ledger = make(remembered=3)
        await check_forgetting(ledger)
        await ledger.close()

    asyncio.run(check())


def test_the_contract_holds_through_the_socket_of_the_server(tmp_path: Path) -> None:
    names = iter(range(100))

    async def check() -> None:
        socket = tmp_path / "l.sock"
        async with serving(socket):
            assert socket.stat().st_mode & 0o777 == 0o600
            await check_contract(lambda: connect(f"unix://{socket}", f"test-{next(names)}"))
        assert not socket.exists()

    asyncio.run(check())


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    async def check() -> None:
        ledger = connect(f"unix://{tmp_path}/none.sock", "test")
        with pytest.raises(LedgerUnavailableError, match=r"none\.sock cannot be used: .*No such file"):
            await ledger.open("x")
        await ledger.close()

    asyncio.run(check())


def test_a_connection_is_made_again_after_the_server_was_started_anew(tmp_path: Path) -> None:
    async def check() -> None:
        socket = tmp_path / "l.sock"
        ledger = connect(f"unix://{socket}", "test")
        found = []
        for name in ("first", "second"):
            async with serving(socket):
                found.append((await ledger.open(name)).id)
        await ledger.close()
        assert found == ["first", "second"]

    asyncio.run(check())


def test_nothing_stays_for_good_in_a_server_that_nobody_asks_any_more() -> None:
    async def check() -> None:
        async with one_reservation() as (client, ledger, caller, token):
            after_reserve = {key: await client.ttl(key) for key in await client.keys()}
            await ledger.release(caller, {"uid-x": token})
            after_release = {key: await client.ttl(key) for key in await client.keys()}
        assert (len(after_reserve), len(after_release)) == (5, 2)
        assert all(0 < left <= 3600 for left in [*after_reserve.values(), *after_release.values()])

    asyncio.run(check())


def test_a_new_ledger_has_nothing_of_one_of_which_only_parts_are_left() -> None:
    async def check() -> None:
        async with one_reservation() as (client, ledger, _, _):
            await client.delete("{test}:meta", "{test}:entries")
            caller = await filled(ledger, "M")
            await ledger.expire(caller, 10)
            assert (await ledger.reserve(caller, 0, [wish_for_d("y")])).token

    asyncio.run(check())


def result(device: str, **more: object) -> dict[str, object]:
    return {"request": "r", "driver": "d.example.com", "pool": "p/q", "device": device, **more}


@pytest.mark.parametrize(
    ("results", "shares", "takes", "joins"),
    [
        ([result("a")], True, ("device d.example.com p/q a",), ()),
        ([result("a", adminAccess=True)], True, (), ()),
        ([result("part")], True, ("device d.example.com p/q part",), ("pool d.example.com p/q",)),
        (
            [result("a", shareID="s1"), result("a", shareID="s2")],
            True,
            ("share d.example.com p/q a s1", "share d.example.com p/q a s2"),
            ("device d.example.com p/q a",),
        ),
        ([result("a", shareID="s1")], False, ("device d.example.com p/q a",), ()),
        (
            [result("part", shareID="s1")],
            True,
            ("share d.example.com p/q part s1",),
            ("device d.example.com p/q part", "pool d.example.com p/q"),
        ),
    ],
)
def test_what_an_allocation_takes(
    results: list[dict[str, object]], shares: bool, takes: tuple[str, ...], joins: tuple[str, ...]
) -> None:
    holding = holding_of(
        {"devices": {"results": results}}, lambda device: device.device == "part", shares=shares
    )
    assert (holding.takes, holding.joins) == (takes, joins)


def test_of_the_results_those_parts_are_kept_that_count() -> None:
    allocation = {
        "devices": {"results": [result("a", shareID="s", consumedCapacity={"m": "1Gi"}, tolerations=[])]}
    }
    assert holding_of(allocation, lambda device: False) == Holding(
        ("share d.example.com p/q a s",),
        ("device d.example.com p/q a",),
        '[{"consumedCapacity":{"m":"1Gi"},"device":"a","driver":"d.example.com","pool":"p/q","shareID":"s"}]',
    )
