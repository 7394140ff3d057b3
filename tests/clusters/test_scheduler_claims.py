"""Pods with claims: allocation, reservation, waiting and errors."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_harness import CLAIMS, DRA, NAMESPACE, Bench, bench

from clusters.proxies.api_proxy import ApiProxy

FINALIZER = "resource.kubernetes.io/delete-protection"
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


@pytest.fixture
def b() -> Any:
    with bench() as running:
        running.node("n1")
        yield running


def test_a_claim_is_protected_allocated_and_reserved_before_its_pod_is_bound(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0")
    claim = b.claim("c")
    version = claim["metadata"]["resourceVersion"]
    with b.http.stream(f"{CLAIMS}?watch=true&resourceVersion={version}") as stream:
        pod = b.pod("p", "c")
        assert b.node_of("p") == "n1"
        first, second = stream.next()["object"], stream.next()["object"]
    assert first["metadata"]["finalizers"] == [FINALIZER]
    assert "allocation" not in first["status"]
    status = second["status"]
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    assert status["allocation"]["devices"]["results"] == [result]
    assert status["allocation"]["allocationTimestamp"]
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    assert not b.get_pod("p")["status"].get("nominatedNodeName")


def test_sn_4_a_pod_waits_for_its_class(b: Bench) -> None:
    b.slice("n1", "gpu-0")
    b.claim("c", device_class="late")
    b.pod("p", "c")
    b.becomes(
        "p",
        "0/1 nodes are available: request r: device class late does not exist. " + NOT_HELPFUL,
    )
    b.device_class("late")
    assert b.node_of("p") == "n1"


def test_sn_5_a_class_that_selects_nothing_unblocks_when_it_changes(b: Bench) -> None:
    b.device_class(expression="false")
    b.slice("n1", "gpu-0")
    b.claim("c")
    b.pod("p", "c")
    b.becomes("p", "0/1 nodes are available: 1 cannot allocate all claims. " + NOT_HELPFUL)
    b.http.patch(f"{DRA}/deviceclasses/gpu", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}})
    assert b.node_of("p") == "n1"


def test_a_slice_unblocks_a_pod(b: Bench) -> None:
    b.device_class()
    b.claim("c")
    b.pod("p", "c")
    b.refusal("p")
    b.slice("n1", "gpu-0")
    assert b.node_of("p") == "n1"


def test_int_9_pools_with_a_device_twice_are_invalid_on_their_node_only(b: Bench) -> None:
    b.device_class()
    for node in ("n2", "n3"):
        b.node(node)
    b.slice("n1", "gpu-0", name="s1", slices=2)
    b.slice("n1", "gpu-0", name="s2", slices=2)
    b.claim("c1")
    b.pod("p1", "c1")
    b.becomes(
        "p1",
        "0/3 nodes are available: 1 invalid resource pools were encountered, 2 cannot allocate all claims. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
    )
    b.slice("n2", "gpu-0")
    assert b.node_of("p1") == "n2"


def test_s000_10_pools_and_slices_go_by_name_devices_by_their_order(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "dev-z", name="z-slice", pool="a-pool")
    b.slice("n1", "dev-a2", name="b-slice", pool="b-pool", slices=2)
    b.slice("n1", "dev-b1", name="a-slice", pool="b-pool", slices=2)
    for number in (1, 2, 3):
        b.claim(f"c{number}")
        b.pod(f"p{number}", f"c{number}")
        b.node_of(f"p{number}")
    assert [b.device_of(f"c{number}") for number in (1, 2, 3)] == [
        ("a-pool", "dev-z"),
        ("b-pool", "dev-b1"),
        ("b-pool", "dev-a2"),
    ]


def test_s001_21_an_unknown_attribute_is_an_error_of_the_scheduler(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0", pool="gpu-pool")
    expression = 'device.attributes["gpu.example.com"].nosuch == 0'
    b.claim("wrongkey", selectors=[{"cel": {"expression": expression}}])
    b.pod("p", "wrongkey")
    condition = b.becomes(
        "p",
        'running "DynamicResources" filter plugin: claim default/wrongkey: selector #0 on device '
        "gpu.example.com/gpu-pool/gpu-0: CEL runtime error: no such key: nosuch. consider using CEL optional "
        "chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
    )
    assert condition["reason"] == "SchedulerError"
    b.until(lambda: condition["message"] in [event["note"] for event in b.refusals("p")])


def test_a_pod_without_its_claim_waits_in_silence_and_runs_when_it_comes(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0", "gpu-1")
    b.pod("p", "late")
    b.claim("other")
    b.pod("q", "other")
    assert b.node_of("q") == "n1"
    assert b.get_pod("p")["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    b.claim("late")
    assert b.node_of("p") == "n1"


def test_a_pod_gets_the_device_that_a_deleted_claim_held(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0")
    b.claim("c1")
    b.pod("p1", "c1")
    b.node_of("p1")
    b.claim("c2")
    b.pod("p2", "c2")
    b.becomes("p2", "0/1 nodes are available: 1 cannot allocate all claims. " + NOT_HELPFUL)
    # What the claim controller does once the pod is gone.
    b.http.patch(f"{CLAIMS}/c1/status", {"status": {"allocation": None, "reservedFor": None}})
    assert b.node_of("p2") == "n1"
    assert b.device_of("c2") == ("n1", "gpu-0")


def test_int_27_the_257th_pod_of_a_claim_waits_until_a_place_is_free(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0")
    b.claim("shared")
    b.pod("first", "shared")
    b.node_of("first")
    taken = b.get_claim("shared")["status"]["reservedFor"]
    others = [{"resource": "pods", "name": f"x{n}", "uid": f"u{n}"} for n in range(255)]
    body = {"status": {"reservedFor": taken + others}}
    assert b.http.patch(f"{CLAIMS}/shared/status", body).code == 200
    b.pod("late", "shared")
    condition = b.refusal("late", "add reservation")
    assert condition["reason"] == "SchedulerError"
    assert condition["message"].startswith(
        'running PreBind plugin "DynamicResources": add reservation to claim default/shared: '
    )
    assert "Too many: 257: must have at most 256 items" in condition["message"]
    b.http.patch(f"{CLAIMS}/shared/status", {"status": {"reservedFor": taken}})
    b.clock.advance(20)
    assert b.node_of("late") == "n1"
    assert [entry["name"] for entry in b.get_claim("shared")["status"]["reservedFor"]] == ["first", "late"]


def test_a_claim_that_is_stuck_on_another_node_is_deallocated(b: Bench) -> None:
    b.device_class()
    b.node("n2")
    b.slice("n1", "gpu-0")
    b.slice("n2", "gpu-0")
    b.claim("c")
    b.pod("p1", "c", nodeSelector={"kubernetes.io/hostname": "none"})
    b.refusal("p1")
    b.http.delete(f"{NAMESPACE}/pods/p1", {"gracePeriodSeconds": 0})
    for name in ("n1", "n2"):
        b.http.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"name": name}}})
    b.pod("first", "c", nodeSelector={"name": "n1"})
    b.node_of("first")
    b.http.patch(f"{CLAIMS}/c/status", {"status": {"reservedFor": None}})
    with b.http.stream("/apis/events.k8s.io/v1/namespaces/default/events?watch=true") as stream:
        b.pod("second", "c", nodeSelector={"name": "n2"})
        assert b.node_of("second") == "n2"
        notes = []
        while not notes or "deallocation" not in notes[-1]:
            notes.append(stream.next()["object"].get("note") or "")
    assert notes[-1] == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not "
        "available on the node. deallocation of ResourceClaim completed, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    assert b.device_of("c") == ("n2", "gpu-0")


def test_a_half_bound_claim_is_picked_up_by_the_next_scheduler() -> None:
    with bench(start=False) as b:
        b.node("n1")
        b.device_class()
        b.slice("n1", "gpu-0", "gpu-1")
        # Killed after the finalizer was added.
        b.claim("c1")
        b.http.patch(f"{CLAIMS}/c1", {"metadata": {"finalizers": [FINALIZER]}})
        b.pod("p1", "c1")
        # Killed after allocation and reservation were written, before the pod was bound.
        b.claim("c2")
        pod = b.pod("p2", "c2")
        reserve(b, "c2", pod)
        b.add_scheduler()
        assert b.node_of("p1") == "n1"
        assert b.node_of("p2") == "n1"
        assert b.device_of("c1") == ("n1", "gpu-1")
        assert [entry["name"] for entry in b.get_claim("c2")["status"]["reservedFor"]] == ["p2"]


def test_a_scheduler_whose_watch_lags_binds_a_pod_though_it_has_taken_its_reservation_back() -> None:
    """As upstream: Unreserve does not tell the assume cache, and PreBind leaves out what is reserved there."""
    with bench(start=False) as b, ApiProxy(b.server.url, b.server.ca_pem) as proxy:
        b.node("n1")
        b.device_class()
        b.slice("n1", "gpu-0")
        b.claim("c")
        b.add_scheduler(through=proxy)
        proxy.wait_for_call(verbs=["watch"], resource="resourceclaims", timeout=20)
        claims = {"resource": "resourceclaims", "verbs": ["watch"]}
        with (
            proxy.fault(resource="pods", subresource="binding", status=503, times=1),
            proxy.fault(**claims, delay=60),
            proxy.fault(**claims, watch="cut"),
        ):
            b.pod("p", "c")
            proxy.wait_for_call(verbs=["patch"], resource="resourceclaims", timeout=20)
            b.until(lambda: b.clock.advance(1) or b.get_pod("p")["spec"].get("nodeName"))
        assert "reservedFor" not in b.get_claim("c")["status"]
        assert b.device_of("c") == ("n1", "gpu-0")


def test_taints_of_rules_keep_devices_from_being_allocated(b: Bench) -> None:
    b.device_class()
    b.slice("n1", "gpu-0", "gpu-1")
    rule = {
        "metadata": {"name": "rule"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "device": "gpu-0"},
            "taint": {"key": "k", "effect": "NoSchedule"},
        },
    }
    b.http.created(f"{DRA}/devicetaintrules", rule)
    b.claim("c1")
    b.pod("p1", "c1")
    b.node_of("p1")
    assert b.device_of("c1") == ("n1", "gpu-1")
    b.claim("c2")
    b.pod("p2", "c2")
    b.refusal("p2")
    b.http.delete(f"{DRA}/devicetaintrules/rule")
    b.http.patch(f"{DRA}/resourceslices/n1-n1", {"metadata": {"labels": {"touched": "yes"}}})
    assert b.node_of("p2") == "n1"


def test_the_earlier_alternative_decides_on_the_node(b: Bench) -> None:
    b.device_class("big", expression="device.attributes['gpu.example.com'].size == 'big'")
    b.device_class("small", expression="device.attributes['gpu.example.com'].size == 'small'")
    for node, size in (("n2", "small"), ("n3", "big"), ("n4", "small")):
        b.node(node)
        b.slice(node, {"name": "gpu-0", "attributes": {"size": {"string": size}}})
    choices = [{"name": name, "deviceClassName": name} for name in ("big", "small")]
    request = {"name": "r", "firstAvailable": choices}
    b.http.created(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    b.pod("p", "c")
    assert b.node_of("p") == "n3"


def test_a_claim_that_only_the_pod_itself_holds_is_given_up_for_another_node() -> None:
    with bench(start=False) as b:
        b.device_class()
        for name in ("n1", "n2"):
            b.node(name)
            b.slice(name, "gpu-0")
        b.http.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
        b.claim("c")
        pod = b.pod("p", "c")
        reserve(b, "c", pod)
        b.add_scheduler()
        assert b.node_of("p") == "n2"
        assert b.device_of("c") == ("n2", "gpu-0")


def reserve(b: Bench, claim: str, pod: dict[str, Any]) -> None:
    """Allocate gpu-0 of n1 to the claim and reserve it for the pod."""
    metadata = pod["metadata"]
    consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
    b.http.patch(f"{CLAIMS}/{claim}", {"metadata": {"finalizers": [FINALIZER]}})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [selector]},
            "allocationTimestamp": "2026-01-02T03:04:05Z",
        },
        "reservedFor": [consumer],
    }
    assert b.http.patch(f"{CLAIMS}/{claim}/status", {"status": status}).code == 200


def test_pods_that_share_a_claim_wait_for_its_allocation_and_get_the_same_device() -> None:
    with bench(start=False) as b:
        b.device_class()
        for name in ("n1", "n2"):
            b.node(name)
            b.slice(name, "gpu-0")
        b.claim("shared")
        for number in range(5):
            b.pod(f"p{number}", "shared")
        b.add_scheduler()
        assert len({b.node_of(f"p{number}") for number in range(5)}) == 1
        names = {entry["name"] for entry in b.get_claim("shared")["status"]["reservedFor"]}
        assert names == {f"p{number}" for number in range(5)}


def test_a_pod_whose_claim_is_being_allocated_says_so_until_the_claim_changes() -> None:
    with bench(start=False) as b:
        b.node("n1")
        b.device_class()
        conditions = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
        b.slice("n1", {"name": "gpu-0", **conditions})
        b.claim("shared")
        b.pod("first", "shared")
        b.pod("second", "shared")
        b.add_scheduler()
        for name in ("first", "second"):
            b.events("BindingConditionsPending", name)
        texts = [event["note"] for name in ("first", "second") for event in b.refusals(name)]
        waiting = "resource claim default/shared is in the process of being allocated. "
        assert all(text.startswith(f"0/1 nodes are available: {waiting}") for text in texts)
