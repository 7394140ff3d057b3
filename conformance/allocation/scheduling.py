"""When and where Pods with claims are scheduled: what they wait for, what wakes them, what they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.allocation.fixtures import (
    FINALIZER,
    allocate,
    consumers,
    device_names,
    scheduled_reason,
    untouched,
)
from conformance.catalogue import requirement
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import RESOURCE_API, Object, device, request
from conformance.model import check
from dra_api.quantity import Quantity

_NO_DEVICES = "cannot allocate all claims"
_MAX_CONSUMERS = 256
_LOAD = 40
_SELECTED = 10
_WATCH_SECONDS = 20.0
_RETRY_SECONDS = 15.0
# As many requests, with as many alternatives each, as no search gets through.
_MANY, _REQUESTS, _ALTERNATIVES = 33, 20, 8
_SEARCH_SECONDS = 20.0


@requirement("ALC-SCH-01")
def missing_claim(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_pod("pod", claims={"device": "claim"})
    bench.stays(lambda: untouched(bench, "pod"), "a Pending Pod without event and condition", 1.0)
    bench.make_claim("claim", request(bench.make_class()))
    bench.wait_scheduled("pod")


@requirement("ALC-SCH-02")
def no_free_device(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    name = bench.make_class()
    for number in range(2):
        bench.make_claim(f"claim-{number}", request(name))
    bench.make_pod("first", claims={"device": "claim-0"})
    bench.wait_scheduled("first")
    bench.make_pod("second", claims={"device": "claim-1"}, node=bench.nodes[0].name)
    message = bench.wait_unschedulable("second", f"1 {_NO_DEVICES}")
    nodes = len(bench.client.list("v1", "nodes"))
    start = f"0/{nodes} nodes are available: "
    end = f" preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    check(message.startswith(start) and message.endswith(end), f'a message "{start}...{end}"', f'"{message}"')
    reason = scheduled_reason(bench, "second")
    check(reason == "Unschedulable", "reason Unschedulable of the condition", reason)
    event = bench.wait_event("FailedScheduling", f"1 {_NO_DEVICES}", "second")
    check(event.get("type") == "Warning", "an event of type Warning", event.get("type"))


@requirement("ALC-SCH-03")
def new_slice(bench: ClusterBench) -> None:
    bench.make_claim("claim", request(bench.make_class()))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable("pod", _NO_DEVICES)
    bench.publish("dev-0")
    node = bench.wait_scheduled("pod")
    check(node == bench.nodes[0].name, f"the node of the slice, {bench.nodes[0].name}", node)


@requirement("ALC-SCH-04")
def one_after_another(bench: ClusterBench) -> None:
    _, name = bench.kit_class("dev-0")
    pods = [f"pod-{number}" for number in range(5)]
    for number, pod in enumerate(pods):
        bench.make_claim(f"claim-{number}", request(name))
        container = manifests.container(command=["true"], claims=["device"])
        bench.make_pod(pod, claims={"device": f"claim-{number}"}, containers=[container])
    for pod in pods:
        # Those that came too early wait longer from one attempt to the next.
        bench.wait_phase(pod, "Succeeded", timeout=60.0)


@requirement("ALC-SCH-05")
def shared_claim(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    pods = [bench.make_pod(f"pod-{number}", claims={"device": "claim"}) for number in range(3)]
    for pod in pods:
        bench.wait_scheduled(pod["metadata"]["name"])
    expected = {pod["metadata"]["uid"] for pod in pods}
    found = consumers(bench, "claim")
    uids = {entry.get("uid") for entry in found}
    check(uids == expected and len(found) == 3, "the 3 Pods as consumers of the claim", found)
    kinds = {(entry.get("apiGroup", ""), entry["resource"]) for entry in found}
    check(kinds == {("", "pods")}, "consumers of resource pods of the core group", kinds)


@requirement("ALC-SCH-06")
def most_consumers(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    bench.make_pod("first", claims={"device": "claim"})
    bench.wait_scheduled("first")
    others = [
        {"apiGroup": "example.com", "resource": "things", "name": f"thing-{number}", "uid": f"uid-{number}"}
        for number in range(_MAX_CONSUMERS - 1)
    ]
    claim = bench.get("ResourceClaim", "claim")
    own = claim["status"]["reservedFor"]
    claim["status"]["reservedFor"] = [*own, *others]
    bench.update(claim, "status")
    bench.make_pod("second", claims={"device": "claim"})
    bench.wait_unschedulable(
        "second",
        f"add reservation to claim {bench.namespace}/claim: ResourceClaim.resource.k8s.io "
        '"claim" is invalid: status.reservedFor: Too many: 257: must have at most 256 items',
    )
    claim = bench.get("ResourceClaim", "claim")
    claim["status"]["reservedFor"] = own
    bench.update(claim, "status")
    bench.wait_scheduled("second")


@requirement("ALC-SCH-07")
def node_of_the_claim(bench: ClusterBench) -> None:
    first, second = bench.nodes[:2]
    bench.publish("one", node=first)
    bench.publish("two", node=second)
    bench.make_claim("claim", request(bench.make_class()))
    user = bench.make_pod("first", claims={"device": "claim"}, node=first.name)
    bench.wait_scheduled("first")
    bench.make_pod("second", claims={"device": "claim"}, node=second.name)
    bench.wait_unschedulable("second", "1 resourceclaim not available on the node")

    def unchanged() -> bool:
        uids = [entry["uid"] for entry in consumers(bench, "claim")]
        return device_names(bench, "claim") == ["one"] and uids == [user["metadata"]["uid"]]

    bench.stays(unchanged, "the claim stays allocated to device one and the first Pod its only consumer")
    bench.delete("Pod", "first")
    node = bench.wait_scheduled("second")
    check(node == second.name, f"node {second.name} once the claim is free", node)


@requirement("ALC-SCH-08")
def unused_allocation(bench: ClusterBench) -> None:
    first, second = bench.nodes[:2]
    bench.publish("one", node=first)
    bench.publish("two", node=second)
    bench.make_claim("claim", request(bench.make_class()))
    allocate(bench, "claim", "one", first.name)
    bench.make_pod("pod", claims={"device": "claim"}, node=second.name)
    bench.wait_event("FailedScheduling", "deallocation of ResourceClaim completed", "pod")
    bench.wait_scheduled("pod")
    found = device_names(bench, "claim")
    check(found == ["two"], "the device of the Pod's node, two", found)


@requirement("ALC-SCH-09")
def reservation_for_placed_pods(bench: ClusterBench) -> None:
    node = bench.nodes[0].name
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    placed = bench.make_pod("placed", claims={"device": "claim"}, nodeName=node)
    bench.make_pod("normal", claims={"device": "claim"})
    bench.wait_scheduled("normal")
    uid = placed["metadata"]["uid"]
    bench.wait_until(
        lambda: uid in [entry["uid"] for entry in consumers(bench, "claim")],
        "the Pod that was put onto its node is a consumer of the claim",
        seen=lambda: consumers(bench, "claim"),
    )


@requirement("ALC-SCH-10")
def no_allocation_for_placed_pods(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    bench.make_pod("placed", claims={"device": "claim"}, nodeName=bench.nodes[0].name)
    # When a later Pod has its node, the scheduler has seen the one before.
    bench.make_pod("later")
    bench.wait_scheduled("later")
    bench.stays(lambda: bench.allocation("claim") is None, "the claim is not allocated")


@requirement("ALC-SCH-11")
def placed_pods_count(bench: ClusterBench) -> None:
    node = bench.nodes[0].name
    allocatable = bench.client.get("v1", "nodes", node)["status"]["allocatable"]["cpu"]
    # Two thirds of the node: no two such Pods fit.
    large = f"{Quantity.parse(allocatable).milli_value() * 2 // 3}m"
    container = manifests.container(claims=["device"], resources={"requests": {"cpu": large}})
    bench.make_claim("claim", request(bench.name("class")))
    bench.make_pod("placed", claims={"device": "claim"}, containers=[container], nodeName=node)
    plain = manifests.container(resources={"requests": {"cpu": large}})
    bench.make_pod("victim", containers=[plain], node=node)
    bench.wait_unschedulable("victim", "1 Insufficient cpu")
    bench.delete("Pod", "placed")
    bench.wait_scheduled("victim")


@requirement("ALC-SCH-12")
def hostname_selector(bench: ClusterBench) -> None:
    nodes = bench.nodes[:2]
    for node in nodes:
        bench.attend(node)
        # Room for all Pods on either node: only the selector keeps them apart.
        bench.publish(*(f"dev-{number}" for number in range(_SELECTED)), node=node)
    name = bench.make_class()
    places: dict[str, str] = {}
    for number in range(_SELECTED):
        node = nodes[number % len(nodes)]
        hostname = bench.client.get("v1", "nodes", node.name)["metadata"]["labels"]["kubernetes.io/hostname"]
        bench.make_claim(f"claim-{number}", request(name))
        bench.make_pod(f"pod-{number}", claims={"device": f"claim-{number}"}, node=hostname)
        places[f"pod-{number}"] = node.name
    found = {pod: bench.wait_scheduled(pod) for pod in places}
    check(found == places, f"each Pod on the node it selects: {places}", found)
    for number, place in enumerate(places.values()):
        (device,) = bench.devices_of(f"claim-{number}")
        check(device.startswith(f"{place}/"), f"a device of {place}", device)


@requirement("ALC-SCH-13")
def invalid_pool(bench: ClusterBench) -> None:
    bad, good = bench.nodes[0], bench.cluster.nodes[0]
    slices = [bench.publish("same", node=bad, pool="bad", count=2) for _ in range(2)]
    bench.publish("dev-0", node=good, pool="good")
    name = bench.make_class()
    for number in range(3):
        bench.make_claim(f"claim-{number}", request(name))
    bench.make_pod("anywhere", claims={"device": "claim-0"})
    bench.wait_scheduled("anywhere")
    found = bench.devices_of("claim-0")
    check(found == ["good/dev-0"], "the device of the other node, good/dev-0", found)
    bench.make_pod("there", claims={"device": "claim-1"}, node=bad.name)
    bench.wait_unschedulable("there", "1 invalid resource pools were encountered")
    bench.make_pod("nowhere", claims={"device": "claim-2"})
    message = bench.wait_unschedulable("nowhere", "1 invalid resource pools were encountered")
    check(_NO_DEVICES in message, f'"{_NO_DEVICES}" for the other nodes', message)
    bench.delete("Pod", "nowhere")
    bench.delete("ResourceSlice", slices[1]["metadata"]["name"])
    slices[0]["spec"]["pool"] |= {"generation": 2, "resourceSliceCount": 1}
    bench.update(slices[0])
    bench.wait_scheduled("there")


@requirement("ALC-SCH-14")
def each_device_once(bench: ClusterBench) -> None:
    nodes = bench.nodes[:2]
    half = _LOAD // len(nodes)
    for node in nodes:
        bench.attend(node)
        bench.publish(*(f"dev-{number}" for number in range(half)), node=node)
    bench.make_template("template", request(bench.make_class()))
    pods = [f"pod-{number}" for number in range(_LOAD)]
    for pod in pods:
        bench.make_pod(pod, templates={"device": "template"})
    for pod in pods:
        bench.wait_scheduled(pod)
    owners: dict[str, str] = {}
    for claim in bench.all_of("ResourceClaim"):
        name = claim["metadata"]["name"]
        for entry in bench.devices_of(name):
            holder = owners.setdefault(entry, name)
            check(holder == name, f"device {entry} in one claim", f"{holder} and {name}")
    check(len(owners) == _LOAD, f"all {_LOAD} devices allocated", f"{len(owners)} allocated")


@requirement("ALC-SCH-15")
def errors_are_retried(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish(device("has", {"x": 1}), node=bench.nodes[0])
    bad = bench.publish("lacks", node=bench.nodes[1])
    expression = f'device.attributes["{domain}"].x == 1'
    bench.make_claim("claim", request(bench.make_class(), selectors=[expression]))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable("pod", "CEL runtime error")
    # That a slice goes makes no Pod schedulable that waits for devices, so nothing wakes this one.
    bench.delete("ResourceSlice", bad["metadata"]["name"])
    bench.wait_scheduled("pod", _RETRY_SECONDS)


@requirement("ALC-SCH-16")
def killed_scheduler(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1")
    name = bench.make_class()
    for number in range(3):
        bench.make_claim(f"claim-{number}", request(name))
    bench.make_pod("pod-0", claims={"device": "claim-0"})
    bench.wait_scheduled("pod-0")
    scheduler = bench.cluster.component("scheduler")
    scheduler.kill()
    try:
        bench.make_pod("pod-1", claims={"device": "claim-1"})
    finally:
        scheduler.start()
    bench.wait_scheduled("pod-1")
    found = sorted(device_names(bench, "claim-0") + device_names(bench, "claim-1"))
    check(found == ["dev-0", "dev-1"], "dev-0 and dev-1 in the two claims", found)
    bench.make_pod("pod-2", claims={"device": "claim-2"})
    bench.wait_unschedulable("pod-2", _NO_DEVICES)


@requirement("ALC-SCH-17")
def order_of_writes(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    claim = bench.make_claim("claim", request(bench.make_class()))
    bench.make_pod("pod", claims={"device": "claim"})
    states = []
    for obj in _states(bench, claim):
        status = obj.get("status") or {}
        finalizer = FINALIZER in (obj["metadata"].get("finalizers") or [])
        state = (finalizer, status.get("allocation") is not None, bool(status.get("reservedFor")))
        states.append(state)
        if any(state[1:]):
            break
    # (finalizer, allocation, consumers)
    check(
        states == [(True, False, False), (True, True, True)],
        "first the finalizer, then allocation and consumer in one write",
        [
            f"finalizer {finalizer}, allocation {allocation}, consumers {users}"
            for finalizer, allocation, users in states
        ],
    )
    bench.wait_scheduled("pod")


def _states(bench: ClusterBench, claim: Object) -> Iterator[Object]:
    """The claim after each change of it."""
    query: dict[str, Any] = {
        "resourceVersion": claim["metadata"]["resourceVersion"],
        "fieldSelector": f"metadata.name={claim['metadata']['name']}",
    }
    events = bench.client.watch(
        RESOURCE_API, "resourceclaims", bench.namespace, timeout=_WATCH_SECONDS, **query
    )
    for event in events:
        yield event["object"]


@requirement("ALC-SCH-18")
def claims_together(bench: ClusterBench) -> None:
    first, second = bench.nodes[:2]
    bench.publish("lonely", node=first)
    bench.publish("one", "two", node=second)
    name = bench.make_class()
    bench.make_claim("a", request(name))
    bench.make_claim("b", request(name))
    bench.make_pod("pod", claims={"a": "a", "b": "b"})
    node = bench.wait_scheduled("pod")
    check(node == second.name, f"the node with a device for each claim, {second.name}", node)
    found = sorted(device_names(bench, "a") + device_names(bench, "b"))
    check(found == ["one", "two"], "the devices one and two", found)


@requirement("ALC-SCH-19")
def endless_search(bench: ClusterBench) -> None:
    # Whether a scheduler proves it impossible or gives up (10 s a node by default), it has to come to an end.
    bench.publish(*(f"dev-{number:02}" for number in range(_MANY)))
    name = bench.make_class()
    choices = [{"name": f"choice-{number}", "deviceClassName": name} for number in range(_ALTERNATIVES)]
    requests: list[Object] = [
        {"name": f"r{number}", "firstAvailable": choices} for number in range(_REQUESTS)
    ]
    bench.make_claim("hopeless", *requests, request(name, "last", selectors=["false"]))
    bench.make_pod("waits", claims={"device": "hopeless"})
    text = bench.wait_unschedulable("waits", timeout=2 * _SEARCH_SECONDS)
    check(
        _NO_DEVICES in text or "timed out trying to allocate devices" in text,
        f'"{_NO_DEVICES}", or that it timed out',
        text,
    )
    bench.make_claim("claim", request(name))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_scheduled("pod", 2 * _SEARCH_SECONDS)
    check(
        bench.allocation("hopeless") is None,
        "no allocation without the last device",
        bench.allocation("hopeless"),
    )
