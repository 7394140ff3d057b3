from __future__ import annotations

import asyncio
from typing import Any

from kubelet_harness import NODE, bench, run

LEASES = ("coordination.k8s.io/v1", "leases", NODE, "kube-node-lease")


async def node(made: Any) -> dict[str, Any]:
    async def check() -> Any:
        found = await made.client.find("v1", "nodes", NODE)
        return found if found and found["status"].get("conditions") else None

    found: dict[str, Any] = await made.until(check, "the node is registered")
    return found


def test_the_node_says_what_it_is() -> None:
    async def scenario() -> None:
        labels = {"gpu": "yes"}
        taints = ({"key": "k", "value": "v", "effect": "NoSchedule"},)
        capacity = {
            "cpu": "8",
            "memory": "32Gi",
            "pods": "110",
            "ephemeral-storage": "10Gi",
            "hugepages-2Mi": "1Gi",
        }
        async with bench(
            {"DRANodeAllocatableResources": True},
            labels=labels,
            taints=taints,
            capacity=capacity,
            reserved={"cpu": "500m"},
        ) as made:
            found = await node(made)
            assert found["metadata"]["labels"]["kubernetes.io/hostname"] == NODE
            assert found["metadata"]["labels"]["gpu"] == "yes"
            assert taints[0] in [dict(item) for item in found["spec"]["taints"]]
            status = found["status"]
            assert status["capacity"] == capacity
            assert status["allocatable"]["cpu"] == "7500m"
            # 32 GiB without the huge pages
            assert status["allocatable"]["memory"] == "31Gi"
            assert status["addresses"] == [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": NODE},
            ]
            info = status["nodeInfo"]
            assert (info["kubeletVersion"], info["operatingSystem"]) == ("v1.37.2", "linux")
            assert info["containerRuntimeVersion"].startswith("containerd://2.1.")
            assert status["declaredFeatures"] == ["DRANodeAllocatableResources"]
            reasons = {
                item["type"]: (item["status"], item["reason"], item["message"])
                for item in status["conditions"]
            }
            assert reasons == {
                "MemoryPressure": (
                    "False",
                    "KubeletHasSufficientMemory",
                    "kubelet has sufficient memory available",
                ),
                "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
            }
            # NodeReady last, for controllers of other versions
            assert status["conditions"][-1]["type"] == "Ready"

    run(scenario())


def test_the_lease_is_renewed_every_ten_seconds() -> None:
    async def scenario() -> None:
        async with bench() as made:
            found = await node(made)

            async def lease() -> Any:
                return await made.client.find(*LEASES)

            first = await made.until(lease, "there is a lease")
            spec = first["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (NODE, 40)
            (owner,) = first["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "v1",
                "kind": "Node",
                "name": NODE,
                "uid": found["metadata"]["uid"],
            }
            await asyncio.sleep(0.1)
            # 10 s and the jitter of 4 %
            made.clock.advance(10.5)

            async def renewed() -> bool:
                return (await lease())["spec"]["renewTime"] > spec["renewTime"]

            await made.until(renewed, "the lease is renewed")

    run(scenario())


def test_the_status_is_written_every_five_minutes_and_when_somebody_changed_it() -> None:
    async def scenario() -> None:
        async with bench() as made:
            found = await node(made)
            await asyncio.sleep(0.2)

            async def beat() -> str:
                return str((await node(made))["status"]["conditions"][-1]["lastHeartbeatTime"])

            first = await beat()
            made.clock.advance(11)
            await asyncio.sleep(0.3)
            assert await beat() == first
            made.clock.advance(300)

            async def reported() -> bool:
                return await beat() > first

            await made.until(reported, "the status is written again")
            ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "gone"}
            await made.client.patch(
                "v1", "nodes", NODE, {"status": {"conditions": [ready]}}, subresource="status"
            )
            made.clock.advance(11)

            async def repaired() -> bool:
                return (await node(made))["status"]["conditions"][-1]["reason"] == "KubeletReady"

            await made.until(repaired, "the status is repaired")
            assert found["metadata"]["uid"] == (await node(made))["metadata"]["uid"]

    run(scenario())


def test_a_known_node_gets_the_labels_of_this_kubelet_and_keeps_others() -> None:
    async def scenario() -> None:
        async with bench(start=False, labels={"gpu": "yes"}) as made:
            labels = {"gpu": "no", "own": "x"}
            await made.client.create(
                "v1",
                "nodes",
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}},
            )
            made.start()
            found = await node(made)
            assert found["metadata"]["labels"]["own"] == "x"
            assert found["metadata"]["labels"]["gpu"] == "yes"

    run(scenario())


def test_a_cordon_is_told_in_an_event() -> None:
    async def scenario() -> None:
        async with bench() as made:
            await node(made)
            for cordoned, reason in ((True, "NodeNotSchedulable"), (False, "NodeSchedulable")):
                patch = {"spec": {"unschedulable": cordoned}}
                await made.client.patch("v1", "nodes", NODE, patch)
                await asyncio.sleep(0.1)
                # 10 s and the jitter of 4 %
                made.clock.advance(10.5)
                await made.event(reason, f"Node {NODE} status is now: {reason}")

    run(scenario())
