"""When claims are released: consumers, finalizer, allocation, deletion."""

from __future__ import annotations

from conformance.allocation.fixtures import FINALIZER, allocate, consumers, device_names, untouched
from conformance.catalogue import requirement
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import Object, request
from conformance.model import check


def _used(bench: ClusterBench, *pods: str) -> list[Object]:
    """A claim with a device that Pods use; they are only scheduled. The Pods."""
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    made = [bench.make_pod(pod, claims={"device": "claim"}) for pod in pods]
    for pod in pods:
        bench.wait_scheduled(pod)
    return made


def _runs(bench: ClusterBench, pod: str, *command: str, **parts: dict[str, str]) -> Object:
    """A Pod that runs a command with its one claim."""
    container = manifests.container(command=command, claims=["device"])
    return bench.make_pod(pod, containers=[container], **parts)


def _uids(bench: ClusterBench, claim: str = "claim") -> list[str]:
    return [str(entry["uid"]) for entry in consumers(bench, claim)]


def _state(bench: ClusterBench) -> str:
    """The claim in a few words."""
    claim = bench.find("ResourceClaim", "claim")
    if claim is None:
        return "gone"
    words = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    if FINALIZER in (claim["metadata"].get("finalizers") or []):
        words.append("with finalizer")
    if (claim.get("status") or {}).get("allocation") is not None:
        words.append("allocated")
    if consumers(bench, "claim"):
        words.append("reserved")
    return ", ".join(words) or "pending"


def _released(bench: ClusterBench) -> None:
    bench.wait_until(
        lambda: _state(bench) == "pending",
        "the claim is pending, without finalizer",
        seen=lambda: _state(bench),
    )


@requirement("ALC-REL-01")
def deleted_pod(bench: ClusterBench) -> None:
    _used(bench, "pod")
    check(_state(bench) == "with finalizer, allocated, reserved", "a claim in use", _state(bench))
    bench.delete("Pod", "pod")
    _released(bench)


@requirement("ALC-REL-02")
def completed_pod(bench: ClusterBench) -> None:
    bench.make_claim("claim", request(bench.working_class()))
    _runs(bench, "pod", "true", claims={"device": "claim"})
    bench.wait_phase("pod", "Succeeded")
    _released(bench)


@requirement("ALC-REL-03")
def claim_of_a_completed_pod(bench: ClusterBench) -> None:
    bench.make_template("template", request(bench.working_class()))
    _runs(bench, "pod", "true", templates={"device": "template"})
    claim = bench.generated_claim("pod", "device")
    bench.wait_phase("pod", "Succeeded")
    bench.wait_gone("ResourceClaim", claim)
    bench.get("Pod", "pod")


@requirement("ALC-REL-04")
def claim_of_a_deleted_pod(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_template("template", request(bench.make_class()))
    bench.make_pod("first", templates={"device": "template"})
    bench.wait_scheduled("first")
    claim = bench.generated_claim("first", "device")
    bench.make_pod("second", templates={"device": "template"})
    bench.wait_unschedulable("second", "cannot allocate all claims")
    bench.delete("Pod", "first")
    bench.wait_gone("ResourceClaim", claim)
    bench.wait_scheduled("second")


@requirement("ALC-REL-05")
def last_consumer(bench: ClusterBench) -> None:
    pods = _used(bench, "first", "second", "third")
    remaining = [pod["metadata"]["uid"] for pod in pods]
    for pod in ("first", "second"):
        bench.delete("Pod", pod)
        remaining.pop(0)
        bench.wait_until(
            lambda: set(_uids(bench)) == set(remaining),
            f"the Pods besides {pod} are the consumers",
            seen=lambda: consumers(bench, "claim"),
        )
        check(device_names(bench, "claim") == ["dev-0"], "the claim is allocated", _state(bench))
    bench.delete("Pod", "third")
    _released(bench)


@requirement("ALC-REL-06")
def completed_pod_beside_another(bench: ClusterBench) -> None:
    bench.make_claim("claim", request(bench.working_class()))
    running = _runs(bench, "runs", "probe", claims={"device": "claim"})
    bench.wait_running("runs")
    _runs(bench, "ends", "true", claims={"device": "claim"})
    bench.wait_phase("ends", "Succeeded")
    uid = running["metadata"]["uid"]
    bench.wait_until(
        lambda: _uids(bench) == [uid],
        "the running Pod is the only consumer",
        seen=lambda: consumers(bench, "claim"),
    )
    version = bench.get("ResourceClaim", "claim")["metadata"]["resourceVersion"]
    # A change of the Pod makes the controller look at it.
    bench.patch("Pod", "ends", {"metadata": {"labels": {"touched": "yes"}}})
    bench.stays(
        lambda: bench.get("ResourceClaim", "claim")["metadata"]["resourceVersion"] == version,
        "nobody writes the claim, whose only consumer is the running Pod",
    )


@requirement("ALC-REL-07")
def deleted_while_the_controller_was_down(bench: ClusterBench) -> None:
    _used(bench, "pod")
    controllers = bench.cluster.component("controller-manager")
    controllers.kill()
    try:
        bench.delete("ResourceClaim", "claim")
        bench.delete("Pod", "pod", force=True)
        bench.wait_gone("Pod", "pod")
        state = _state(bench)
    finally:
        controllers.start()
    expected = "deleted, with finalizer, allocated, reserved"
    check(state == expected, f"without controller the claim is {expected}", state)
    bench.wait_gone("ResourceClaim", "claim")


@requirement("ALC-REL-08")
def foreign_consumers(bench: ClusterBench) -> None:
    _used(bench, "pod")
    claim = bench.get("ResourceClaim", "claim")
    stranger = {"apiGroup": "example.com", "resource": "things", "name": "thing", "uid": "uid-of-thing"}
    # Before the Pod, so that whoever stops at it does not come to the Pod.
    claim["status"]["reservedFor"] = [stranger, *claim["status"]["reservedFor"]]
    bench.update(claim, "status")
    bench.delete("Pod", "pod")
    bench.wait_until(
        lambda: _uids(bench) == ["uid-of-thing"],
        "the consumer that is no Pod is the only one left",
        seen=lambda: consumers(bench, "claim"),
    )
    bench.stays(
        lambda: _uids(bench) == ["uid-of-thing"] and device_names(bench, "claim") == ["dev-0"],
        "the claim stays allocated, its consumer is the one that is no Pod",
    )


@requirement("ALC-REL-09")
def deleted_in_use(bench: ClusterBench) -> None:
    _used(bench, "first", "second")
    bench.delete("ResourceClaim", "claim")
    bench.delete("Pod", "first")
    bench.wait_gone("Pod", "first")
    expected = "deleted, with finalizer, allocated, reserved"
    bench.stays(lambda: _state(bench) == expected, f"while a Pod uses it, the claim is {expected}")
    bench.delete("Pod", "second")
    bench.wait_gone("ResourceClaim", "claim")


@requirement("ALC-REL-10")
def deleted_claim_and_new_pods(bench: ClusterBench) -> None:
    _used(bench, "first")
    spec = bench.get("ResourceClaim", "claim")["spec"]
    bench.delete("ResourceClaim", "claim")
    bench.make_pod("second", claims={"device": "claim"})
    bench.stays(
        lambda: untouched(bench, "second"),
        "the second Pod waits, without event and condition, for the claim that is being deleted",
    )
    bench.delete("Pod", "first")
    bench.wait_gone("ResourceClaim", "claim")
    bench.create(manifests.claim("claim", spec))
    bench.wait_scheduled("second")


@requirement("ALC-REL-11")
def unprepare_first(bench: ClusterBench) -> None:
    driver, name = bench.kit_class("dev-0")
    bench.make_claim("claim", request(name))
    _runs(bench, "pod", "probe", claims={"device": "claim"})
    bench.wait_running("pod")
    driver.faults.block_unprepare.set()
    bench.delete("Pod", "pod")
    bench.wait_until(lambda: driver.unprepares("claim"), "the driver is asked to unprepare the claim")
    bench.stays(lambda: "reserved" in _state(bench), "the claim is reserved while the driver unprepares")
    driver.faults.block_unprepare.clear()
    _released(bench)


@requirement("ALC-REL-12")
def wrong_consumers(bench: ClusterBench) -> None:
    (pod,) = _used(bench, "pod")
    claim = bench.get("ResourceClaim", "claim")
    wrong = [
        {"resource": "pods", "name": name, "uid": uid}
        for name, uid in (("pod", "uid-of-an-earlier-pod"), ("nobody", "uid-of-nobody"))
    ]
    claim["status"]["reservedFor"] = [*wrong, *claim["status"]["reservedFor"]]
    bench.update(claim, "status")
    bench.wait_until(
        lambda: _uids(bench) == [pod["metadata"]["uid"]],
        "the Pod is the only consumer",
        seen=lambda: consumers(bench, "claim"),
    )
    check(device_names(bench, "claim") == ["dev-0"], "the claim is allocated", _state(bench))


@requirement("ALC-REL-13")
def never_reserved(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    allocate(bench, "claim", "dev-0", bench.nodes[0].name)
    bench.patch("ResourceClaim", "claim", {"metadata": {"labels": {"touched": "yes"}}})
    expected = "with finalizer, allocated"
    bench.stays(lambda: _state(bench) == expected, f"the claim stays {expected}")
