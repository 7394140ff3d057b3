"""ResourceSlices of a driver process on the embedded API server: content, repair, and every kind of failure."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from driver_world import API, World, wait_until

from fake_hw.faults import Faults

pytestmark = pytest.mark.process

WRITES = ("create", "update", "patch", "delete")
FAST = ("--resync-delay", "0.3", "--rescan-interval", "0.1")


def writes(world: World, since: float | None = None) -> list[Any]:
    return world.proxy.calls(since=since, resource="resourceslices", verbs=WRITES)


def test_a_slice_has_the_names_owner_and_pool_of_the_contract(world: World) -> None:
    world.start()
    (item,) = world.wait_published()
    node = world.admin.get("v1", "nodes", world.node)
    metadata, spec = item["metadata"], item["spec"]
    assert metadata["generateName"] == f"00000-gpu.example.com-{world.node}-"
    assert metadata["name"].startswith(metadata["generateName"])
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": world.node,
            "uid": node["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert (spec["driver"], spec["nodeName"]) == ("gpu.example.com", world.node)
    assert spec["pool"] == {"name": world.node, "generation": 1, "resourceSliceCount": 1}
    assert [device["name"] for device in spec["devices"]] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert spec["devices"][0] == {
        "name": "gpu-0",
        "attributes": {
            "architecture": {"string": "Ampere"},
            "brand": {"string": "Nvidia"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "cudaDriverVersion": {"version": "12.4.0"},
            "driverVersion": {"version": "550.90.7"},
            "pcieBusID": {"string": "0000:19:00.0"},
            "productName": {"string": "NVIDIA A100 80GB PCIe"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "resource.kubernetes.io/pciBusID": {"string": "0000:19:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:16"},
            "type": {"string": "gpu"},
            "uuid": {"string": "GPU-3f1c0a50-7d2e-4b6a-9c11-000000000000"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    }


def test_deleted_and_edited_slices_are_repaired(world: World) -> None:
    world.start(*FAST)
    (item,) = world.wait_published()
    world.admin.delete(API, "resourceslices", item["metadata"]["name"])
    (again,) = world.wait_published()
    assert again["spec"] == item["spec"]
    again["spec"]["devices"][0]["attributes"]["brand"] = {"string": "Edited"}
    again["spec"]["devices"].pop()
    world.admin.update(API, "resourceslices", again)
    wait_until(lambda: world.slices()[0]["spec"] == item["spec"], 10, "the edit to be undone")


def test_many_deletes_in_a_row_cost_few_writes(world: World) -> None:
    world.start(*FAST)
    world.wait_published()
    started, mark = time.monotonic(), world.proxy.mark()
    for _ in range(100):
        for item in world.slices():
            world.admin.delete(API, "resourceslices", item["metadata"]["name"])
    world.wait_published()
    # At most one repair in 0.3 s, each with one write.
    assert len(writes(world, mark)) <= (time.monotonic() - started) / 0.3 + 1


def test_nothing_is_written_without_a_change(world: World) -> None:
    world.start(*FAST)
    world.wait_published()
    claim = world.claim("a", "gpu-0")
    world.prepare(claim)
    before, mark = world.slices(), world.proxy.mark()
    # Ten scans and several looks at the slices pass.
    time.sleep(1.2)
    assert writes(world, mark) == []
    assert world.slices() == before


def test_hotplug_is_published_and_names_stay(world: World) -> None:
    world.start(*FAST)
    world.wait_published()
    Faults(world.hw).vanish("0000:1a:00.0")
    (item,) = world.wait_published(3)
    assert [device["name"] for device in item["spec"]["devices"]] == ["gpu-0", "gpu-2", "gpu-3"]
    Faults(world.hw).heal()
    world.wait_published(4)


def test_no_devices_are_loud_and_an_empty_slice(world: World) -> None:
    Faults(world.hw).empty()
    world.start()
    (item,) = wait_until(world.slices, 20, "a slice")
    assert item["spec"]["pool"]["resourceSliceCount"] == 1
    assert not item["spec"].get("devices")
    (warning,) = [line for line in world.log.read_text().splitlines() if "no devices found" in line]
    assert "WARNING" in warning
    assert str(world.hw) in warning


def test_bad_strings_of_the_hardware_are_accepted_by_the_server(world: World) -> None:
    faults = Faults(world.hw)
    faults.bad_text("0000:19:00.0/gpu/product_name", "too-long")
    faults.bad_text("0000:1a:00.0/gpu/product_name", "cut-utf8")
    faults.bad_text("0000:9a:00.0/gpu/product_name", "wide")
    faults.bad_text("0000:9b:00.0/gpu/product_name", "empty")
    faults.bad_text("sys/module/fakegpu/version", "not-semver")
    world.start()
    (item,) = world.wait_published()
    names = [device["attributes"].get("productName", {}).get("string") for device in item["spec"]["devices"]]
    assert [name and len(name.encode()) <= 64 for name in names] == [True, True, True, None]
    assert item["spec"]["devices"][0]["attributes"]["driverVersion"] == {"version": "6.19.14+31400000"}


@pytest.mark.parametrize("status", [409, 410, 429, 500, 503])
def test_what_may_pass_is_tried_again(world: World, status: int) -> None:
    with world.proxy.fault(resource="resourceslices", verbs=("create",), status=status, times=3) as fault:
        world.start()
        world.wait_published()
        assert fault.hits == 3
    calls = [call for call in writes(world) if call.status == status]
    gaps = [later.monotonic - earlier.monotonic for earlier, later in itertools.pairwise(calls)]
    # 429 comes with Retry-After: 1.
    assert all(gap > (1.0 if status == 429 else 0.15) for gap in gaps)


@pytest.mark.parametrize("cut", ["before", "after"])
def test_cut_connections_do_not_double_slices(world: World, cut: Any) -> None:
    with world.proxy.fault(resource="resourceslices", verbs=("create",), cut=cut, times=2):
        world.start(*FAST)
        world.wait_published()
    assert len(world.slices()) == 1


def test_a_refused_slice_is_told_once_and_written_again_when_devices_change(world: World) -> None:
    with world.proxy.fault(resource="resourceslices", verbs=("create",), status=422):
        world.start(*FAST)
        wait_until(lambda: "refuses the slices" in world.not_ready(), 20, "not ready")
        time.sleep(1.0)
        assert len(writes(world)) == 1
        errors = [line for line in world.log.read_text().splitlines() if "refuses the slices" in line]
        assert len([line for line in errors if line.split()[1] == "ERROR" and "status=422" in line]) == 1
        assert "spec:" in errors[0]
    Faults(world.hw).vanish("0000:1a:00.0")
    world.wait_published(3)
    wait_until(lambda: not world.not_ready(), 10, "ready")


def test_an_expired_watch_is_opened_again(world: World) -> None:
    world.start(*FAST)
    (item,) = world.wait_published()
    world.proxy.wait_for_call(timeout=10, resource="resourceslices", verbs=("watch",))
    assert world.proxy.expire_watches(resource="resourceslices") == 1
    mark = world.proxy.mark()
    world.proxy.wait_for_call(timeout=10, since=mark, resource="resourceslices", verbs=("watch",))
    world.admin.delete(API, "resourceslices", item["metadata"]["name"])
    world.wait_published()


def test_a_slow_server_only_delays(world: World) -> None:
    with world.proxy.fault(resource="resourceslices", delay=0.5):
        world.start()
        world.wait_published()
    assert len(writes(world)) == 1


def test_a_missing_node_is_not_ready_with_the_reason(world: World) -> None:
    world.admin.delete("v1", "nodes", world.node)
    world.start()
    wait_until(lambda: "does the Node exist" in world.not_ready(), 20, "not ready")
    world.admin.create("v1", "nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": world.node}})
    world.wait_published()


def test_a_restart_writes_nothing_when_nothing_has_changed(world: World) -> None:
    world.start()
    before = world.wait_published()
    world.kill()
    mark = world.proxy.mark()
    world.start()
    world.proxy.wait_for_call(timeout=10, since=mark, resource="resourceslices", verbs=("watch",))
    wait_until(lambda: not world.not_ready(), 10, "ready")
    assert writes(world, mark) == []
    assert world.slices() == before
