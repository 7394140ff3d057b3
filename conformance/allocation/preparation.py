"""When the kubelet prepares and unprepares claims, and what it does when that fails."""

from __future__ import annotations

from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.kit_driver import KitDriver, variable
from conformance.cluster.manifests import container, request
from conformance.model import check
from node_api import services

_FAILED = "FailedPrepareDynamicResources"
_RUN = ("probe",)


def _start(bench: ClusterBench, name: str, claim: str) -> None:
    """A Pod with one claim whose container runs on."""
    bench.make_pod(name, claims={"device": claim}, containers=[container(command=_RUN, claims=["device"])])


def _wait_prepared(bench: ClusterBench, driver: KitDriver, uid: str) -> None:
    bench.wait_until(
        lambda: uid in driver.prepared, f"claim {uid} is prepared", seen=lambda: list(driver.prepared)
    )


def _wait_unprepared(bench: ClusterBench, driver: KitDriver, uid: str) -> None:
    bench.wait_until(
        lambda: driver.unprepares(uid) and uid not in driver.prepared,
        f"claim {uid} is unprepared",
        seen=lambda: driver.calls(),
    )


@requirement("ALC-PRE-01")
def told_of_registration(bench: ClusterBench) -> None:
    driver = bench.kit_driver()
    bench.wait_until(
        driver.notified,
        "NotifyRegistrationStatus after GetInfo",
        seen=lambda: [call.method for call in driver.calls()],
    )
    check(bool(driver.calls(services.GET_INFO)), "a call of GetInfo", driver.calls())


@requirement("ALC-PRE-02")
def waits_until_prepare_works(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    driver.faults.prepare = "no luck today"
    bench.make_claim("claim", request(device_class))
    _start(bench, "pod", "claim")
    bench.wait_event(_FAILED, "NodePrepareResources failed for ResourceClaim claim: no luck today", "pod")
    seen = len(driver.prepares("claim"))
    bench.wait_until(lambda: len(driver.prepares("claim")) > seen, "Prepare is called again")
    phase = bench.get("Pod", "pod")["status"]["phase"]
    check(phase == "Pending", "the Pod is Pending", bench.describe_pod("pod"))
    driver.faults.prepare = ""
    bench.wait_running("pod")


@requirement("ALC-PRE-03")
def waits_for_the_answer(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    driver.faults.block_prepare.set()
    bench.make_claim("claim", request(device_class))
    _start(bench, "pod", "claim")
    bench.wait_until(lambda: driver.prepares("claim"), "a call of Prepare")
    bench.stays(
        lambda: bench.get("Pod", "pod")["status"]["phase"] == "Pending",
        "the Pod is Pending while Prepare has not answered",
    )
    driver.faults.block_prepare.clear()
    bench.wait_running("pod")


@requirement("ALC-PRE-04")
def refuses_an_unallocated_claim(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    bench.make_claim("claim", request(device_class))
    bench.make_pod(
        "pod",
        claims={"device": "claim"},
        containers=[container(command=_RUN, claims=["device"])],
        nodeName=bench.nodes[0].name,
    )
    bench.wait_event(_FAILED, "is not allowed to use ResourceClaim claim", "pod")
    bench.stays(
        lambda: bench.get("Pod", "pod")["status"]["phase"] == "Pending" and not driver.prepares(),
        "the Pod is Pending and nothing is prepared",
    )


@requirement("ALC-PRE-05")
def prepares_what_no_container_uses(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    stored = bench.make_claim("claim", request(device_class))
    bench.make_pod("pod", claims={"device": "claim"}, containers=[container(command=("probe",))])
    bench.wait_running("pod")
    uid = stored["metadata"]["uid"]
    check(uid in driver.prepared, f"claim {uid} is prepared", driver.prepared)
    seen = bench.observe("pod").environment
    name = variable("claim", "device")
    check(name not in seen, f"no {name} in the container", sorted(seen))


@requirement("ALC-PRE-06")
def unprepares_after_force(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = bench.make_claim("claim", request(device_class))["metadata"]["uid"]
    _start(bench, "pod", "claim")
    bench.wait_running("pod")
    bench.delete("Pod", "pod", force=True)
    _wait_unprepared(bench, driver, uid)


@requirement("ALC-PRE-07")
def old_claim_of_the_same_name(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0", "dev-1")
    old = bench.make_claim("claim", request(device_class))["metadata"]["uid"]
    _start(bench, "pod", "claim")
    bench.wait_running("pod")
    driver.faults.unprepare = "not yet"
    bench.delete("Pod", "pod", force=True)
    bench.delete("ResourceClaim", "claim")
    bench.wait_gone("ResourceClaim", "claim")
    new = bench.make_claim("claim", request(device_class))["metadata"]["uid"]
    _start(bench, "pod", "claim")
    text = f"old ResourceClaim with same name claim and different UID {old} still exists"
    bench.wait_event(_FAILED, text)
    check(not driver.prepares(new), f"no Prepare of the new claim {new}", driver.prepares(new))
    driver.faults.unprepare = ""
    bench.wait_running("pod")
    check(list(driver.prepared) == [new], f"only the new claim {new} is prepared", driver.prepared)


@requirement("ALC-PRE-08")
def unprepares_until_it_works(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = bench.make_claim("claim", request(device_class))["metadata"]["uid"]
    _start(bench, "pod", "claim")
    bench.wait_running("pod")
    driver.faults.unprepare = "still busy"
    bench.delete("Pod", "pod")
    bench.wait_until(
        lambda: len(driver.unprepares(uid)) >= 2,
        "Unprepare is called again after it failed",
        seen=lambda: driver.unprepares(uid),
    )
    check(bench.find("Pod", "pod") is not None, "the Pod is there while Unprepare fails", "it is gone")
    driver.faults.unprepare = ""
    bench.wait_gone("Pod", "pod")
    check(uid not in driver.prepared, f"claim {uid} is unprepared", driver.prepared)


@requirement("ALC-PRE-09")
def no_driver_no_call(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    _start(bench, "pod", "claim")
    bench.wait_event(_FAILED, f"DRA driver {bench.driver_name} is not registered", "pod")
    bench.delete("Pod", "pod")
    bench.wait_gone("Pod", "pod")


@requirement("ALC-PRE-10")
def no_claim_no_wait(bench: ClusterBench) -> None:
    bench.make_pod(
        "pod",
        templates={"device": "missing"},
        containers=[container(command=_RUN, claims=["device"])],
        nodeName=bench.nodes[0].name,
    )
    bench.wait_event(_FAILED, "ResourceClaim not created yet", "pod")
    bench.delete("Pod", "pod")
    try:
        bench.wait_gone("Pod", "pod", timeout=10.0)
    finally:
        bench.delete("Pod", "pod", force=True)


@requirement("ALC-PRE-11")
def waits_for_the_driver(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_claim("claim", request(bench.make_class()))
    _start(bench, "pod", "claim")
    bench.wait_event(_FAILED, f"DRA driver {bench.driver_name} is not registered", "pod")
    phase = bench.get("Pod", "pod")["status"]["phase"]
    check(phase == "Pending", "the Pod is Pending without its driver", phase)
    driver = bench.kit_driver()
    bench.wait_running("pod")
    check(bool(driver.prepares("claim")), "Prepare of the claim", driver.calls())


@requirement("ALC-PRE-12")
def shared_claim_is_prepared_once(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    uid = bench.make_claim("claim", request(device_class))["metadata"]["uid"]
    _start(bench, "first", "claim")
    bench.wait_running("first")
    _start(bench, "second", "claim")
    bench.wait_running("second")
    check(len(driver.prepares(uid)) == 1, "one Prepare for both Pods", driver.prepares(uid))
    bench.delete("Pod", "first")
    bench.wait_gone("Pod", "first")
    check(not driver.unprepares(uid), "no Unprepare while the second Pod runs", driver.unprepares(uid))
    bench.delete("Pod", "second")
    bench.wait_gone("Pod", "second")
    check(len(driver.unprepares(uid)) == 1, "one Unprepare after the last Pod", driver.unprepares(uid))


@requirement("ALC-PRE-13")
def prepared_and_new_claim(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0", "dev-1")
    shared = bench.make_claim("shared", request(device_class))["metadata"]["uid"]
    _start(bench, "first", "shared")
    bench.wait_running("first")
    own = bench.make_claim("own", request(device_class))["metadata"]["uid"]
    bench.make_pod("second", claims={"shared": "shared", "own": "own"})
    bench.wait_running("second")
    check({shared, own} <= set(driver.prepared), "both claims are prepared", driver.prepared)


@requirement("ALC-PRE-14")
def one_call_for_a_pod(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0", "dev-1", "dev-2")
    claims = [f"claim-{number}" for number in range(3)]
    for name in claims:
        bench.make_claim(name, request(device_class))
    bench.make_pod("pod", claims={name: name for name in claims})
    bench.wait_running("pod")
    calls = [[name for _, name, _ in call.claims] for call in driver.prepares()]
    check(calls == [claims], f"one Prepare with {', '.join(claims)} in the order of the Pod", calls)


@requirement("ALC-PRE-15")
def restarts_of_containers(bench: ClusterBench) -> None:
    driver, device_class = bench.kit_class("dev-0")
    bench.make_template("template", request(device_class))
    # Ends well and is started again; the log of the second life shows that it still has its device.
    bench.make_pod(
        "pod",
        templates={"device": "template"},
        containers=[container(command=("probe", "--exit", "0"), claims=["device"])],
        restart="Always",
    )
    claim = bench.generated_claim("pod", "device")

    def restarted() -> bool:
        statuses = (bench.get("Pod", "pod").get("status") or {}).get("containerStatuses") or []
        return bool(statuses) and statuses[0]["restartCount"] >= 1

    bench.wait_until(restarted, "the container is started again", seen=lambda: bench.describe_pod("pod"))
    check(bench.generated_claim("pod", "device") == claim, f"the claim stays {claim}", "another claim")
    check(len(driver.prepares()) == 1, "one Prepare", driver.prepares())
    name = variable(claim, "device")
    seen = bench.observe("pod").environment
    check(name in seen, f"{name} in the restarted container", sorted(seen))
