from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import DRA, Object, Plane, plane

from clusters.clock import stamp
from clusters.embedded.controllers.device_taint_eviction import DeviceTaintEvictionController
from clusters.embedded.controllers.device_taint_eviction.evictions import Evictions

NAME = DeviceTaintEvictionController.name
DRIVER = "gpu.example.com"
SUFFIX = (
    " if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to "
    "trigger an update."
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add(NAME, DeviceTaintEvictionController)
        yield made


def publish(cluster: Plane, *devices: Object, generation: int = 1, name: str = "n1-slice") -> Object:
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    return cluster.client.create(DRA, "resourceslices", {"metadata": {"name": name}, "spec": spec})


def consumer(
    cluster: Plane,
    name: str,
    *tolerations: Object,
    namespace: str = "default",
    device: str = "gpu-0",
    node: str = "n1",
) -> Object:
    """A pod on a node with a claim that has a device."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
    cluster.client.create(DRA, "resourceclaims", claim, namespace)
    spec: Object = {
        "containers": [{"name": "c", "image": "probe"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    if node:
        spec["nodeName"] = node
    pod = cluster.client.create("v1", "pods", {"metadata": {"name": name}, "spec": spec}, namespace)
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": "n1",
        "device": device,
        "tolerations": list(tolerations),
    }
    reserved = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}

    def allocate(obj: Object) -> None:
        obj["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}

    cluster.changed(DRA, "resourceclaims", name, allocate, namespace=namespace, subresource="status")
    return pod


def taint(cluster: Plane, name: str, effect: str = "NoExecute", **more: Any) -> Object:
    selector = more.pop("selector", {"driver": DRIVER})
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect, **more}}
    return cluster.client.create(DRA, "devicetaintrules", {"metadata": {"name": name}, "spec": spec})


def deleting(cluster: Plane, name: str, namespace: str = "default") -> Object:
    """The pod, once somebody deletes it: no kubelet is there to let it go."""

    def look() -> Object | None:
        pod = cluster.client.get("v1", "pods", name, namespace)
        return pod if "deletionTimestamp" in pod["metadata"] else None

    found = cluster.until(look, f"deletion of {name}")
    assert found is not None
    return found


def stays(cluster: Plane, name: str, namespace: str = "default") -> None:
    """Nobody deletes the pod, though the controller has handled all that was written before."""
    consumer(cluster, "witness", device="witness")
    taint(cluster, "witness", selector={"device": "witness"})
    deleting(cluster, "witness")
    assert "deletionTimestamp" not in cluster.client.get("v1", "pods", name, namespace)["metadata"]


def condition(cluster: Plane, name: str, reason: str, seconds: float = 8.0) -> Object:
    def look() -> Object | None:
        rule = cluster.client.get(DRA, "devicetaintrules", name)
        conditions = rule.get("status", {}).get("conditions") or [{}]
        return conditions[0] if conditions[0].get("reason") == reason else None

    found = cluster.until(look, f"condition of {name}", seconds)
    assert found is not None
    return found


def test_rule_evicts_pods_with_condition_event_and_status(cluster: Plane) -> None:
    consumer(cluster, "a")
    consumer(cluster, "b", namespace="default")
    publish(cluster, {"name": "gpu-0"})
    taint(cluster, "out")
    pods = [deleting(cluster, name) for name in ("a", "b")]
    for pod in pods:
        (found,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        since = found.pop("lastTransitionTime")
        assert since
        assert found == {
            "type": "DisruptionTarget",
            "lastProbeTime": None,
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
        }
    event = cluster.until(lambda: cluster.events("a"), "event")[0]
    assert (event["type"], event["reason"], event["message"], event["source"]) == (
        "Normal",
        "DeviceTaintManagerEviction",
        "Marking for deletion",
        {"component": NAME},
    )
    # The status is written before the pods go and again when that is ten seconds ago.
    pending = condition(cluster, "out", "PodsPendingEviction")
    assert (pending["status"], pending["message"]) == ("True", "2 pods need to be evicted in 1 namespace.")
    assert pending["observedGeneration"] == 1
    cluster.clock.advance(11)
    done = condition(cluster, "out", "Completed")
    assert (done["status"], done["message"]) == ("False", "2 pods evicted since starting the controller.")
    managers = cluster.client.get(DRA, "devicetaintrules", "out")["metadata"]["managedFields"]
    assert [one["manager"] for one in managers if one["operation"] == "Apply"] == [NAME]


def test_taint_in_a_slice_evicts(cluster: Plane) -> None:
    consumer(cluster, "a")
    consumer(cluster, "b", device="gpu-1")
    publish(
        cluster,
        {"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoExecute"}]},
        {"name": "gpu-1", "taints": [{"key": "broken", "effect": "NoSchedule"}]},
    )
    deleting(cluster, "a")
    stays(cluster, "b")


def test_taint_of_an_old_generation_is_no_longer_there(cluster: Plane) -> None:
    consumer(cluster, "a", device="gpu-0")
    publish(cluster, {"name": "gpu-0"}, generation=2, name="new")
    publish(
        cluster,
        {"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoExecute"}]},
        generation=1,
        name="old",
    )
    stays(cluster, "a")


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "broken", "operator": "Exists", "effect": "NoExecute"},
        {"key": "broken", "operator": "Equal", "value": "", "effect": "NoExecute"},
    ],
)
def test_toleration_without_seconds_keeps_a_pod(cluster: Plane, toleration: Object) -> None:
    consumer(cluster, "a", toleration)
    taint(cluster, "out")
    stays(cluster, "a")


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "other", "operator": "Exists", "effect": "NoExecute"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5},
    ],
)
def test_toleration_of_something_else_does_not(cluster: Plane, toleration: Object) -> None:
    """An empty effect tolerates for scheduling only."""
    consumer(cluster, "a", toleration)
    taint(cluster, "out")
    deleting(cluster, "a")


def test_toleration_seconds_count_from_the_time_of_the_taint(cluster: Plane) -> None:
    longer = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 900}
    shorter = {**longer, "key": "broken", "tolerationSeconds": 300}
    consumer(cluster, "a", longer, shorter)
    taint(cluster, "out", timeAdded=stamp(cluster.clock.now() - 200))
    stays(cluster, "a")
    cluster.clock.advance(101)
    deleting(cluster, "a")


def test_eviction_is_cancelled_when_the_rule_goes(cluster: Plane) -> None:
    consumer(cluster, "a", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100})
    taint(cluster, "out")
    condition(cluster, "out", "PodsPendingEviction")
    cluster.client.delete(DRA, "devicetaintrules", "out")
    event = cluster.until(lambda: cluster.events("a"), "event")[0]
    assert event["message"] == "Cancelling deletion"
    cluster.clock.advance(200)
    stays(cluster, "a")


def test_pod_without_node_stays(cluster: Plane) -> None:
    consumer(cluster, "a", node="")
    taint(cluster, "out")
    stays(cluster, "a")


def test_rule_without_effect_says_once_what_it_would_do(cluster: Plane) -> None:
    publish(cluster, {"name": "gpu-0"}, {"name": "gpu-1"})
    consumer(cluster, "a")
    cluster.until(
        lambda: cluster.client.get(DRA, "resourceclaims", "a", "default")["status"].get("allocation"), "claim"
    )
    taint(cluster, "dry", "None")
    found = condition(cluster, "dry", "NoEffect")
    assert found["status"] == "False"
    assert found["message"] == (
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace"
        + SUFFIX
    )
    consumer(cluster, "b")
    cluster.clock.advance(60)
    stays(cluster, "a")
    assert condition(cluster, "dry", "NoEffect") == found


def test_rule_that_gets_an_effect_evicts(cluster: Plane) -> None:
    consumer(cluster, "a")
    taint(cluster, "rule", "None")
    first = condition(cluster, "rule", "NoEffect")
    assert first["message"].startswith("0 published devices selected. 1 allocated device selected.")
    cluster.changed(
        DRA, "devicetaintrules", "rule", lambda obj: obj["spec"]["taint"].update(effect="NoExecute")
    )
    deleting(cluster, "a")
    assert condition(cluster, "rule", "PodsPendingEviction")["observedGeneration"] == 2


def test_other_effect_and_nothing_selected(cluster: Plane) -> None:
    consumer(cluster, "a")
    taint(cluster, "schedule", "NoSchedule")
    taint(cluster, "nobody", selector={"pool": "elsewhere"})
    other = condition(cluster, "schedule", "OtherEffect")
    assert other["message"] == "Eviction only happens for the NoExecute effect."
    assert condition(cluster, "nobody", "NotStarted")["message"] == ""
    stays(cluster, "a")


def test_empty_selector_takes_every_device(cluster: Plane) -> None:
    consumer(cluster, "a")
    taint(cluster, "all", selector={})
    deleting(cluster, "a")


def test_rule_without_selector_takes_none(cluster: Plane) -> None:
    consumer(cluster, "a")
    spec = {"taint": {"key": "broken", "effect": "NoExecute"}}
    cluster.client.create(DRA, "devicetaintrules", {"metadata": {"name": "none"}, "spec": spec})
    condition(cluster, "none", "NotStarted")
    stays(cluster, "a")


def test_gate_of_rules_off_leaves_rules_alone(tmp_path: Path) -> None:
    gates = {"DRADeviceTaintRules": False}
    with plane(tmp_path, feature_gates=gates) as cluster:
        cluster.gates = gates
        cluster.add(NAME, DeviceTaintEvictionController)
        consumer(cluster, "a")
        taint(cluster, "out")
        consumer(cluster, "b", device="gpu-1")
        publish(cluster, {"name": "gpu-1", "taints": [{"key": "broken", "effect": "NoExecute"}]})
        deleting(cluster, "b")
        assert "deletionTimestamp" not in cluster.client.get("v1", "pods", "a", "default")["metadata"]
        assert not cluster.client.get(DRA, "devicetaintrules", "out").get("status")


def test_next_life_of_the_controller_evicts_what_the_last_one_was_waiting_for(cluster: Plane) -> None:
    consumer(cluster, "a", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 100})
    taint(cluster, "out")
    pending = condition(cluster, "out", "PodsPendingEviction")
    cluster.host.stop(NAME)
    cluster.clock.advance(101)
    assert "deletionTimestamp" not in cluster.client.get("v1", "pods", "a", "default")["metadata"]
    cluster.host.start(NAME)
    deleting(cluster, "a")
    # What it did in its last life nobody knows any more: only pods of this one count.
    cluster.clock.advance(11)
    done = condition(cluster, "out", "Completed")
    assert done["message"] == "1 pod evicted since starting the controller."
    assert done["lastTransitionTime"] > pending["lastTransitionTime"]


def test_pod_whose_name_was_taken_again_stays(cluster: Plane) -> None:
    """The claim is reserved for a pod that is gone; its successor has nothing to do with the taint."""
    consumer(cluster, "a")
    cluster.client.delete("v1", "pods", "a", "default", {"gracePeriodSeconds": 0})
    spec = {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "probe"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "a"}],
    }
    cluster.client.create("v1", "pods", {"metadata": {"name": "a"}, "spec": spec}, "default")
    taint(cluster, "out")
    stays(cluster, "a")


def test_pod_that_somebody_deletes_counts_as_evicted_without_an_event(cluster: Plane) -> None:
    consumer(cluster, "a")
    cluster.client.delete("v1", "pods", "a", "default")
    taint(cluster, "out")
    cluster.until(lambda: any("evicted pod default/a" in line for line in cluster.host.logs(NAME)), "log")
    cluster.clock.advance(11)
    assert condition(cluster, "out", "Completed")["message"] == "1 pod evicted since starting the controller."
    assert cluster.events("a") == []


def test_many_pods_in_several_namespaces_are_counted_and_all_go(cluster: Plane) -> None:
    for namespace in ("one", "two"):
        cluster.client.create("v1", "namespaces", {"metadata": {"name": namespace}})
        cluster.client.create("v1", "serviceaccounts", {"metadata": {"name": "default"}}, namespace)
        for number in range(30):
            consumer(cluster, f"p{number}", namespace=namespace)
    taint(cluster, "rule", "None")
    assert (
        "60 pods would be evicted in 2 different namespaces"
        in condition(cluster, "rule", "NoEffect")["message"]
    )
    cluster.changed(
        DRA, "devicetaintrules", "rule", lambda obj: obj["spec"]["taint"].update(effect="NoExecute")
    )
    pending = condition(cluster, "rule", "PodsPendingEviction")
    assert pending["message"].endswith("pods need to be evicted in 2 different namespaces.")
    for namespace in ("one", "two"):
        for number in range(30):
            deleting(cluster, f"p{number}", namespace)
    cluster.clock.advance(11)
    done = condition(cluster, "rule", "Completed")
    assert done["message"] == "60 pods evicted since starting the controller."


def test_a_claim_that_takes_the_place_of_another_unseen_is_judged_by_its_own_device() -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"nodeName": "n1"}}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]

    class Pods:
        def get(self, namespace: str, name: str) -> Object:
            return pod

    def claim(uid: str, device: str) -> Object:
        result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
        reserved = {"resource": "pods", "name": "p", "uid": "u"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}
        return {"metadata": {"name": "c", "namespace": "ns", "uid": uid}, "status": status}

    evictions = Evictions(Pods(), lambda pod: None)  # type: ignore[arg-type]
    broken = {"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    spec = {"deviceSelector": {"device": "gpu-0"}, "taint": broken}
    evictions.rule_changed(None, {"metadata": {"name": "t", "uid": "t"}, "spec": spec})
    evictions.claim_changed(None, claim("old", "gpu-0"))
    assert evictions.of_pod(pod) is not None
    # After a gap in a watch the list shows the new one in the place of the old one.
    evictions.claim_changed(claim("old", "gpu-0"), claim("new", "gpu-1"))
    assert evictions.of_pod(pod) is None
