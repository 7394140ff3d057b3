"""Which devices a claim gets: classes, selectors, order, modes, constraints and configurations."""

from __future__ import annotations

from conformance.allocation.fixtures import await_slices, refused, scheduled_devices
from conformance.catalogue import requirement
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import Object, device, opaque, request
from conformance.model import NotTestable, check

_NO_DEVICES = "cannot allocate all claims"
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def _results(bench: ClusterBench, claim: str) -> list[Object]:
    allocation = bench.allocation(claim) or {}
    return (allocation.get("devices") or {}).get("results") or []


@requirement("ALC-SEL-01")
def missing_class(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    name = bench.name("class")
    bench.make_claim("claim", request(name, "gpu"))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable("pod", f"request gpu: device class {name} does not exist")
    bench.make_class()
    bench.wait_scheduled("pod")


@requirement("ALC-SEL-02")
def changed_class(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    name = bench.make_class("false")
    bench.make_claim("claim", request(name))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable("pod", _NO_DEVICES)
    expression = f'device.driver == "{bench.driver_name}"'
    bench.patch("DeviceClass", name, {"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    bench.wait_scheduled("pod")


@requirement("ALC-SEL-03")
def class_named_like_a_driver(bench: ClusterBench) -> None:
    other = f"other.{bench.driver_name}"
    bench.publish("dev-0")
    bench.publish("dev-1", driver=other)
    bench.create(manifests.device_class(bench.driver_name, [f'device.driver == "{other}"']))
    bench.make_claim("claim", request(bench.driver_name))
    found = scheduled_devices(bench)
    check(found == ["dev-1"], "the device that the class selects, dev-1", found)


@requirement("ALC-SEL-04")
def class_without_selectors(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    name = bench.name("everything")
    bench.create(manifests.device_class(name))
    bench.make_claim("claim", request(name, selectors=[f'device.driver == "{bench.driver_name}"']))
    found = scheduled_devices(bench)
    check(found == ["dev-0"], "dev-0 from the class of all devices", found)


@requirement("ALC-SEL-05")
def all_selectors(bench: ClusterBench) -> None:
    domain = bench.driver_name
    # Each device but the last fails one of the four selectors.
    flags = ("x", "y", "a", "b")
    devices = [device(f"no-{flag}", {other: other != flag for other in flags}) for flag in flags]
    bench.publish(*devices, device("right", dict.fromkeys(flags, True)))

    def wants(flag: str) -> str:
        return f'device.attributes["{domain}"].{flag}'

    name = bench.make_class(f'device.driver == "{domain}" && {wants("x")}', wants("y"))
    bench.make_claim("claim", request(name, selectors=[wants("a"), wants("b")]))
    found = scheduled_devices(bench)
    check(found == ["right"], "the device that satisfies all selectors, right", found)


@requirement("ALC-SEL-06")
def order_of_pools(bench: ClusterBench) -> None:
    # Neither the order of creation nor the names of slices and devices help.
    bench.publish("a-1", name=bench.name("a-slice"), pool="b-pool")
    bench.publish("c-1", name=bench.name("b-slice"), pool="c-pool")
    bench.publish("z-1", name=bench.name("z-slice"), pool="a-pool")
    await_slices(bench)
    name = bench.make_class()
    bench.make_claim("claim", *(request(name, f"r{number}") for number in range(3)))
    scheduled_devices(bench)
    found = bench.devices_of("claim")
    check(found == ["a-pool/z-1", "b-pool/a-1", "c-pool/c-1"], "a-pool, b-pool, c-pool", found)


@requirement("ALC-SEL-07")
def order_of_slices(bench: ClusterBench) -> None:
    bench.publish("a-1", name=bench.name("b-slice"), pool="pool", count=3)
    bench.publish("b-1", name=bench.name("c-slice"), pool="pool", count=3)
    bench.publish("z-1", name=bench.name("a-slice"), pool="pool", count=3)
    name = bench.make_class()
    bench.make_claim("claim", *(request(name, f"r{number}") for number in range(3)))
    found = scheduled_devices(bench)
    check(found == ["z-1", "a-1", "b-1"], "z-1 of a-slice, a-1 of b-slice, b-1 of c-slice", found)


@requirement("ALC-SEL-08")
def order_of_devices(bench: ClusterBench) -> None:
    bench.publish("dev-2", "dev-0", "dev-1")
    bench.make_claim("claim", request(bench.make_class(), count=2))
    found = scheduled_devices(bench)
    check(found == ["dev-2", "dev-0"], "the first two of the slice, dev-2 and dev-0", found)


@requirement("ALC-SEL-09")
def exact_count(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1", "dev-2")
    name = bench.make_class()
    bench.make_claim("many", request(name, count=4))
    bench.make_pod("waits", claims={"device": "many"})
    bench.wait_unschedulable("waits", _NO_DEVICES)
    check(bench.allocation("many") is None, "no allocation of 4 of 3 devices", bench.allocation("many"))
    bench.make_claim("claim", request(name, count=2))
    found = scheduled_devices(bench)
    check(len(found) == len(set(found)) == 2, "two different devices", found)


@requirement("ALC-SEL-10")
def all_of_the_node(bench: ClusterBench) -> None:
    first, second = bench.nodes[:2]
    bench.publish("a-0", "a-1", node=first, pool="shared", count=2)
    bench.publish("b-0", node=second, pool="shared", count=2)
    bench.make_claim("claim", request(bench.make_class(), every=True))
    found = scheduled_devices(bench, node=first.name)
    check(sorted(found) == ["a-0", "a-1"], "exactly the devices of the node, a-0 and a-1", found)


@requirement("ALC-SEL-11")
def all_of_nothing(bench: ClusterBench) -> None:
    here, other = bench.nodes[:2]
    bench.publish("dev-0", node=other)
    name = bench.make_class()
    bench.make_claim("nothing", request(name, every=True))
    bench.make_pod("waits", claims={"device": "nothing"}, node=here.name)
    bench.wait_unschedulable("waits", f"1 {_NO_DEVICES}")
    bench.make_claim("claim", request(name, every=True))
    found = scheduled_devices(bench, node=other.name)
    check(found == ["dev-0"], "dev-0 on the node that has it", found)


@requirement("ALC-SEL-12")
def all_with_one_in_use(bench: ClusterBench) -> None:
    node = bench.nodes[0].name
    bench.publish("dev-0", "dev-1")
    name = bench.make_class()
    bench.make_claim("claim", request(name))
    scheduled_devices(bench)
    bench.make_claim("all", request(name, every=True))
    bench.make_pod("waits", claims={"device": "all"}, node=node)
    bench.wait_unschedulable("waits", f"1 {_NO_DEVICES}")
    bench.delete("Pod", "pod")
    bench.wait_scheduled("waits")
    found = bench.devices_of("all")
    check(len(found) == 2, "both devices when the other claim has let go", found)


@requirement("ALC-SEL-13")
def all_of_an_incomplete_pool(bench: ClusterBench) -> None:
    node = bench.nodes[0].name
    bench.publish("dev-0", pool="pool", count=2)
    bench.make_claim("claim", request(bench.make_class(), "gpus", every=True))
    bench.make_pod("pod", claims={"device": "claim"}, node=node)
    bench.wait_unschedulable(
        "pod",
        f"claim {bench.namespace}/claim, request gpus: asks for all devices, but resource pool "
        f"{bench.driver_name}/pool is currently being updated",
    )
    bench.publish("dev-1", pool="pool", count=2)
    bench.wait_scheduled("pod")
    found = bench.devices_of("claim")
    check(sorted(found) == ["pool/dev-0", "pool/dev-1"], "both devices of the complete pool", found)


@requirement("ALC-SEL-14")
def match_attribute(bench: ClusterBench) -> None:
    bench.publish(
        device("bare"),
        device("left", {"topology": 0}),
        device("right-0", {"topology": 1}),
        device("right-1", {"topology": 1}),
    )
    name = bench.make_class()
    constraint = {"matchAttribute": f"{bench.driver_name}/topology"}
    bench.make_claim("claim", request(name, "one"), request(name, "two"), constraints=[constraint])
    found = scheduled_devices(bench)
    check(found == ["right-0", "right-1"], "the two devices of equal topology", found)


@requirement("ALC-SEL-15")
def results_by_request(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish(device("small", {"size": "small"}), device("large", {"size": "large"}))
    name = bench.make_class()

    def wants(size: str) -> list[str]:
        return [f'device.attributes["{domain}"].size == "{size}"']

    bench.make_claim(
        "claim",
        request(name, "primary", selectors=wants("large")),
        request(name, "secondary", selectors=wants("small")),
    )
    # The Pod's own name of the claim has nothing to do with the names of the requests.
    scheduled_devices(bench, claims={"accelerator": "claim"})
    found = {entry["request"]: entry["device"] for entry in _results(bench, "claim")}
    expected = {"primary": "large", "secondary": "small"}
    check(found == expected, f"the devices {expected}", found)
    drivers = {entry["driver"] for entry in _results(bench, "claim")}
    check(drivers == {domain}, f"driver {domain} in the results", drivers)


@requirement("ALC-SEL-16")
def configurations(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish("dev-0")
    of_class = opaque(domain, {"anything": {"goes": [1, 2, None]}})
    of_claim = opaque("another.example.com", {"b": "2", "a": True})
    name = bench.make_class(configs=[of_class])
    bench.make_claim("claim", request(name), configs=[of_claim])
    scheduled_devices(bench)
    found = (bench.allocation("claim") or {})["devices"].get("config") or []
    # Kubernetes before 1.37 names the requests of a class' configuration also where all requests use the class.
    if found and found[0].get("requests") == ["device"]:
        found[0].pop("requests")
    expected = [
        {"source": "FromClass", "opaque": of_class["opaque"]},
        {"source": "FromClaim", "opaque": of_claim["opaque"]},
    ]
    check(found == expected, f"the configurations {expected}", found)


@requirement("ALC-SEL-17")
def class_configurations_by_request(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish("dev-0", "dev-1")
    select = f'device.driver == "{domain}"'
    one = bench.make_class(select, name="one", configs=[opaque(domain, {"class": "one"})])
    two = bench.make_class(select, name="two", configs=[opaque(domain, {"class": "two"})])
    bench.make_claim("claim", request(one, "request0"), request(two, "request1"))
    scheduled_devices(bench)
    config = (bench.allocation("claim") or {})["devices"].get("config") or []
    found = {
        entry["opaque"]["parameters"]["class"]: entry.get("requests")
        for entry in config
        if entry["source"] == "FromClass"
    }
    expected = {"one": ["request0"], "two": ["request1"]}
    check(found == expected, f"requests by class {expected}", found)


@requirement("ALC-SEL-24")
def request_without_class(bench: ClusterBench) -> None:
    spec = manifests.claim_spec([{"name": "gpu", "exactly": {"count": 1}}])
    refused(bench, spec, "spec.devices.requests[0].exactly.deviceClassName: Required value")


@requirement("ALC-SEL-25")
def disabled_fields(bench: ClusterBench) -> None:
    # Before Kubernetes 1.37 the field does not exist at all.
    stored = bench.publish("dev-0", skipNodeOperations=["*"])
    kept = "skipNodeOperations" in stored["spec"]
    if kept and bench.gate("DRAOptionalNodeOperations") is not False:
        raise NotTestable("feature gate DRAOptionalNodeOperations is on, or may be")
    check(
        "skipNodeOperations" not in stored["spec"],
        "a slice without the field of the disabled gate DRAOptionalNodeOperations",
        stored["spec"],
    )
    bench.make_claim("claim", request(bench.make_class()))
    found = scheduled_devices(bench)
    check(found == ["dev-0"], "the device of the slice, dev-0", found)


@requirement("ALC-SEL-26")
def node_of_the_allocation(bench: ClusterBench) -> None:
    node = bench.nodes[0].name
    bench.publish(device("local", {"local": True}))
    bench.publish(device("network", {"local": False}), allNodes=True, pool="network")
    name, where = bench.make_class(), f'device.attributes["{bench.driver_name}"].local'
    bench.make_claim("local", request(name, selectors=[where]))
    bench.make_claim("network", request(name, selectors=[f"!{where}"]))
    scheduled_devices(bench, claims={"one": "local", "two": "network"})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    expected = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    found = (bench.allocation("local") or {}).get("nodeSelector")
    check(found == expected, f"the node selector {expected} for the node's device", found)
    found = (bench.allocation("network") or {}).get("nodeSelector")
    check(found is None, "no node selector for the device of all nodes", found)


@requirement("ALC-SEL-27")
def admin_access(bench: ClusterBench) -> None:
    bench.patch("Namespace", bench.namespace, {"metadata": {"labels": {_ADMIN_LABEL: "true"}}})
    node = bench.nodes[0].name
    bench.publish("dev-0", "dev-1")
    name = bench.make_class()
    bench.make_claim("claim", request(name, count=2))
    scheduled_devices(bench)
    bench.make_claim("admin", request(name, every=True, admin_access=True))
    found = scheduled_devices(bench, "monitor", claims={"device": "admin"}, node=node)
    check(sorted(found) == ["dev-0", "dev-1"], "both devices, which are in use", found)
    flags = [entry.get("adminAccess") for entry in _results(bench, "admin")]
    check(flags == [True, True], "adminAccess: true in the results", flags)
    bench.make_claim("third", request(name))
    bench.make_pod("waits", claims={"device": "third"}, node=node)
    bench.wait_unschedulable("waits", f"1 {_NO_DEVICES}")
    bench.delete("Pod", "pod")
    bench.wait_scheduled("waits")
