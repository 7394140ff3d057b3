from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from kubelet_claims_harness import PREFIX, cached, calls, claim, claimed_pod
from kubelet_harness import (
    NODE,
    RESOURCE,
    bench,
    condition,
    container,
    driver,
    run,
    state,
)
from small_driver import NAME

from node_api.services import NODE_PREPARE_RESOURCES, NODE_UNPREPARE_RESOURCES


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
