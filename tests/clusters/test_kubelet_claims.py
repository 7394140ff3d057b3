from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from kubelet_harness import (
    NODE,
    RESOURCE,
    Bench,
    bench,
    condition,
    container,
    driver,
    run,
    state,
)
from small_driver import NAME, SmallDriver

from clusters.embedded.kubelet.dra.checkpoint import CheckpointError, decode, encode
from node_api.services import NODE_PREPARE_RESOURCES, NODE_UNPREPARE_RESOURCES

PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


def cdi(made: Bench, claim: dict[str, Any]) -> None:
    """The spec that the small driver answers with the name of."""
    uid = claim["metadata"]["uid"]
    edits = {"env": [f"CLAIM_{claim['metadata']['name'].upper().replace('-', '_')}={uid}"]}
    spec = {"cdiVersion": "0.6.0", "kind": "a.com/c", "devices": [{"name": uid, "containerEdits": edits}]}
    (made.cdi / f"{uid}.json").write_text(json.dumps(spec))


async def claim(made: Bench, name: str = "claim", *drivers: str, **more: Any) -> dict[str, Any]:
    found = await made.claim(name, *drivers, **more)
    cdi(made, found)
    return found


async def claimed_pod(
    made: Bench, name: str, *claims: str, command: tuple[str, ...] = (), **spec: Any
) -> dict[str, Any]:
    """A Pod of one container that refers to all claims; the Pod is in their reservedFor."""
    own = container("c", *command, resources={"claims": [{"name": item} for item in claims]})
    pod = await made.create(
        name, own, resourceClaims=[{"name": item, "resourceClaimName": item} for item in claims], **spec
    )
    for item in claims:
        await made.reserve(item, pod)
    return pod


def calls(small: SmallDriver, method: str) -> list[list[str]]:
    return [[item.name for item in request.claims] for _, called, request in small.calls if called == method]


def cached(made: Bench) -> list[dict[str, Any]]:
    return decode((made.root / "dra_manager_state").read_bytes())


def test_claims_are_prepared_and_their_devices_reach_the_container() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            found = await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            assert calls(small, NODE_PREPARE_RESOURCES) == [["claim"]]
            (own,) = await made.runtime.list_containers()
            assert own.config.cdi_devices == (f"a.com/c={found['metadata']['uid']}",)
            seen = made.runtime.container_view(own.id).environment
            assert seen["CLAIM_CLAIM"] == found["metadata"]["uid"]

    run(scenario())


def test_all_claims_of_a_driver_come_in_one_call_in_the_order_of_the_spec() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            names = ("w3", "w1", "w2")
            for name in names:
                await claim(made, name)
            await claimed_pod(made, "p", *names)
            await made.ready("p")
            assert calls(small, NODE_PREPARE_RESOURCES) == [list(names)]

    run(scenario())


def test_a_pod_that_is_not_in_reserved_for_waits_and_leaves_no_trace() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made, driver(made) as small:
            found = await claim(made)
            own = container("c", resources={"claims": [{"name": "x"}]})
            pod = await made.create("p", own, resourceClaims=[{"name": "x", "resourceClaimName": "claim"}])
            uid = pod["metadata"]["uid"]
            text = f"pod p ({uid}) is not allowed to use ResourceClaim claim ({found['metadata']['uid']})"
            event = await made.event("FailedPrepareDynamicResources", PREFIX + text)
            assert event["type"] == "Warning"
            assert "fieldPath" not in event["involvedObject"]
            waiting = await made.waiting("p")
            assert state(waiting)["state"] == {"waiting": {"reason": "ContainerCreating"}}
            sandbox = condition(waiting, "PodReadyToStartContainers")
            assert (sandbox["status"], sandbox["reason"], sandbox["message"]) == (
                "False",
                "PodSandboxNotReady",
                "no pod sandbox exists",
            )
            assert condition(waiting, "Initialized")["status"] == "True"
            for kind in ("Ready", "ContainersReady"):
                item = condition(waiting, kind)
                assert (item["reason"], item["message"]) == (
                    "ContainersNotReady",
                    "containers with unready status: [c]",
                )
            assert cached(made) == []
            await made.reserve("claim", pod)
            await made.ready("p")
            assert calls(small, NODE_PREPARE_RESOURCES) == [["claim"]]

    run(scenario())


def test_a_missing_claim_and_one_that_is_not_generated_yet_are_named() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await made.create("p", resourceClaims=[{"name": "x", "resourceClaimName": "nosuch"}])
            text = 'fetch ResourceClaim nosuch: resourceclaims.resource.k8s.io "nosuch" not found'
            await made.event("FailedPrepareDynamicResources", PREFIX + text)
            await made.create("q", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
            text = 'pod "default/q": ResourceClaim not created yet'
            await made.event("FailedPrepareDynamicResources", PREFIX + text)

    run(scenario())


def test_without_the_driver_a_pod_waits_and_can_be_deleted() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.event("FailedPrepareDynamicResources", f"{PREFIX}DRA driver {NAME} is not registered")
            assert cached(made) == []
            await made.delete("p")
            await made.gone("p")

    run(scenario())


@pytest.mark.parametrize(
    ("faults", "text"),
    [
        ({"claim_error": "bad claim"}, "NodePrepareResources failed for ResourceClaim claim: bad claim"),
        (
            {"fail": {NODE_PREPARE_RESOURCES: (grpc.StatusCode.INTERNAL, "boom")}},
            "NodePrepareResources: rpc error: code = Internal desc = boom",
        ),
    ],
)
def test_a_failed_preparation_is_told_and_repeated(faults: dict[str, Any], text: str) -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made, driver(made, **faults) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.event("FailedPrepareDynamicResources", PREFIX + text)
            small.claim_error, small.fail = "", {}
            await made.ready("p")
            assert len(calls(small, NODE_PREPARE_RESOURCES)) >= 2

    run(scenario())


def test_the_next_try_comes_after_the_sync_frequency() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=60.0) as made, driver(made, claim_error="bad") as small:
            await claim(made)
            pod = await made.create(
                "p",
                container("c", resources={"claims": [{"name": "claim"}]}),
                nodeName=None,
                resourceClaims=[{"name": "claim", "resourceClaimName": "claim"}],
            )
            await made.reserve("claim", pod)
            binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": NODE}}
            await made.client.create("v1", "pods", binding, "default", "p", "binding")
            await made.event("FailedPrepareDynamicResources", "bad")
            small.claim_error = ""
            made.clock.advance(59)
            await asyncio.sleep(0.3)
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 1
            # 60 s times the largest jitter of 1.5
            made.clock.advance(31)
            await made.ready("p")
            assert len(calls(small, NODE_PREPARE_RESOURCES)) == 2

    run(scenario())


def test_a_second_pod_of_a_claim_causes_no_call_and_the_last_one_has_it_unprepared() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            await claimed_pod(made, "q", "claim")
            await made.ready("q")
            assert calls(small, NODE_PREPARE_RESOURCES) == [["claim"]]
            await made.delete("p")
            await made.gone("p")
            assert calls(small, NODE_UNPREPARE_RESOURCES) == []
            assert len(cached(made)[0]["PodUIDs"]) == 1
            await made.delete("q")
            await made.gone("q")
            assert calls(small, NODE_UNPREPARE_RESOURCES) == [["claim"]]
            assert cached(made) == []

    run(scenario())


def test_a_completed_pod_is_unprepared_before_its_status_says_so() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            small.fail[NODE_UNPREPARE_RESOURCES] = (grpc.StatusCode.INTERNAL, "not yet")
            await claimed_pod(made, "p", "claim", command=("exit", "0"), restartPolicy="Never")

            async def tried() -> bool:
                return bool(calls(small, NODE_UNPREPARE_RESOURCES))

            await made.until(tried, "unprepare is tried")
            await asyncio.sleep(0.2)
            assert (await made.pod("p") or {})["status"]["phase"] != "Succeeded"
            small.fail.clear()
            await made.phase("p", "Succeeded")
            assert cached(made) == []
            assert await made.pod("p") is not None

    run(scenario())


def test_a_container_restart_prepares_nothing() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made) as small:
            await claim(made)
            await claimed_pod(made, "p", "claim", command=("exit", "1"))

            async def restarted() -> bool:
                found = await made.pod("p")
                statuses = (found or {})["status"].get("containerStatuses") or [{}]
                return statuses[0].get("restartCount", 0) >= 1

            await made.until(restarted, "the container is restarted")
            assert calls(small, NODE_PREPARE_RESOURCES) == [["claim"]]
            devices = {found.config.cdi_devices for found in await made.runtime.list_containers()}
            assert len(devices) == 1

    run(scenario())


def test_a_deleted_pod_stays_while_its_driver_is_gone_and_goes_when_it_is_back() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.3) as made:
            await claim(made)
            async with driver(made):
                await claimed_pod(made, "p", "claim")
                await made.ready("p")
            await made.delete("p")
            await made.event("Killing", "Stopping container c")
            await asyncio.sleep(0.5)
            assert await made.pod("p") is not None
            async with driver(made) as small:
                await made.gone("p")
                assert calls(small, NODE_UNPREPARE_RESOURCES) == [["claim"]]

    run(scenario())


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


def test_a_claim_of_the_same_name_and_one_that_is_being_unprepared_are_refused() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made, driver(made) as small:
            old = await claim(made)
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            small.fail[NODE_UNPREPARE_RESOURCES] = (grpc.StatusCode.INTERNAL, "no")
            await made.delete("p")
            await made.event("Killing", "Stopping container c")
            await claimed_pod(made, "q", "claim")
            await made.event(
                "FailedPrepareDynamicResources", f"{PREFIX}ResourceClaim claim is being unprepared"
            )
            await made.delete("q")
            await made.gone("q")
            await made.delete("p", 0)
            await made.client.delete(RESOURCE, "resourceclaims", "claim", "default")
            await claim(made)
            await claimed_pod(made, "r", "claim")
            text = (
                f"old ResourceClaim with same name claim and different UID {old['metadata']['uid']} still exists "
                "(previous pod force-deleted?!)"
            )
            await made.event("FailedPrepareDynamicResources", PREFIX + text)
            small.fail.clear()
            await made.ready("r", 20)

    run(scenario())


def test_devices_go_to_the_containers_that_refer_to_their_requests() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made, extra_devices={}) as small:
            found = await claim(made, "claim", requests=("r", "s"))
            uid = found["metadata"]["uid"]
            entries: list[list[dict[str, str]]] = [
                [{"name": "x"}],
                [{"name": "x", "request": "r"}],
                [{"name": "x", "request": "s"}],
                [],
            ]
            containers = [
                container(f"c{index}", resources={"claims": item}) for index, item in enumerate(entries)
            ]
            pod = await made.create(
                "p", *containers, resourceClaims=[{"name": "x", "resourceClaimName": "claim"}]
            )
            await made.reserve("claim", pod)
            await made.ready("p")
            assert small.name == NAME
            # The driver's only device is for request r.
            seen = {
                item.config.name: item.config.cdi_devices for item in await made.runtime.list_containers()
            }
            name = f"a.com/c={uid}"
            assert seen == {"c0": (name,), "c1": (name,), "c2": (), "c3": ()}

    run(scenario())


def test_a_claim_that_needs_no_node_operations_needs_no_driver() -> None:
    async def scenario() -> None:
        gates = {"DRAOptionalNodeOperations": True}
        async with bench(gates) as made:
            await made.claim("claim", NAME, skipNodeOperations=["*"])
            await claimed_pod(made, "p", "claim")
            await made.ready("p")
            (entry,) = cached(made)
            assert entry["DriverState"] == {NAME: {"Devices": None, "skipNodeOperations": ["*"]}}
            await made.delete("p")
            await made.gone("p")
            assert cached(made) == []

    run(scenario())


def test_an_unresolvable_cdi_name_is_an_error_of_the_container() -> None:
    async def scenario() -> None:
        async with bench(sync_frequency=0.2) as made, driver(made):
            found = await made.claim("claim")
            await claimed_pod(made, "p", "claim")
            text = f"a.com/c={found['metadata']['uid']}"
            await made.event("Failed", text)

            async def waiting() -> Any:
                pod = await made.pod("p")
                statuses = (pod or {})["status"].get("containerStatuses") or []
                return (
                    statuses
                    and statuses[0]["state"].get("waiting", {}).get("reason") == "CreateContainerError"
                )

            await made.until(waiting, "the container waits")

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


async def slices(made: Bench) -> list[str]:
    found = await made.client.list(RESOURCE, "resourceslices")
    return sorted(item["metadata"]["name"] for item in found["items"])


async def publish(made: Bench, name: str, driver_name: str = NAME, **owner: Any) -> None:
    body = {
        "apiVersion": RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver_name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d"}],
            **(owner or {"nodeName": NODE}),
        },
    }
    await made.client.create(RESOURCE, "resourceslices", body)


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


def test_threads_of_a_killed_kubelet_end() -> None:
    async def scenario() -> None:
        async with bench() as made, driver(made):
            await made.create("p")
            await made.ready("p")
            await made.kill()
            names = [thread.name for thread in threading.enumerate()]
            assert not [name for name in names if name.startswith(("kubelet-plugins", "register-"))]

    run(scenario())
