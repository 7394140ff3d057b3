"""What upstream's node tests of DRA look at (EN-.. of their numbers in names), as far as other files do not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import aiohttp
import grpc
from kubelet_claims_harness import cached, calls, claim, claimed_pod, publish, slices
from kubelet_harness import NODE, Bench, bench, driver, run, state
from small_driver import NAME, SmallDriver

from node_api.services import NODE_PREPARE_RESOURCES, NODE_UNPREPARE_RESOURCES

OTHER = "b.example.com"
FAILURE = (grpc.StatusCode.INTERNAL, "no")


async def registered(made: Bench, name: str = NAME) -> None:
    async def check() -> bool:
        return made.managers[-1].is_registered(name)

    await made.until(check, f"{name} is registered")


async def called(made: Bench, small: SmallDriver, method: str, times: int = 1) -> None:
    async def check() -> bool:
        return len(calls(small, method)) >= times

    await made.until(check, f"{method} is called {times} times")


async def emptied(made: Bench) -> None:
    async def check() -> bool:
        return cached(made) == []

    await made.until(check, "no claim is in use")


def test_en_5_a_pod_created_while_no_kubelet_runs_starts_with_it() -> None:
    async def scenario() -> None:
        async with bench(start=False) as made:
            await made.create("p")
            made.start()
            await made.ready("p")

    run(scenario())


def test_en_9_a_failed_preparation_is_repeated_after_a_restart() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made, driver(made) as small:
            small.fail[NODE_PREPARE_RESOURCES] = FAILURE
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await called(made, small, NODE_PREPARE_RESOURCES)
            await made.restart()
            small.fail.clear()
            await made.ready("p")

    run(scenario())


def test_en_10_a_failed_reversal_is_repeated_after_a_restart() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            small.fail[NODE_UNPREPARE_RESOURCES] = FAILURE
            await made.delete("p")
            await called(made, small, NODE_UNPREPARE_RESOURCES)
            await made.restart()
            await registered(made)
            await called(made, small, NODE_UNPREPARE_RESOURCES, 2)
            assert await made.pod("p") is not None
            small.fail.clear()
            await made.gone("p")
            assert cached(made) == []

    run(scenario())


def test_en_12_the_reversal_of_a_force_deleted_pod_is_repeated_after_a_restart() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            small.fail[NODE_UNPREPARE_RESOURCES] = FAILURE
            await made.delete("p", 0)
            await called(made, small, NODE_UNPREPARE_RESOURCES)
            await made.restart()
            await registered(made)
            small.fail.clear()
            # By the look at claims of Pods that are gone, once a minute.
            await asyncio.sleep(0.2)
            made.clock.advance(60)
            await emptied(made)

    run(scenario())


def test_a_pod_whose_claims_are_stuck_keeps_its_address() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            address = (await made.ready("p"))["status"]["podIP"]
            small.fail[NODE_UNPREPARE_RESOURCES] = FAILURE
            await made.delete("p")

            async def tried_again() -> bool:
                return len(calls(small, NODE_UNPREPARE_RESOURCES)) > 2

            await made.until(tried_again, "the reversal is tried again")
            status = (await made.pod("p") or {})["status"]
            assert (status["phase"], status["podIP"]) == ("Running", address)
            small.fail.clear()
            await made.gone("p")

    run(scenario())


def test_en_13_a_pod_deleted_while_no_kubelet_runs_is_not_prepared_again() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            await made.kill()
            await made.delete("p")
            made.start()
            await made.gone("p")
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 1
            assert len(calls(small, NODE_UNPREPARE_RESOURCES)) == 1

    run(scenario())


def test_en_21_and_23_a_claim_of_two_drivers_needs_both() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made, driver(made) as one, driver(made, name=OTHER) as two:
            two.fail[NODE_PREPARE_RESOURCES] = FAILURE
            await claim(made, "claim", NAME, OTHER)
            await claimed_pod(made, "p", "claim")
            await made.event("FailedPrepareDynamicResources", "code = Internal desc = no")
            two.fail.clear()
            await made.ready("p")
            # The device of each driver once, however often it was prepared.
            (found,) = await made.runtime.list_containers()
            assert len(found.config.cdi_devices) == 2
            two.fail[NODE_UNPREPARE_RESOURCES] = FAILURE
            await made.delete("p")
            await called(made, two, NODE_UNPREPARE_RESOURCES, 2)
            two.fail.clear()
            await made.gone("p")
            assert calls(one, NODE_UNPREPARE_RESOURCES)

    run(scenario())


async def metrics(made: Bench) -> list[str]:
    node = await made.client.get("v1", "nodes", NODE)
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    headers = {"Authorization": "Bearer t"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{port}/metrics", ssl=False) as response,
    ):
        text = await response.text()
    return [line for line in text.splitlines() if line.startswith("dra_resource_claims_in_use")]


def test_en_22_the_number_of_claims_in_use_goes_back_to_nothing() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made):
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            assert await metrics(made) == [
                'dra_resource_claims_in_use{driver_name="<any>"} 1',
                f'dra_resource_claims_in_use{{driver_name="{NAME}"}} 1',
            ]
            await made.delete("p")
            await made.gone("p")
            assert await metrics(made) == ['dra_resource_claims_in_use{driver_name="<any>"} 0']

    run(scenario())


def test_en_26_a_kubelet_killed_during_a_reversal_repeats_it() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            small.wait.clear()
            await made.delete("p")
            await called(made, small, NODE_UNPREPARE_RESOURCES)
            await made.kill()
            small.wait.set()
            assert len(cached(made)) == 1
            made.start()
            await made.gone("p")
            assert len(calls(small, NODE_UNPREPARE_RESOURCES)) == 2
            assert cached(made) == []

    run(scenario())


def test_en_29_slices_go_when_only_the_service_goes_away() -> None:
    async def scenario() -> None:
        async with bench(start=False) as made:

            async def wiped() -> bool:
                return await slices(made) == []

            # A kubelet that starts removes all slices once, which must not be taken for what is looked at here.
            await publish(made, "old")
            made.start()
            await made.until(wiped, "what was there is removed")
            async with driver(made) as small:
                await publish(made, "own")
                service = small._served[0]
                await asyncio.to_thread(service.close)

                async def lost() -> bool:
                    return not made.managers[-1].target(NAME).connected

                await made.until(lost, "the connection is lost")
                assert made.managers[-1].is_registered(NAME)

                async def wiped_in_time() -> bool:
                    made.clock.advance(30)
                    return await wiped()

                await made.until(wiped_in_time, "the slices are removed")
                # A further loss without a connection in between wipes nothing again.
                await publish(made, "again")
                made.clock.advance(60)
                await asyncio.sleep(0.3)
                assert await slices(made) == ["again"]

    run(scenario())


def test_en_31_slices_go_when_the_service_never_comes_up() -> None:
    async def scenario() -> None:
        async with bench() as made:
            small = SmallDriver(made.root)
            await asyncio.to_thread(small.serve_registration)
            with contextlib.ExitStack() as stack:
                stack.callback(small.stop)
                await registered(made)
                await publish(made, "own")
                await asyncio.sleep(0.2)
                made.clock.advance(30)

                async def wiped() -> bool:
                    return await slices(made) == []

                await made.until(wiped, "the slices are removed")

    run(scenario())


def test_en_41_without_its_gate_health_is_not_told() -> None:
    async def scenario() -> None:
        async with bench({"ResourceHealthStatus": False}) as made, driver(made, reports=0):
            await claim(made)
            await claimed_pod(made, "p", "claim")
            found = await made.ready("p")
            assert "allocatedResourcesStatus" not in state(found)

    run(scenario())


def test_en_44_share_ids_are_kept() -> None:
    async def scenario() -> None:
        share = "11111111-2222-3333-4444-555555555555"
        async with bench() as made, driver(made, extra_devices={"share_id": share}):
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            devices: list[dict[str, Any]] = cached(made)[0]["DriverState"][NAME]["Devices"]
            assert [item["ShareID"] for item in devices] == [share]

    run(scenario())


def test_kub_5_a_claim_that_no_container_refers_to_is_prepared() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            pod = await made.create("p", resourceClaims=[{"name": "x", "resourceClaimName": "claim"}])
            await made.reserve("claim", pod)
            await made.ready("p")
            assert calls(small, NODE_PREPARE_RESOURCES) == [["claim"]]
            (found,) = await made.runtime.list_containers()
            assert found.config.cdi_devices == ()

    run(scenario())


def test_a_driver_that_hangs_keeps_nobody_else_waiting() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as slow, driver(made, name=OTHER):
            slow.wait.clear()
            # More than the threads that a loop has for blocking calls.
            for index in range(10):
                await claim(made, f"slow-{index}")
                await claimed_pod(made, f"p{index}", f"slow-{index}")
            await called(made, slow, NODE_PREPARE_RESOURCES, 8)
            await claim(made, "quick", OTHER)
            await claimed_pod(made, "q", "quick")
            await made.ready("q")
            slow.wait.set()
            for index in range(10):
                await made.ready(f"p{index}")

    run(scenario())
