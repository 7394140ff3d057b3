"""Schedulers race through the ledger, with everything going wrong that can."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from ledger_machine import Backend, play

from allocator.ledger import MemoryLedger
from allocator.ledger.remote import RedisLedger


async def in_memory(clock: Callable[[], float]) -> Backend:
    ledger = MemoryLedger(clock, remembered=3)

    async def lose() -> None:
        ledger.lose()

    return Backend(ledger, lose)


async def on_fakeredis(clock: Callable[[], float]) -> Backend:
    client = FakeAsyncRedis(server=FakeServer())

    async def lose() -> None:
        await client.flushall()

    return Backend(RedisLedger(client, "test", remembered=3), lose)


@pytest.mark.parametrize(("make", "examples"), [(in_memory, 40), (on_fakeredis, 8)])
def test_no_device_is_given_away_twice_and_none_is_lost(
    make: Callable[[Callable[[], float]], object], examples: int
) -> None:
    play(make, examples, steps=40)  # type: ignore[arg-type]
