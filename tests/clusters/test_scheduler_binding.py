"""Between the decision and the binding: conditions of devices, competing writers, time limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from apiserver_harness import ADMIN
from scheduler_harness import CLAIMS, NAMESPACE, Bench, bench

from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.scheduler.dynamic_resources.claim_writer import ClaimWriter, WriteError
from clusters.tls import client_context

FABRIC = {"name": "gpu-0", "bindingConditions": ["Attached"], "bindingFailureConditions": ["CableOut"]}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}


@pytest.fixture
def b() -> Any:
    with bench() as running:
        running.node("n1")
        running.device_class()
        yield running


def report(b: Bench, claim: str, condition: str, **fields: str) -> None:
    """What a driver writes about the device."""
    entry = {"type": condition, "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    entry |= {"reason": "Reason", "message": "", **fields}
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "conditions": [entry]}
    answer = b.http.patch(f"{CLAIMS}/{claim}/status", {"status": {"devices": [device]}})
    assert answer.code == 200, answer.body


def allocated(b: Bench, claim: str) -> str:
    """Wait for the allocation; its time."""
    stamp = b.until(
        lambda: ((b.get_claim(claim).get("status") or {}).get("allocation") or {}).get("allocationTimestamp")
    )
    return str(stamp)


def test_a_pod_is_bound_when_its_devices_say_that_they_are_ready(b: Bench) -> None:
    b.slice("n1", FABRIC)
    b.claim("c")
    b.pod("p", "c")
    event = b.events("BindingConditionsPending", "p")[0]
    assert event["note"] == "waiting for binding conditions for device on node n1"
    assert (event["type"], event["action"]) == ("Normal", "Scheduling")
    assert "nodeName" not in b.get_pod("p")["spec"]
    assert b.get_pod("p")["status"]["nominatedNodeName"] == "n1"
    report(b, "c", "Attached")

    def later() -> bool:
        # The scheduler looks every five seconds, and may have looked before it knew of the report.
        b.clock.advance(1)
        return bool(b.get_pod("p")["spec"].get("nodeName"))

    assert b.until(later)


def test_s000_29_a_failure_takes_the_pod_back_and_then_the_allocation(b: Bench) -> None:
    b.slice("n1", FABRIC)
    b.claim("c")
    b.pod("p", "c")
    first = allocated(b, "c")
    b.events("BindingConditionsPending", "p")
    report(b, "c", "CableOut", reason="CableOut", message="no link")
    with b.http.stream(f"{CLAIMS}?watch=true&fieldSelector=metadata.name%3Dc") as stream:
        b.clock.advance(5)
        condition = b.becomes(
            "p",
            'running PreBind plugin "DynamicResources": device binding failed: claim=c, '
            'reason=CableOut, message="no link"',
        )
        assert condition["reason"] == "SchedulerError"
        # The reservation goes at once; the allocation with the next attempt, after the backoff.
        statuses = [stream.next()["object"]["status"], stream.next()["object"]["status"]]
        while "reservedFor" in statuses[-1]:
            statuses.append(stream.next()["object"]["status"])
        assert statuses[-1]["allocation"]["allocationTimestamp"] == first
        b.clock.advance(2)
        gone = stream.next()["object"]["status"]
        assert not set(gone) & {"allocation", "reservedFor", "devices"}
    text = "deallocation of ResourceClaim completed, preemption: "
    assert b.until(lambda: any(text in event["note"] for event in b.events("FailedScheduling", "p")))
    allocated(b, "c")


def test_s000_34_a_device_that_never_gets_ready_is_given_up_after_the_binding_timeout() -> None:
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "20s"}}]}],
    }
    with bench(text) as b:
        b.node("n1")
        b.device_class()
        b.slice("n1", FABRIC)
        b.claim("c")
        b.pod("p", "c")
        b.events("BindingConditionsPending", "p")
        for _ in range(5):
            b.clock.advance(5)
        message = b.refusal("p", "device binding timeout")["message"]
        assert message in (
            'running PreBind plugin "DynamicResources": device binding timeout: context deadline exceeded',
            'running PreBind plugin "DynamicResources": device binding timeout: claim=c',
        )


def test_a_limit_of_no_time_at_all_is_an_error_of_the_scheduler() -> None:
    text = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "1ns"}}]}],
    }
    with bench(text) as b:
        b.node("n1")
        b.device_class()
        b.slice("n1", "gpu-0")
        b.claim("c")
        b.pod("p", "c")
        condition = b.becomes(
            "p", 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
        )
        assert condition["reason"] == "SchedulerError"


def write(b: Bench, claim: dict[str, Any], allocation: dict[str, Any] | None, pod: dict[str, Any]) -> Any:
    """What a scheduler with this view of the claim writes, or the text of its failure."""

    async def main() -> Any:
        tls = client_context(b.server.ca_pem)
        async with ApiClient(b.server.url, tls, ADMIN, "kube-scheduler/v1.37.2") as client:
            try:
                return await ClaimWriter(client, Clock(), timestamps=True).bind(claim, allocation, pod)
            except WriteError as problem:
                return str(problem)

    return asyncio.run(main())


@pytest.mark.parametrize("finalizer", [True, False])
def test_of_two_schedulers_only_one_allocates_a_claim(finalizer: bool) -> None:
    with bench(start=False) as b:
        b.device_class()
        stale = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **b.claim("c")}
        one, two = b.pod("one", "c"), b.pod("two", "c")
        allocation = {"devices": {"results": [RESULT]}}
        if finalizer:
            stale["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        stored = write(b, stale, allocation, one)
        assert stored["status"]["reservedFor"][0]["name"] == "one"
        other = {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}
        assert write(b, stale, other, two) == "claim default/c got allocated elsewhere in the meantime"
        assert b.device_of("c") == ("n1", "gpu-0")
        # Reservations get over conflicts.
        write(b, stored, None, two)
        latest = write(b, stored, None, b.pod("three", "c"))
        names = [entry["name"] for entry in latest["status"]["reservedFor"]]
        assert names == ["one", "two", "three"]


def test_claims_that_went_away_or_lost_their_allocation_are_not_reserved() -> None:
    with bench(start=False) as b:
        b.device_class()
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **b.claim("c")}
        pod = b.pod("p", "c")
        assert write(b, claim, None, pod) == "claim default/c got deallocated elsewhere in the meantime"
        leaving = {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}}
        assert write(b, leaving, None, pod) == "claim default/c got deleted in the meantime"
        b.http.delete(f"{CLAIMS}/c")
        allocation = {"devices": {"results": [RESULT]}}
        assert write(b, claim, allocation, pod) == (
            'add finalizer to claim default/c: resourceclaims.resource.k8s.io "c" not found'
        )


def test_an_allocation_without_a_time_cannot_be_reserved(b: Bench) -> None:
    b.slice("n1", "gpu-0")
    b.claim("c")
    status = {"allocation": {"devices": {"results": [RESULT]}}}
    b.http.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    assert b.http.patch(f"{CLAIMS}/c/status", {"status": status}).code == 200
    b.pod("p", "c")
    # The first attempt may see the claim as it was before its status was written, and says so.
    message = b.refusal("p", "add reservation")["message"]
    assert message.startswith(
        'running PreBind plugin "DynamicResources": add reservation to claim default/c: ResourceClaim'
    )
    assert message.endswith("field cannot be modified once set")


def test_a_pod_that_is_deleted_while_it_is_bound_frees_its_room_at_once(b: Bench) -> None:
    b.slice("n1", FABRIC, "gpu-1")
    b.claim("c1")
    b.pod("p1", "c1", requests={"cpu": "4"})
    b.events("BindingConditionsPending", "p1")
    b.pod("p2", requests={"cpu": "4"})
    b.refusal("p2")
    b.http.delete(f"{NAMESPACE}/pods/p1", {"gracePeriodSeconds": 0})
    assert b.node_of("p2") == "n1"
