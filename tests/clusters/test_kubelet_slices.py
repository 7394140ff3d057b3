from __future__ import annotations

import asyncio

from kubelet_claims_harness import publish, slices
from kubelet_harness import (
    bench,
    driver,
    run,
)


def test_slices_of_the_node_are_removed_when_the_kubelet_starts() -> None:
    async def scenario() -> None:
        async with bench(start=False) as made:
            await publish(made, "own")
            await publish(made, "other-driver", "b.example.com")
            await publish(made, "elsewhere", nodeName="n2")
            await publish(made, "everywhere", allNodes=True)
            made.start()

            async def wiped() -> bool:
                return await slices(made) == ["elsewhere", "everywhere"]

            await made.until(wiped, "slices of the node are removed")

    run(scenario())


def test_slices_of_a_driver_are_removed_thirty_seconds_after_it_was_lost() -> None:
    async def scenario() -> None:
        async with bench() as made:
            async with driver(made):
                await publish(made, "own")
                await publish(made, "other-driver", "b.example.com")
            await asyncio.sleep(0.2)
            made.clock.advance(29)
            await asyncio.sleep(0.2)
            assert await slices(made) == ["other-driver", "own"]
            made.clock.advance(1)

            async def wiped() -> bool:
                return await slices(made) == ["other-driver"]

            await made.until(wiped, "the driver's slices are removed")

    run(scenario())


def test_a_driver_that_is_back_in_time_keeps_its_slices() -> None:
    async def scenario() -> None:
        async with bench() as made:
            async with driver(made):
                await publish(made, "own")
            await asyncio.sleep(0.2)
            made.clock.advance(29)
            async with driver(made):
                await asyncio.sleep(0.2)
                made.clock.advance(60)
                await asyncio.sleep(0.3)
                assert await slices(made) == ["own"]

    run(scenario())
