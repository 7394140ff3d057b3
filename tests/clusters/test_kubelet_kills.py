from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from kubelet_claims_harness import cached, calls, claim, claimed_pod
from kubelet_harness import Bench, bench, container, driver, run
from small_driver import SmallDriver

from node_api.services import NODE_UNPREPARE_RESOURCES


class Starts:
    """Counts starts of containers by Pod and container, as the runtime sees them."""

    def __init__(self, made: Bench) -> None:
        self.counts: dict[str, int] = {}
        start = made.runtime.start_container

        async def counted(container_id: str) -> None:
            status = await made.runtime.container_status(container_id)
            name = status.config.labels["io.kubernetes.pod.name"]
            self.counts[name] = self.counts.get(name, 0) + 1
            await start(container_id)

        made.runtime.start_container = counted  # type: ignore[method-assign]


async def shake(made: Bench, chance: random.Random, times: int) -> None:
    """Kill and start the kubelet at arbitrary moments."""
    for _ in range(times):
        await asyncio.sleep(chance.uniform(0.0, 0.12))
        await made.restart()


@pytest.mark.parametrize("seed", range(4))
def test_a_kubelet_killed_at_any_moment_starts_and_stops_each_pod_once(seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        async with bench(sync_frequency=0.2) as made, driver(made) as small:
            starts = Starts(made)
            names = [f"p{index}" for index in range(4)]
            for name in names:
                await claim(made, f"claim-{name}")
                await claimed_pod(made, name, f"claim-{name}")
            await shake(made, chance, 8)
            for name in names:
                await made.ready(name, 20)
            assert starts.counts == dict.fromkeys(names, 1)
            assert len(cached(made)) == len(names)
            for name in names:
                await made.delete(name)
            await shake(made, chance, 8)
            for name in names:
                await made.gone(name, 20)
            await check_nothing_left(made, small, names)

    run(scenario())


async def check_nothing_left(made: Bench, small: SmallDriver, names: list[str]) -> None:
    async def clean() -> bool:
        # claims of Pods that went while no kubelet was there are found within a minute
        made.clock.advance(60)
        return not cached(made) and not await made.runtime.list_pod_sandboxes()

    await made.until(clean, "nothing is left")
    unprepared = {item for call in calls(small, NODE_UNPREPARE_RESOURCES) for item in call}
    assert unprepared == {f"claim-{name}" for name in names}


@pytest.mark.parametrize("seed", range(2))
def test_a_pod_that_completes_while_kubelets_die_succeeds_and_runs_once(seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        async with bench(sync_frequency=0.2) as made:
            starts = Starts(made)
            await made.create("p", container("c", "exit", "0"), restartPolicy="Never")
            await shake(made, chance, 8)
            found = await made.phase("p", "Succeeded", 20)
            assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
            assert starts.counts == {"p": 1}

    run(scenario())


def test_a_status_that_a_dead_kubelet_did_not_write_is_written_by_the_next() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", container("c", "sleep", "60"), restartPolicy="Never")
            await made.ready("p")
            await made.kill()
            made.clock.advance(60)

            async def ended() -> bool:
                return all(found.finished_at for found in await made.runtime.list_containers())

            await made.until(ended, "the container has ended")
            assert (await made.pod("p") or {})["status"]["phase"] == "Running"
            made.start()
            found: Any = await made.phase("p", "Succeeded")
            assert found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"

    run(scenario())


def test_pods_deleted_while_no_kubelet_was_there_are_stopped_by_the_next() -> None:
    async def scenario() -> None:
        async with bench() as made:
            for name in ("graceful", "forced"):
                await made.create(name)
                await made.ready(name)
            await made.kill()
            await made.delete("graceful")
            await made.delete("forced", 0)
            assert len(await made.runtime.list_pod_sandboxes()) == 2
            made.start()
            await made.gone("graceful")

            async def stopped() -> bool:
                return not await made.runtime.list_pod_sandboxes()

            await made.until(stopped, "both are stopped")

    run(scenario())


def test_a_kubelet_survives_an_api_server_that_goes_away() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made:
            await made.create("p", container("c", "sleep", "60"), restartPolicy="Never")
            await made.ready("p")
            await asyncio.to_thread(made.server.stop)
            made.clock.advance(60)

            async def ended() -> bool:
                return all(found.finished_at for found in await made.runtime.list_containers())

            await made.until(ended, "the container has ended")
            await asyncio.to_thread(made.server.start)
            # what could not be written is tried again every ten seconds
            await asyncio.sleep(0.2)
            made.clock.advance(10)
            await made.phase("p", "Succeeded")
            await made.create("q")
            await made.ready("q")

    run(scenario())
