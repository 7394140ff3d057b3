"""What selectors see of devices: errors, missing attributes, domains, types."""

from __future__ import annotations

from conformance.allocation.fixtures import refused, scheduled_devices, scheduled_reason
from conformance.catalogue import requirement
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import device, request
from conformance.model import check

_NO_DEVICES = "cannot allocate all claims"


@requirement("ALC-SEL-18")
def selector_errors(bench: ClusterBench) -> None:
    domain, (first, second) = bench.driver_name, bench.nodes[:2]
    bench.publish("lacks", node=first)
    bench.publish(device("has", {"x": 1}), node=second)
    expression = f'device.attributes["{domain}"].x == 1'
    bench.make_claim("claim", request(bench.make_class(), selectors=["true", expression]))
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_unschedulable(
        "pod",
        f"claim {bench.namespace}/claim: selector #1 on device {domain}/{first.name}/lacks: "
        "CEL runtime error: no such key: x. consider using CEL optional chaining",
    )
    reason = scheduled_reason(bench, "pod")
    check(reason == "SchedulerError", "reason SchedulerError", reason)
    bench.stays(
        lambda: not bench.get("Pod", "pod")["spec"].get("nodeName"), "no node, not even the one without error"
    )


@requirement("ALC-SEL-19")
def guarded_selectors(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish(
        device("lacks"),
        device("a", {"x": 1, "word": "yes"}),
        device("b", {"x": 1, "word": "yes"}),
        device("c", {"x": 1, "word": "yes"}),
    )
    attributes = f'device.attributes["{domain}"]'
    expressions = (
        f'"x" in {attributes} && {attributes}.x == 1',
        f"{attributes}.?x.orValue(0) == 1",
        f'has({attributes}.word) && {attributes}.word == "yes"',
    )
    name = bench.make_class()
    bench.make_claim(
        "claim",
        *(
            request(name, f"r{number}", selectors=[expression])
            for number, expression in enumerate(expressions)
        ),
    )
    found = scheduled_devices(bench)
    check(found == ["a", "b", "c"], "the devices with the attribute, a, b and c", found)


@requirement("ALC-SEL-20")
def unknown_domains(bench: ClusterBench) -> None:
    bench.publish(device("dev-0", {"x": 1}))
    unknown = 'device.attributes["nowhere.example.com"]'
    expressions = [f'!("x" in {unknown})', f"{unknown}.?x.orValue(7) == 7"]
    bench.make_claim("claim", request(bench.make_class(), selectors=expressions))
    found = scheduled_devices(bench)
    check(found == ["dev-0"], "dev-0, which lacks the attribute", found)


@requirement("ALC-SEL-21")
def domains_of_attributes(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish(
        device("foreign", {"other.example.com/kind": "gpu", "x": 1}),
        device("bare", {"kind": "gpu", "other.example.com/speed": 2}),
    )
    expressions = [
        f'device.attributes["{domain}"].?kind.orValue("") == "gpu"',
        'device.attributes["other.example.com"].?speed.orValue(0) == 2',
    ]
    bench.make_claim("claim", request(bench.make_class(), selectors=expressions))
    found = scheduled_devices(bench)
    check(found == ["bare"], "bare, whose kind is of the driver's domain", found)


@requirement("ALC-SEL-22")
def uncompilable_selectors(bench: ClusterBench) -> None:
    entry = request("class", selectors=['device.attributes["topo"] == "0"'])
    refused(
        bench,
        manifests.claim_spec([entry]),
        "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value:",
        "found no matching overload for '_==_' applied to '(map(string, ",
    )


@requirement("ALC-SEL-23")
def numbers_and_texts(bench: ClusterBench) -> None:
    domain = bench.driver_name
    bench.publish(device("dev-0", {"topo": 0}))
    name = bench.make_class()

    def wants(value: str) -> list[str]:
        return [f'device.attributes["{domain}"].topo == {value}']

    bench.make_claim("text", request(name, selectors=wants('"0"')))
    bench.make_pod("waits", claims={"device": "text"})
    bench.wait_unschedulable("waits", _NO_DEVICES)
    bench.make_claim("claim", request(name, selectors=wants("0")))
    found = scheduled_devices(bench)
    check(found == ["dev-0"], "dev-0 for the number", found)
