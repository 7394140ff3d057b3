from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import pytest
from kubelet_claims_harness import cached, calls, claim, claimed_pod
from kubelet_harness import (
    bench,
    driver,
    run,
)
from small_driver import NAME

from clusters.embedded.kubelet.dra.checkpoint import CheckpointError, decode, encode
from node_api.services import NODE_PREPARE_RESOURCES, NODE_UNPREPARE_RESOURCES


def test_a_killed_kubelet_leaves_pods_alone_and_knows_their_devices_again() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            found = await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            before = [item.id for item in await made.runtime.list_containers()]
            await made.restart()

            async def registered() -> bool:
                return made.managers[-1].is_registered(NAME)

            await made.until(registered, "the driver is registered again")
            await asyncio.sleep(0.3)
            assert [item.id for item in await made.runtime.list_containers()] == before
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 1
            # What was prepared is known from the checkpoint, that it was is not: a further Pod has it repeated.
            assert cached(made)[0]["ClaimUID"] == found["metadata"]["uid"]
            await claimed_pod(made, "q", "claim")
            await made.ready("q")
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 2
            for name in ("p", "q"):
                await made.delete(name)
                await made.gone(name)
            assert calls(small, NODE_UNPREPARE_RESOURCES) == [["claim"]]

    run(scenario())


def test_a_deletion_waits_for_a_call_that_prepares_for_the_pod() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            small.entered.clear()
            small.wait.clear()
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await asyncio.to_thread(small.entered.wait, 10)
            small.cancelled.clear()
            await made.delete("p", 1)
            await asyncio.sleep(0.3)
            assert not small.cancelled.is_set()
            assert not calls(small, NODE_UNPREPARE_RESOURCES)
            small.wait.set()
            await made.gone("p")
            assert calls(small, NODE_UNPREPARE_RESOURCES)
            assert cached(made) == []

    run(scenario())


def test_a_kubelet_killed_during_a_preparation_repeats_it_and_starts_the_pod_once() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            small.entered.clear()
            small.wait.clear()
            await claim(made)
            await claimed_pod(made, "p", "claim")

            async def asked() -> bool:
                return bool(calls(small, NODE_PREPARE_RESOURCES))

            await made.until(asked, "the driver is asked")
            assert len(cached(made)) == 1
            await made.kill()
            small.wait.set()
            made.start()
            await made.ready("p")
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 2
            assert len(await made.runtime.list_containers()) == 1

    run(scenario())


def test_claims_of_pods_force_deleted_while_no_kubelet_was_there_are_unprepared_within_a_minute() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            await made.kill()
            await made.delete("p", 0)
            made.start()

            async def registered() -> bool:
                return made.managers[-1].is_registered(NAME)

            await made.until(registered, "the driver is registered again")

            async def stopped() -> bool:
                return not await made.runtime.list_pod_sandboxes()

            await made.until(stopped, "the orphan is stopped")
            assert len(cached(made)) == 1
            made.clock.advance(60)

            async def unprepared() -> bool:
                return cached(made) == []

            await made.until(unprepared, "the claim is unprepared")
            assert calls(small, NODE_UNPREPARE_RESOURCES) == [["claim"]]

    run(scenario())


def test_a_damaged_checkpoint_ends_the_kubelet_before_it_does_anything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with bench(start=False) as made:
            (made.root / "dra_manager_state").write_text('{"Data":"{}","Checksum":1}')
            made.start()
            assert made.task is not None
            with pytest.raises(CheckpointError) as caught:
                await asyncio.wait_for(made.task, 5)
            assert str(caught.value) == (
                "failed to run Kubelet: create ResourceClaim cache: GetOrCreate() on checkpoint state: "
                "failed to get checkpoint dra_manager_state: checkpoint is corrupted"
            )
            assert (await made.client.list("v1", "nodes"))["items"] == []

    run(scenario())


def test_the_checkpoint_is_that_of_kubernetes() -> None:
    device = {
        "PoolName": "worker-1",
        "DeviceName": "dev-1",
        "ShareID": None,
        "RequestNames": ["test request"],
        "CDIDeviceIDs": ["example.com/example=cdi-example"],
    }
    entry = {
        "ClaimUID": "067798be-454e-4be4-9047-1aa06aea63f7",
        "ClaimName": "example",
        "Namespace": "default",
        "PodUIDs": {"139cdb46-f989-4f17-9561-ca10cfb509a6": {}},
        "DriverState": {"test-driver.cdi.k8s.io": {"Devices": [device]}},
    }
    # The checksum is from the tests of kubernetes v1.37.2, pkg/kubelet/cm/dra/state.
    assert json.loads(encode([entry]))["Checksum"] == 2570581864
    assert decode(encode([entry])) == [entry]


def test_threads_of_a_killed_kubelet_end() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made):
            await made.create("p")
            await made.ready("p")
            await made.kill()
            names = [thread.name for thread in threading.enumerate()]
            assert not [name for name in names if name.startswith(("kubelet-plugins", "register-"))]

    run(scenario())
