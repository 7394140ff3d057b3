"""What containers see of the claims of their Pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.allocation.fixtures import view
from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.kit_driver import variable
from conformance.cluster.manifests import container, opaque, request
from conformance.model import NotTestable, check

_OWN = ("claim_", "user_", "admin_")


def _own(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the kit's driver has put there."""
    return {key: value for key, value in environment.items() if key.startswith(_OWN)}


def _check_sees(bench: ClusterBench, pod: str, name: str, expected: Mapping[str, str]) -> None:
    seen = _own(bench.observe(pod, name).environment)
    check(seen == dict(expected), f"container {name} of {pod} sees {dict(sorted(expected.items()))}", seen)


def _claims(*pairs: tuple[str, str]) -> dict[str, str]:
    return {variable(claim, name): "true" for claim, name in pairs}


@requirement("ALC-CON-01")
def exactly_what_it_refers_to(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class(*(f"dev-{number}" for number in range(6)))
    for claim in ("first", "second"):
        bench.make_claim(claim, *(request(device_class, name) for name in ("a", "b", "c")))
    bench.make_pod(
        "pod",
        claims={"one": "first", "two": "second"},
        containers=[
            container("whole", claims=["one"]),
            container("part", claims=[("two", "b")]),
            container("mixed", claims=[("one", "a"), ("one", "c"), "two"]),
        ],
    )
    bench.wait_running("pod")
    _check_sees(bench, "pod", "whole", _claims(("first", "a"), ("first", "b"), ("first", "c")))
    _check_sees(bench, "pod", "part", _claims(("second", "b")))
    mixed = (("first", "a"), ("first", "c"), ("second", "a"), ("second", "b"), ("second", "c"))
    _check_sees(bench, "pod", "mixed", _claims(*mixed))


@requirement("ALC-CON-02")
def nothing_without_reference(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod(
        "pod",
        claims={"device": "claim"},
        containers=[container("user", claims=["device"]), container("other")],
    )
    bench.wait_running("pod")
    _check_sees(bench, "pod", "user", _claims(("claim", "device")))
    _check_sees(bench, "pod", "other", {})


@requirement("ALC-CON-03")
def class_and_claim_parameters(bench: ClusterBench) -> None:
    bench.kit_driver()
    bench.publish("dev-0")
    device_class = bench.make_class(configs=[opaque(bench.driver_name, {"from": "class"})])
    bench.make_claim("claim", request(device_class), configs=[opaque(bench.driver_name, {"from": "claim"})])
    bench.make_pod("pod", claims={"device": "claim"})
    bench.wait_running("pod")
    expected = {"admin_from": "class", "user_from": "claim", **_claims(("claim", "device"))}
    _check_sees(bench, "pod", "main", expected)


def _three(claims: Sequence[Any]) -> list[dict[str, Any]]:
    return [container(f"c{number}", claims=claims) for number in range(3)]


@requirement("ALC-CON-04")
def template_in_several_containers(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_template("template", request(device_class))
    bench.make_pod("pod", templates={"device": "template"}, containers=_three(["device"]))
    bench.wait_running("pod")
    claim = bench.generated_claim("pod", "device")
    for number in range(3):
        _check_sees(bench, "pod", f"c{number}", _claims((claim, "device")))


@requirement("ALC-CON-05")
def shared_by_pods_and_containers(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    pods = [f"pod-{number}" for number in range(3)]
    for name in pods:
        bench.make_pod(name, claims={"device": "claim"}, containers=_three(["device"]))
    bench.wait_running(*pods)
    for name in pods:
        for number in range(3):
            _check_sees(bench, name, f"c{number}", _claims(("claim", "device")))


@requirement("ALC-CON-06")
def init_container(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod(
        "pod",
        claims={"device": "claim"},
        initContainers=[container("init", ("probe", "--exit", "0"), claims=["device"])],
        containers=[container("main", ("probe",))],
    )
    bench.wait_running("pod")
    _check_sees(bench, "pod", "init", _claims(("claim", "device")))


@requirement("ALC-CON-07")
def sidecar_container(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod(
        "pod",
        claims={"device": "claim"},
        initContainers=[container("sidecar", claims=["device"], restartPolicy="Always")],
        containers=[container("main", ("probe",))],
    )
    bench.wait_running("pod")
    _check_sees(bench, "pod", "sidecar", _claims(("claim", "device")))


@requirement("ALC-CON-08")
def undefined_device(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    driver.faults.cdi_ids = [f"{bench.driver_name}/test=nobody-defined-this"]
    bench.make_claim("claim", request(device_class))
    bench.make_pod("pod", claims={"device": "claim"})

    def refused() -> str | None:
        statuses = (bench.get("Pod", "pod").get("status") or {}).get("containerStatuses") or []
        waiting = [(entry.get("state") or {}).get("waiting") or {} for entry in statuses]
        return next(
            (entry["message"] for entry in waiting if "nobody-defined-this" in entry.get("message", "")), None
        )

    bench.wait_until(
        refused,
        "the container waits with a message that names the CDI device",
        seen=lambda: bench.describe_pod("pod"),
    )


@requirement("ALC-CON-09")
def claim_that_is_not_needed(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    bench.make_template("template", request(device_class))
    bench.make_pod(
        "pod",
        templates={"device": "template"},
        containers=[container("main", ("probe",))],
        schedulingGates=[{"name": "kit.drakit.dev/wait"}],
    )
    bench.generated_claim("pod", "device")
    # What a webhook or controller does that makes claims in another way.
    found = bench.get("Pod", "pod")
    found["status"]["resourceClaimStatuses"] = [{"name": "device"}]
    bench.update(found, "status")
    found = bench.get("Pod", "pod")
    found["spec"]["schedulingGates"] = []
    bench.update(found)
    bench.wait_running("pod")
    check(not driver.prepares(), "no call of Prepare", driver.calls())


def _device_pod(bench: ClusterBench, name: str, claim: str, **fields: Any) -> None:
    bench.make_claim(claim, request(bench.device_class))
    bench.make_pod(name, claims={"device": claim}, **fields)


@requirement("ALC-CON-10")
def device_is_used_again(bench: ClusterBench) -> None:
    node = bench.nodes[0]
    bench.run_driver(node)
    everything = len(bench.published(node))
    # Whatever the devices of the node are, the second claim for all of them needs the first one's.
    for number in range(2):
        name = f"all-{number}"
        bench.make_claim(name, request(bench.driver_class(), every=True))
        bench.make_pod(name, claims={"device": name}, node=node.name)
        bench.wait_running(name, timeout=bench.descriptor.ready_seconds)
        held = len(bench.devices_of(name))
        check(held == everything, f"Pod {name} holds all {everything} devices of {node.name}", held)
        bench.delete("Pod", name)
        bench.wait_gone("Pod", name)
    warnings = [event["message"] for event in bench.events() if "Unprepare" in event.get("reason", "")]
    check(not warnings, "no event about a failed Unprepare", warnings)


@requirement("ALC-CON-11")
def parameters_are_visible(bench: ClusterBench) -> None:
    configs = bench.descriptor.configs
    if configs.visible is None:
        raise NotTestable("the descriptor has no configs.visible")
    config = opaque(bench.descriptor.name, configs.visible)
    bench.make_claim("claim", request(bench.device_class), configs=[config])
    bench.make_pod("pod", claims={"device": "claim"}, node=bench.node_with_free(1).name)
    bench.wait_running("pod")
    seen = str(bench.observe("pod").document)
    check(configs.visible_text in seen, f"{configs.visible_text} in what the container sees", seen)


@requirement("ALC-CON-12")
def different_devices(bench: ClusterBench) -> None:
    # On one node, since devices of two nodes may look the same.
    node = bench.node_with_free(2)
    for number in range(2):
        _device_pod(bench, f"pod-{number}", f"claim-{number}", node=node.name)
    bench.wait_running("pod-0", "pod-1")
    first, second = bench.devices_of("claim-0"), bench.devices_of("claim-1")
    check(first != second, "two different devices", f"{first} and {second}")
    views = [view(bench.observe(f"pod-{number}")) for number in range(2)]
    check(views[0] != views[1], "the containers see different devices", views[0])
