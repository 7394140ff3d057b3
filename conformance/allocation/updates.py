"""Drivers that come, go and are replaced, and what becomes of their slices."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.kit_driver import KitDriver
from conformance.cluster.manifests import Object, container, request, resource_slice
from conformance.model import check

_RUN = ("probe",)
_WIPE_SECONDS = 30
"""A kubelet removes slices of a driver this long after its last connection to it."""


def _pod(bench: ClusterBench, name: str, device_class: str, node: str = "") -> None:
    """A claim and a Pod of one name, whose container runs on."""
    bench.make_claim(name, request(device_class))
    bench.make_pod(
        name,
        claims={"device": name},
        containers=[container(command=_RUN, claims=["device"])],
        node=node,
    )


def _instance(bench: ClusterBench, instance: str, name: str = "") -> KitDriver:
    """A registered instance of the kit's driver with sockets of its own."""
    driver = bench.kit_driver(instance=instance, name=name)
    _wait_registered(bench, driver)
    return driver


def _wait_registered(bench: ClusterBench, driver: KitDriver, before: int = 0) -> None:
    bench.wait_until(
        lambda: driver.notified() > before,
        f"the instance at {driver.registration.name} is told that it is registered",
        seen=lambda: [call.method for call in driver.calls()],
    )


def _check_prepared_by(bench: ClusterBench, pod: str, driver: KitDriver, others: Sequence[KitDriver]) -> None:
    """The Pod runs, and this instance alone was called for its claim."""
    bench.wait_running(pod)
    wrong = [call for other in others for call in other.prepares(pod)]
    expected = f"Prepare of claim {pod} by the instance at {driver.endpoint.name} alone"
    check(bool(driver.prepares(pod)) and not wrong, expected, f"other calls: {wrong}")


def _slices(bench: ClusterBench, driver: str) -> list[Object]:
    found = [item for item in bench.all_of("ResourceSlice") if item["spec"]["driver"] == driver]
    return sorted(found, key=lambda item: str(item["metadata"]["name"]))


def _pass_time(bench: ClusterBench, seconds: float, slices: Sequence[Object], why: str) -> None:
    """Let time pass; the slices must be the same objects all the while."""
    bench.skip_ahead(seconds)
    virtual = "virtual_clock" in bench.cluster.capabilities
    bench.stays(lambda: _slices(bench, bench.driver_name) == list(slices), why, 2.0 if virtual else seconds)


@requirement("ALC-UPD-01")
def runs_when_the_driver_comes(bench: ClusterBench) -> None:
    node = bench.nodes[0]
    _pod(bench, "pod", bench.driver_class(), node.name)
    bench.wait_unschedulable("pod")
    bench.run_driver(node)
    bench.wait_running("pod")
    results = bench.devices_of("pod")
    check(len(results) == 1, "an allocation of one device", results)


@requirement("ALC-UPD-02")
def slices_of_their_node(bench: ClusterBench) -> None:
    name = bench.descriptor.name
    assert bench.device_class  # noqa: S101 - starts the driver
    before = _slices(bench, name)
    for node in bench.nodes:
        own = [item for item in before if item["spec"].get("nodeName") == node.name]
        check(bool(own), f"a slice of {name} for {node.name}", [item["metadata"]["name"] for item in before])
        uid = bench.client.get("v1", "nodes", node.name)["metadata"]["uid"]
        for item in own:
            owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid, "controller": True}
            owners = item["metadata"].get("ownerReferences") or []
            check(owner in owners, f"{node.name} as controlling owner: {owner}", owners)
            pool = item["spec"]["pool"]
            others = [
                other
                for other in own
                if other["spec"]["pool"]["name"] == pool["name"]
                and other["spec"]["pool"]["generation"] == pool["generation"]
            ]
            expected = f"{pool['resourceSliceCount']} slices of pool {pool['name']}"
            check(len(others) == pool["resourceSliceCount"], expected, len(others))
    # Nodes that other tests have for themselves lose their slices with the driver there.
    names = {node.name for node in bench.nodes}
    known = {item["metadata"]["uid"] for item in before if item["spec"].get("nodeName") in names}
    bench.stays(
        lambda: known <= {item["metadata"]["uid"] for item in _slices(bench, name)},
        "the slices stay in the cluster",
    )


@requirement("ALC-UPD-03")
def newest_instance_is_called(bench: ClusterBench) -> None:
    old = _instance(bench, "old")
    bench.publish("dev-0", "dev-1")
    device_class = bench.make_class()
    new = _instance(bench, "new")
    _pod(bench, "first", device_class)
    _check_prepared_by(bench, "first", new, [old])
    old.stop()
    _pod(bench, "second", device_class)
    _check_prepared_by(bench, "second", new, [old])


@requirement("ALC-UPD-04")
def older_instance_steps_in(bench: ClusterBench) -> None:
    old = _instance(bench, "old")
    bench.publish("dev-0", "dev-1")
    device_class = bench.make_class()
    new = _instance(bench, "new")
    _pod(bench, "first", device_class)
    _check_prepared_by(bench, "first", new, [old])
    new.stop()
    _pod(bench, "second", device_class)
    _check_prepared_by(bench, "second", old, [new])


@requirement("ALC-UPD-05")
def unreachable_instance_is_passed_over(bench: ClusterBench) -> None:
    old = _instance(bench, "old")
    bench.publish("dev-0", "dev-1")
    device_class = bench.make_class()
    new = _instance(bench, "new")
    _pod(bench, "first", device_class)
    _check_prepared_by(bench, "first", new, [old])
    # Its registration socket stays, as that of a driver whose service hangs or has crashed.
    new.stop_plugin()
    _pod(bench, "second", device_class)
    bench.wait_running("second")
    check(bool(old.prepares("second")), "Prepare of claim second by the older instance", old.calls())


@requirement("ALC-UPD-06")
def long_names(bench: ClusterBench) -> None:
    name = f"{bench.name('driver')}.with-quite-a-long-name.kit.drakit.dev"
    old = _instance(bench, "old", name)
    bench.publish("dev-0", "dev-1", driver=name)
    device_class = bench.make_class(f'device.driver == "{name}"')
    _pod(bench, "first", device_class)
    _check_prepared_by(bench, "first", old, [])
    new = _instance(bench, "new", name)
    old.stop()
    _pod(bench, "second", device_class)
    _check_prepared_by(bench, "second", new, [old])


@requirement("ALC-UPD-07")
def slices_outlive_updates(bench: ClusterBench) -> None:
    old = _instance(bench, "old")
    bench.publish("dev-0")
    slices = _slices(bench, bench.driver_name)
    new = _instance(bench, "new")
    old.stop()
    _pass_time(bench, _WIPE_SECONDS + 5, slices, "the slices stay after the older instance has ended")
    late = _instance(bench, "late")
    late.stop()
    _pass_time(bench, _WIPE_SECONDS + 5, slices, "the slices stay after the newer instance has ended")
    check(new.notified() == 1, "one registration of the instance that stayed", new.notified())


@requirement("ALC-UPD-08")
def short_and_long_absence(bench: ClusterBench) -> None:
    driver = _instance(bench, "")
    stored = bench.publish("dev-0")
    slices = _slices(bench, bench.driver_name)
    device_class = bench.make_class()
    driver.stop()
    _pass_time(bench, 20, slices, "the slices stay while their driver is away for 20 s")
    before = driver.notified()
    driver.start()
    _wait_registered(bench, driver, before)
    # The kubelet is connected again when it has called.
    _pod(bench, "pod", device_class)
    bench.wait_running("pod")
    _pass_time(bench, 20, slices, "the slices stay when their driver has come back")
    bench.delete("Pod", "pod")
    bench.wait_gone("Pod", "pod")
    driver.stop()
    # The time is counted from when the kubelet notices.
    bench.stays(lambda: _slices(bench, bench.driver_name) == slices, "the slices stay at first", 1.0)
    bench.skip_ahead(_WIPE_SECONDS + 5)
    bench.wait_gone("ResourceSlice", stored["metadata"]["name"], _WIPE_SECONDS + 15)


@requirement("ALC-UPD-09")
def owner_of_another_uid(bench: ClusterBench) -> None:
    node = bench.nodes[0]
    uid = bench.client.get("v1", "nodes", node.name)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name}
    mine, strangers = (
        resource_slice(bench.name(word), bench.driver_name, [{"name": "dev-0"}], node=node.name, pool=word)
        for word in ("mine", "strangers")
    )
    mine["metadata"]["ownerReferences"] = [{**owner, "uid": uid}]
    strangers["metadata"]["ownerReferences"] = [{**owner, "uid": str(uuid.uuid4())}]
    for item in (mine, strangers):
        bench.create(item)
    bench.wait_gone("ResourceSlice", strangers["metadata"]["name"])
    check(
        bench.find("ResourceSlice", mine["metadata"]["name"]) is not None,
        "the node's own slice stays",
        "it is gone",
    )
