"""Restarts of the kubelet and of plugins."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import container, request
from conformance.model import check
from node_api import services

_RUN = ("probe",)


def _start(bench: ClusterBench, name: str, claim: str, device_class: str) -> str:
    """A claim and a Pod with it on the first node; UID of the claim."""
    uid: str = bench.make_claim(claim, request(device_class))["metadata"]["uid"]
    bench.make_pod(
        name,
        claims={"device": claim},
        containers=[container(command=_RUN, claims=["device"])],
        node=bench.nodes[0].name,
    )
    return uid


def _wait_registered(bench: ClusterBench, notified: int = 0) -> None:
    """Wait until the kit's driver was told of a registration more often than `notified` times."""
    driver = bench.drivers[0]
    bench.wait_until(
        lambda: driver.notified() > notified,
        "the plugin is told that it is registered",
        seen=lambda: [call.method for call in driver.calls()],
    )


@requirement("ALC-KUB-01")
def registers_again(bench: ClusterBench) -> None:
    driver = bench.kit_driver()
    _wait_registered(bench)
    before = driver.notified()
    bench.nodes[0].kubelet.restart()
    _wait_registered(bench, before)


@requirement("ALC-KUB-02")
def plugin_restart(bench: ClusterBench) -> None:
    driver = bench.kit_driver()
    _wait_registered(bench)
    before = driver.notified()
    driver.restart()
    _wait_registered(bench, before)


@requirement("ALC-KUB-03")
def information_comes_late(bench: ClusterBench) -> None:
    driver = bench.kit_driver(fault=lambda faults: setattr(faults, "get_info", "not now"))
    bench.wait_until(lambda: driver.calls(services.GET_INFO), "a call of GetInfo")
    check(not driver.notified(), "no registration without information", driver.calls())
    driver.faults.get_info = ""
    _wait_registered(bench)


@requirement("ALC-KUB-04")
def news_is_repeated(bench: ClusterBench) -> None:
    driver = bench.kit_driver(fault=lambda faults: setattr(faults, "notify", "not now"))
    _wait_registered(bench)
    driver.faults.notify = ""
    _wait_registered(bench, driver.notified())
    bench.publish("dev-0")
    _start(bench, "pod", "claim", bench.make_class())
    bench.wait_running("pod")


@requirement("ALC-KUB-05")
def pod_comes_while_down(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    kubelet = bench.nodes[0].kubelet
    kubelet.stop()
    try:
        _start(bench, "pod", "claim", device_class)
        bench.wait_scheduled("pod")
    finally:
        kubelet.start()
    bench.wait_running("pod")


@requirement("ALC-KUB-06")
def prepare_goes_on(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    driver.faults.prepare = "no luck"
    uid = _start(bench, "pod", "claim", device_class)
    bench.wait_until(lambda: driver.prepares(uid), "a call of Prepare")
    bench.nodes[0].kubelet.kill()
    before = len(driver.prepares(uid))
    driver.faults.prepare = ""
    bench.nodes[0].kubelet.start()
    bench.wait_running("pod")
    check(len(driver.prepares(uid)) > before, "Prepare is called again", driver.prepares(uid))


@requirement("ALC-KUB-07")
def running_pods_stay(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = _start(bench, "pod", "claim", device_class)
    bench.wait_running("pod")
    before = bench.get("Pod", "pod")["status"]["containerStatuses"][0]
    notified = driver.notified()
    bench.nodes[0].kubelet.kill()
    bench.nodes[0].kubelet.start()
    _wait_registered(bench, notified)
    # A Pod that comes afterwards shows that the new kubelet has looked at everything.
    bench.make_pod("later", containers=[container(command=_RUN)], node=bench.nodes[0].name)
    bench.wait_running("later")

    def runs_on() -> bool:
        after = bench.get("Pod", "pod")["status"]["containerStatuses"][0]
        return "running" in after["state"] and after["containerID"] == before["containerID"]

    bench.stays(runs_on, f"container {before['containerID']} runs on", 1.0)
    check(len(driver.prepares(uid)) == 1, "one Prepare", driver.prepares(uid))


@requirement("ALC-KUB-08")
def unprepares_after_restart(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = _start(bench, "pod", "claim", device_class)
    bench.wait_running("pod")
    bench.nodes[0].kubelet.kill()
    bench.nodes[0].kubelet.start()
    bench.delete("Pod", "pod")
    bench.wait_gone("Pod", "pod")
    check(len(driver.unprepares(uid)) >= 1, "Unprepare of the claim", driver.calls())
    check(uid not in driver.prepared, f"claim {uid} is unprepared", driver.prepared)


@requirement("ALC-KUB-09")
def forced_while_down(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = _start(bench, "pod", "claim", device_class)
    bench.wait_running("pod")
    kubelet = bench.nodes[0].kubelet
    kubelet.kill()
    try:
        bench.delete("Pod", "pod", force=True)
        bench.wait_gone("Pod", "pod")
    finally:
        kubelet.start()

    def unprepared() -> bool:
        # The clean-up that looks for such claims runs once a minute.
        bench.skip_ahead(5)
        return uid not in driver.prepared

    bench.wait_until(unprepared, f"claim {uid} is unprepared", 90.0, lambda: driver.calls())


@requirement("ALC-KUB-10")
def old_slices_go(bench: ClusterBench) -> None:
    own = bench.publish("dev-0")["metadata"]["name"]
    other = bench.publish("dev-0", node=bench.other_node())["metadata"]["name"]
    network = bench.publish("dev-0", allNodes=True)["metadata"]["name"]
    bench.nodes[0].kubelet.restart()
    bench.wait_gone("ResourceSlice", own)
    for name in (other, network):
        check(bench.find("ResourceSlice", name) is not None, f"slice {name} is there", "it is gone")


@requirement("ALC-KUB-11")
def driver_restart(bench: ClusterBench) -> None:
    node = bench.nodes[0]
    process = bench.run_driver(node)
    device_class = bench.driver_class()
    _start(bench, "before", "first", device_class)
    bench.wait_running("before")
    process.kill()
    process.start()
    _start(bench, "after", "second", device_class)
    bench.wait_running("after")
    bench.delete("Pod", "before")
    bench.wait_gone("Pod", "before")
