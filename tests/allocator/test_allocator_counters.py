"""Shared counters of partitionable devices, and compatibility groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from allocator_objects import (
    DRIVER,
    NODE,
    allocate,
    attribute,
    cel,
    claim,
    device,
    device_class,
    every,
    exact,
    in_use,
    picked,
    resource_slice,
)

from allocator import AllocatedState, AllocationError, DeviceID, NodeError, SharedDeviceID
from allocator.explain import Explainer

GROUPS = {"DRADeviceCompatibilityGroups": True}


def partition(name: str, *groups: str, counter_set: str = "card", **fields: Any) -> dict[str, Any]:
    """A device; `memory=2` takes 2 of the counter."""
    counters = {key: {"value": str(value)} for key, value in fields.items() if type(value) is int}
    rest = {key: value for key, value in fields.items() if type(value) is not int}
    consumption: dict[str, Any] = {"counterSet": counter_set, "counters": counters}
    if groups:
        consumption["compatibilityGroups"] = list(groups)
    return device(name, consumesCounters=[consumption], **rest)


def pool(devices: Sequence[dict[str, Any]], *, sets: str = "card", **counters: int) -> list[dict[str, Any]]:
    values = {key: {"value": str(value)} for key, value in counters.items()}
    shared = [{"name": name, "counters": values} for name in sets.split()]
    return [
        resource_slice("counters", count=2, allNodes=True, sharedCounters=shared),
        resource_slice("devices", devices, count=2),
    ]


def test_partitions_share_the_counters() -> None:
    slices = pool([partition(name, memory=3) for name in "abc"], memory=7)
    assert picked(allocate(slices, claim(exact(count=2)))) == [["r: pool/a", "r: pool/b"]]
    assert allocate(slices, claim(exact(count=3))) == []  # 9 of 7


def test_larger_partitions_give_way_to_those_that_fit_together() -> None:
    slices = pool(
        [partition("whole", memory=8), partition("left", memory=4), partition("right", memory=4)], memory=8
    )
    assert picked(allocate(slices, claim(exact(count=1)))) == [["r: pool/whole"]]
    assert picked(allocate(slices, claim(exact(count=2)))) == [["r: pool/left", "r: pool/right"]]


def test_allocated_devices_take_from_the_counters_whatever_node_they_are_for() -> None:
    shared = pool([], memory=4)[0]["spec"]["sharedCounters"]
    slices = [
        resource_slice("counters", count=3, allNodes=True, sharedCounters=shared),
        resource_slice("here", [partition("a", memory=2)], count=3, nodeName="worker"),
        resource_slice("there", [partition("b", memory=3)], count=3, nodeName="other"),
    ]
    assert picked(allocate(slices, claim(exact()))) == [["r: pool/a"]]
    assert allocate(slices, claim(exact()), state=in_use("b")) == []


def test_counters_for_another_node_are_found() -> None:
    shared = pool([], memory=4)[0]["spec"]["sharedCounters"]
    slices = [
        resource_slice("counters", count=2, nodeName="other", sharedCounters=shared),
        resource_slice("here", [partition("a", memory=2)], count=2, nodeName="worker"),
    ]
    assert picked(allocate(slices, claim(exact()))) == [["r: pool/a"]]


def test_an_overdrawn_counter_blocks_its_whole_pool() -> None:
    devices = [partition("a", memory=6), partition("b", memory=1, counter_set="spare"), device("plain")]
    slices = pool(devices, sets="card spare", memory=5)
    assert picked(allocate(slices, claim(exact(count=2)), state=in_use("a"))) == []
    assert picked(allocate(slices, claim(exact()), state=in_use("a"))) == [["r: pool/plain"]]


def test_counters_of_other_pools_do_not_matter() -> None:
    second = pool([partition("c", memory=4)], memory=4)
    for entry in second:
        entry["spec"]["pool"]["name"] = "second"
        entry["metadata"]["name"] += "-2"
    slices = pool([partition("a", memory=4), partition("b", memory=4)], memory=4) + second
    assert picked(allocate(slices, claim(exact(count=2)))) == [["r: pool/a", "r: second/c"]]


def test_the_first_share_of_a_device_takes_its_counters() -> None:
    shareable = partition("a", memory=3, allowMultipleAllocations=True)
    slices = pool([shareable], memory=4)
    results = allocate(slices, claim(exact("x"), exact("y"), exact("z")))
    assert picked(results) == [["x: pool/a", "y: pool/a", "z: pool/a"]]


def test_further_shares_of_an_allocated_device_take_no_counters() -> None:
    shareable = partition("a", memory=3, allowMultipleAllocations=True)
    share = SharedDeviceID(DeviceID(DRIVER, "pool", "a"), "other")
    state = AllocatedState(shares=frozenset({share}))
    slices = pool([shareable, partition("b", memory=2)], memory=4)
    assert picked(allocate(slices, claim(exact()), state=state)) == [["r: pool/a"]]
    assert allocate(slices, claim(exact(count=2)), state=state) == []  # 3 of 4 are taken, b needs 2


def test_shares_take_no_counters_from_the_stable_allocator_nor_in_its_explanations() -> None:
    gates = {"DRAConsumableCapacity": False, "DRADeviceBindingConditions": False}
    wanted, slices = claim(exact()), pool([partition("a", memory=4)], memory=4)
    state = AllocatedState(shares=frozenset([SharedDeviceID(DeviceID(DRIVER, "pool", "a"), "1")]))
    assert picked(allocate(slices, wanted, gates=gates, state=state)) == [["r: pool/a"]]
    explained = Explainer(gates, [wanted], state, {"any": device_class("any")}.get, slices).explain(NODE)
    assert [device.reason for device in explained.requests[0].devices] == ["free"]


def test_a_device_stays_shared_when_one_of_its_shares_is_given_up() -> None:
    shareable = partition("a", memory=3, allowMultipleAllocations=True, attributes={"id": attribute(1)})
    slices = pool([shareable, device("b", id=2)], memory=4)
    requests = (
        exact("x"),
        exact("y"),
        exact("z", selectors=cel('device.attributes["gpu.example.com"].id == 1')),
    )
    differing = {"requests": ["y", "z"], "distinctAttribute": "gpu.example.com/id"}
    # y gives up its share of a for z, whose share does not take the counters again (3 + 3 > 4).
    assert picked(allocate(slices, claim(*requests, constraints=[differing]))) == [
        ["x: pool/a", "y: pool/b", "z: pool/a"]
    ]


def test_what_fits_beside_one_device_may_fit_beside_another() -> None:
    # 4 + 1, 4 + 2 and 4 + 3 leave no third place in 6; 1 + 2 + 3 = 6 does.
    slices = pool(
        [partition(name, memory=size) for name, size in zip("abcd", (4, 1, 2, 3), strict=True)], memory=6
    )
    assert picked(allocate(slices, claim(exact(count=3)))) == [["r: pool/b", "r: pool/c", "r: pool/d"]]


def test_who_goes_with_one_device_may_go_with_another() -> None:
    groups = {"a": ["x"], "b": ["y"], "c": ["x", "y"], "d": ["y"]}
    slices = pool([partition(name, *names, memory=1) for name, names in groups.items()], memory=9)
    assert picked(allocate(slices, claim(exact(count=3)), gates=GROUPS)) == [
        ["r: pool/b", "r: pool/c", "r: pool/d"]
    ]


def test_admin_access_takes_from_the_counters_too() -> None:
    slices = pool([partition("a", memory=3), partition("b", memory=3)], memory=4)
    assert allocate(slices, claim(exact("x", adminAccess=True), exact("y", adminAccess=True))) == []


@pytest.mark.parametrize(
    ("devices", "sets"),
    [
        ([partition("a", memory=1, counter_set="unknown")], "card"),
        ([partition("a", unknown=1)], "card"),
        ([partition("a", memory=1)], "card card"),
    ],
)
def test_a_pool_that_contradicts_itself_is_invalid(devices: list[dict[str, Any]], sets: str) -> None:
    slices = pool([*devices, device("plain")], sets=sets, memory=4)
    with pytest.raises(NodeError, match=r"^invalid resource pools were encountered$"):
        allocate(slices, claim(exact()))
    with pytest.raises(AllocationError, match=r"is currently invalid$"):
        allocate(slices, claim(every()))


def test_devices_with_counters_are_out_of_reach_without_the_gate() -> None:
    slices = [resource_slice("s", [partition("a", memory=1), device("plain")])]
    gates = {"DRAPartitionableDevices": False}
    assert picked(allocate(slices, claim(exact()), gates=gates)) == [["r: pool/plain"]]


@pytest.mark.parametrize(
    ("groups", "together"),
    [
        ([[], []], True),
        ([["mig"], ["mig"]], True),
        ([["mig", "vgpu"], ["vgpu"]], True),
        ([["mig"], ["vgpu"]], False),
        ([["mig"], []], False),
        ([[], ["mig"]], False),
        ([["mig", "vgpu"], ["mig"], ["vgpu"]], False),
        ([["mig", "vgpu"], ["mig", "x"], ["mig"]], True),
    ],
)
@pytest.mark.parametrize("first_in_use", [False, True])
def test_devices_on_a_counter_set_need_a_group_in_common(
    groups: list[list[str]], together: bool, first_in_use: bool
) -> None:
    devices = [partition(f"d{index}", *names, memory=1) for index, names in enumerate(groups)]
    state = in_use("d0") if first_in_use else None
    count = len(groups) - first_in_use
    found = allocate(pool(devices, memory=9), claim(exact(count=count)), gates=GROUPS, state=state)
    assert bool(found) is together


def test_groups_of_different_counter_sets_do_not_meet() -> None:
    devices = [partition("a", "mig", memory=1), partition("b", "vgpu", memory=1, counter_set="second")]
    slices = pool(devices, sets="card second", memory=1)
    assert len(picked(allocate(slices, claim(exact(count=2)), gates=GROUPS))[0]) == 2


def test_groups_are_restored_when_a_device_is_given_up() -> None:
    devices = [partition("a", "x", memory=1), partition("b", "y", memory=1), partition("c", "y", memory=1)]
    slices = pool(devices, memory=9)
    assert picked(allocate(slices, claim(exact(count=2)), gates=GROUPS, node=NODE)) == [
        ["r: pool/b", "r: pool/c"]
    ]
