from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import DRA, Object, Plane, plane

from clusters.clock import stamp
from clusters.embedded.controllers.resource_pool_status import ResourcePoolStatusController
from clusters.embedded.controllers.resource_pool_status.controller import is_old
from clusters.embedded.controllers.resource_pool_status.pools import pool_statuses

NAME = ResourcePoolStatusController.name
DRIVER = "gpu.example.com"
ALPHA, REQUESTS = "resource.k8s.io/v1alpha3", "resourcepoolstatusrequests"
GATES = {"DRAResourcePoolStatus": True, "DRAPartitionableDevicesType": True}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path, feature_gates=GATES, runtime_config={ALPHA: True}) as made:
        made.gates = GATES
        made.add(NAME, ResourcePoolStatusController)
        yield made


def slice_of(pool: str, *devices: Object, name: str = "", count: int = 1, **spec: Any) -> Object:
    generation = spec.pop("generation", 1)
    node = {} if "nodeName" in spec or "allNodes" in spec else {"nodeName": pool}
    return {
        "metadata": {"name": name or f"{pool}-slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
            **node,
            **spec,
        },
    }


def gpus(count: int, **more: Any) -> list[Object]:
    return [{"name": f"gpu-{number}", **more} for number in range(count)]


def claim_of(*devices: str, pool: str = "n1", **more: Any) -> Object:
    results = [
        {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more} for device in devices
    ]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def rule_of(effect: str, **selector: str) -> Object:
    return {"spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}}


def one(
    *slices: Object, claims: tuple[Object, ...] = (), rules: tuple[Object, ...] = (), **spec: Any
) -> Object:
    status: Object
    (status,) = pool_statuses({"driver": DRIVER, **spec}, slices, claims, rules)
    return status


def ask(cluster: Plane, name: str = "ask", **spec: Any) -> Object:
    body = {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}}
    cluster.client.create(ALPHA, REQUESTS, body)
    return answer(cluster, name)


def answer(cluster: Plane, name: str) -> Object:
    def look() -> Object | None:
        return cluster.client.get(ALPHA, REQUESTS, name).get("status")

    found = cluster.until(look, "status")
    assert found is not None
    return found


def test_request_is_answered_once(cluster: Plane) -> None:
    for pool in ("n2", "n1"):
        cluster.client.create(DRA, "resourceslices", slice_of(pool, *gpus(4)))
    status = ask(cluster)
    (condition,) = status["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "Complete",
        "status": "True",
        "reason": "CalculationComplete",
        "message": "Calculated status for 2 pools",
    }
    assert status["poolCount"] == 2
    assert status["pools"] == [
        {
            "driver": DRIVER,
            "poolName": pool,
            "generation": 1,
            "nodeName": pool,
            "resourceSliceCount": 1,
            "totalDevices": 4,
            "allocatedDevices": 0,
            "availableDevices": 4,
            "unavailableDevices": 0,
        }
        for pool in ("n1", "n2")
    ]
    cluster.client.create(DRA, "resourceslices", slice_of("n3", *gpus(4)))
    assert ask(cluster, "again")["poolCount"] == 3
    later = cluster.client.get(ALPHA, REQUESTS, "ask")["status"]
    assert (later["poolCount"], later["pools"]) == (status["poolCount"], status["pools"])


def test_limit_cuts_the_list_and_not_the_count(cluster: Plane) -> None:
    for pool in ("n2", "n1"):
        cluster.client.create(DRA, "resourceslices", slice_of(pool, *gpus(1)))
    status = ask(cluster, limit=1)
    assert status["poolCount"] == 2
    assert [pool["poolName"] for pool in status["pools"]] == ["n1"]
    assert status["conditions"][0]["message"] == "Calculated status for 1 pools"
    assert "pools" not in ask(cluster, "none", poolName="elsewhere")
    assert [pool["poolName"] for pool in ask(cluster, "two", poolName="n2")["pools"]] == ["n2"]


def test_incomplete_pool_leaves_a_request_without_status(cluster: Plane) -> None:
    cluster.client.create(DRA, "resourceslices", slice_of("n1", *gpus(1), count=2))
    cluster.client.create(ALPHA, REQUESTS, {"metadata": {"name": "early"}, "spec": {"driver": DRIVER}})
    cluster.until(lambda: any("dropped after 5 retries" in line for line in cluster.host.logs(NAME)), "log")
    assert "status" not in cluster.client.get(ALPHA, REQUESTS, "early")
    cluster.client.create(DRA, "resourceslices", slice_of("n1", *gpus(1), count=2, name="second"))
    # Nothing but a change of the request itself makes the controller look again.
    cluster.changed(ALPHA, REQUESTS, "early", lambda obj: obj["metadata"].update(labels={"a": "b"}))
    assert answer(cluster, "early")["pools"][0]["resourceSliceCount"] == 2


def test_answered_request_goes_after_an_hour_and_a_pending_one_after_a_day(cluster: Plane) -> None:
    ask(cluster)

    def swept() -> bool:
        # A round that comes before the answer is seen leaves the request to the next one.
        cluster.clock.advance(4300)
        return cluster.client.find(ALPHA, REQUESTS, "ask") is None

    cluster.until(swept, "the answered request is gone")
    day, hour, now = 86400, 3600, 1_800_000_000.0

    def request(age: float, status: Object | None) -> Object:
        made: Object = {"metadata": {"creationTimestamp": stamp(now - age)}}
        return made if status is None else {**made, "status": status}

    def done(age: float, kind: str) -> Object:
        return {"conditions": [{"type": kind, "lastTransitionTime": stamp(now - age)}]}

    assert not is_old(request(day, None), now)
    assert is_old(request(day + 1, None), now)
    assert not is_old(request(day, done(hour, "Complete")), now)
    assert is_old(request(day, done(hour + 1, "Failed")), now)
    assert is_old(request(hour + 1, {"poolCount": 0}), now)


def test_incomplete_pool_has_an_error_and_no_numbers() -> None:
    assert one(slice_of("n1", *gpus(2), count=3, generation=7)) == {
        "driver": DRIVER,
        "poolName": "n1",
        "generation": 7,
        "nodeName": "n1",
        "validationError": "PoolIncomplete: pool gpu.example.com/n1 is incomplete: observed 1/3 slices at generation 7",
    }


def test_older_generations_do_not_count() -> None:
    status = one(
        slice_of("n1", *gpus(2), name="new", generation=2),
        slice_of("n1", *gpus(5), name="old", generation=1),
    )
    assert (status["generation"], status["totalDevices"]) == (2, 2)


def test_devices_in_use_and_devices_with_taints_are_not_available() -> None:
    devices = gpus(6)
    devices[0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    devices[1]["taints"] = [{"key": "k", "effect": "None"}]
    status = one(
        slice_of("n1", *devices),
        claims=(claim_of("gpu-2", "gpu-3"), claim_of("gpu-3"), claim_of("gpu-4", adminAccess=True), {}),
        rules=(
            rule_of("NoExecute", device="gpu-5"),
            rule_of("None"),
            rule_of("NoSchedule", pool="n2"),
            {"spec": {"taint": {"key": "k", "effect": "NoExecute"}}},
        ),
    )
    numbers = ("totalDevices", "allocatedDevices", "unavailableDevices", "availableDevices")
    assert [status[name] for name in numbers] == [6, 2, 2, 2]


def test_node_is_named_when_all_slices_agree() -> None:
    first = slice_of("pool", *gpus(1), name="a", count=2, nodeName="n1")
    second = slice_of("pool", *gpus(1), name="b", count=2, nodeName="n1")
    assert one(first, second)["nodeName"] == "n1"
    second["spec"]["nodeName"] = "n2"
    assert "nodeName" not in one(first, second)
    del second["spec"]["nodeName"]
    assert "nodeName" not in one(first, second)


def partition(name: str, kind: str, memory: str) -> Object:
    return {
        "name": name,
        "attributes": {"kind": {"string": kind}},
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}}],
    }


PARTITIONS = [
    partition("whole", "Full", "40Gi"),
    partition("half-0", "Half", "20Gi"),
    partition("half-1", "Half", "20Gi"),
]
COUNTERS = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
TYPE = f"{DRIVER}/kind"


def summary(*allocatable: int) -> list[Object]:
    totals = (("Full", 1), ("Half", 2))
    return [
        {"attribute": TYPE, "type": kind, "total": total, "allocatable": left}
        for (kind, total), left in zip(totals, allocatable, strict=True)
    ]


def test_partitions_are_counted_by_type() -> None:
    pool = slice_of("n1", *PARTITIONS, sharedCounters=COUNTERS, partitionTypeAttribute=TYPE)
    assert one(pool)["partitionSummary"] == summary(1, 2)
    assert one(pool, claims=(claim_of("half-0"),))["partitionSummary"] == summary(0, 1)
    assert one(pool, claims=(claim_of("whole"),))["partitionSummary"] == summary(0, 0)


def test_type_of_the_request_is_for_pools_that_declare_none() -> None:
    pool = slice_of("n1", *PARTITIONS, sharedCounters=COUNTERS)
    assert "partitionSummary" not in one(pool)
    assert one(pool, defaultPartitionTypeAttribute=TYPE)["partitionSummary"] == summary(1, 2)
    declared = slice_of("n1", *PARTITIONS, sharedCounters=COUNTERS, partitionTypeAttribute=TYPE)
    other = one(declared, defaultPartitionTypeAttribute="example.com/other")
    assert other["partitionSummary"] == summary(1, 2)


@pytest.mark.parametrize(
    ("devices", "counters", "message"),
    [
        (
            PARTITIONS,
            [],
            (
                "PartitionTypeMissing: pool gpu.example.com/n1 declares partitionTypeAttribute but publishes no "
                "sharedCounters"
            ),
        ),
        (
            [{**PARTITIONS[0], "attributes": {"kind": {"int": 1}}}],
            COUNTERS,
            (
                'PartitionTypeMissing: device "whole" in pool gpu.example.com/n1 does not carry partition type '
                'attribute "gpu.example.com/kind"'
            ),
        ),
        (
            [PARTITIONS[0], partition("odd", "Full", "39Gi")],
            COUNTERS,
            (
                'PartitionCostMismatch: devices of partition type "Full" in pool gpu.example.com/n1 consume different '
                "counters"
            ),
        ),
        (
            [partition(f"p{number}", f"t{number}", "1Gi") for number in range(33)],
            COUNTERS,
            "PartitionSummaryOverCap: pool gpu.example.com/n1 has 33 partition types, exceeding the maximum of 32",
        ),
    ],
)
def test_partitions_that_cannot_be_summed_up(
    devices: list[Object], counters: list[Object], message: str
) -> None:
    status = one(slice_of("n1", *devices, sharedCounters=counters, partitionTypeAttribute=TYPE))
    assert status["validationError"] == message
    assert "partitionSummary" not in status
    assert status["totalDevices"] == len(devices)


def test_shareable_devices_are_added_up() -> None:
    devices = gpus(3, allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
    devices[2]["allowMultipleAllocations"] = False
    status = one(
        slice_of("n1", *devices),
        claims=(
            claim_of("gpu-0", consumedCapacity={"memory": "3Gi"}),
            claim_of("gpu-0", consumedCapacity={"memory": "512Mi"}),
        ),
    )
    assert status["shareableSummary"] == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "memory", "total": "16Gi", "consumed": "3584Mi", "available": "12800Mi"}],
    }
    assert "shareableSummary" not in one(slice_of("n1", *gpus(1)))


def test_consumed_capacity_never_makes_less_than_nothing() -> None:
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "1Gi"}}}
    status = one(slice_of("n1", device), claims=(claim_of("gone", consumedCapacity={"memory": "2Gi"}),))
    (capacity,) = status["shareableSummary"]["capacity"]
    assert capacity == {"name": "memory", "total": "1Gi", "consumed": "2Gi", "available": "0"}


def test_too_many_kinds_of_capacity() -> None:
    capacity = {f"c{number}": {"value": "1"} for number in range(33)}
    status = one(slice_of("n1", {"name": "g", "allowMultipleAllocations": True, "capacity": capacity}))
    assert status["validationError"] == (
        "ShareableSummaryOverCap: pool gpu.example.com/n1 has 33 shareable capacity keys, exceeding the maximum of 32"
    )
    assert "shareableSummary" not in status
