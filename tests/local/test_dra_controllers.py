"""The controllers of device taints and of pool status: what they write on a real and on an embedded cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from clusters import binaries
from clusters.base import StartedCluster
from clusters.client import Client
from clusters.clock import parse_stamp, stamp
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec
from clusters.local.cluster import COMPONENTS, LocalCluster

pytestmark = [
    pytest.mark.go,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="kubelets need root"),
]

DRA, ALPHA = "resource.k8s.io/v1", "resource.k8s.io/v1alpha3"
RULES, REQUESTS = "devicetaintrules", "resourcepoolstatusrequests"
SPEC = ClusterSpec(
    nodes=(NodeSpec(name="n1"),),
    gates=(("DRAPartitionableDevicesType", True), ("DRAResourcePoolStatus", True)),
    runtime_config=((ALPHA, True),),
    kubelet=(("syncFrequency", "1s"),),
)
SECONDS = 60.0
Object = dict[str, Any]
Found = TypeVar("Found")


class Space:
    """A cluster, and a namespace, driver and pool of one test's own."""

    def __init__(self, api: Client, name: str) -> None:
        self.api, self.name = api, name
        self.driver = f"{name}.example.com"
        api.create("v1", "namespaces", {"metadata": {"name": name}})
        self.until(lambda: api.find("v1", "serviceaccounts", "default", name), "service account")
        api.create(DRA, "deviceclasses", {"metadata": {"name": name}, "spec": {}})

    def until(self, look: Callable[[], Found], what: str) -> Found:
        deadline, pause = time.monotonic() + SECONDS, threading.Event()
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < deadline, f"not within {SECONDS:g} s: {what}; last: {found!r}"
            pause.wait(0.05)

    def publish(self, *devices: Object, pool: str = "pool", count: int = 1, **spec: Any) -> Object:
        body = {
            "metadata": {"generateName": f"{self.name}-"},
            "spec": {
                "driver": self.driver,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": count},
                "nodeName": "n1",
                "devices": list(devices),
                **spec,
            },
        }
        return self.api.create(DRA, "resourceslices", body)

    def consumer(self, name: str, *tolerations: Object, device: str = "gpu-0", **result: Any) -> None:
        """A pod on the node, which waits there for its driver, with an allocated claim."""
        requests = [{"name": "r", "exactly": {"deviceClassName": self.name}}]
        claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        claim = self.api.create(DRA, "resourceclaims", claim, self.name)
        body = {
            # What the test looks at shall still be there after the eviction.
            "metadata": {"name": name, "finalizers": ["example.com/stay"]},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "image": "probe", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "terminationGracePeriodSeconds": 1,
            },
        }
        pod = self.api.create("v1", "pods", body, self.name)
        results = [{"request": "r", "driver": self.driver, "pool": "pool", "device": device, **result}]
        if tolerations:
            results[0]["tolerations"] = list(tolerations)
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
        }
        self.api.update(DRA, "resourceclaims", {**claim, "status": status}, "status")

    def taint(self, name: str, effect: str, **more: Any) -> None:
        selector = {"driver": self.driver, **more.pop("selector", {})}
        spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect, **more}}
        self.api.create(DRA, RULES, {"metadata": {"name": f"{self.name}-{name}"}, "spec": spec})

    def rule(self, name: str, reason: str) -> Object:
        """The condition of a rule with this reason, without its time."""

        def look() -> Object:
            rule = self.api.get(DRA, RULES, f"{self.name}-{name}")
            conditions = rule.get("status", {}).get("conditions") or [{}]
            return dict(conditions[0]) if conditions[0].get("reason") == reason else {}

        found = self.until(look, f"{reason} of {name}")
        found.pop("lastTransitionTime")
        return found

    def pod(self, name: str) -> Object:
        return self.api.get("v1", "pods", name, self.name)

    def evicted(self, name: str) -> Object:
        return self.until(lambda: (pod := self.pod(name))["metadata"].get("deletionTimestamp") and pod, name)

    def events(self, name: str) -> list[Object]:
        """What the controller told about a pod."""
        query = {"fieldSelector": f"involvedObject.name={name},reason=DeviceTaintManagerEviction"}
        keys = ("type", "reason", "message", "source", "reportingComponent", "reportingInstance", "count")
        found = self.api.list("v1", "events", self.name, **query)
        return [{key: event.get(key) for key in keys} for event in found]

    def ask(self, name: str = "ask", **spec: Any) -> Object:
        body = {"metadata": {"name": f"{self.name}-{name}"}, "spec": {"driver": self.driver, **spec}}
        self.api.create(ALPHA, REQUESTS, body)
        return self.until(lambda: self.answer(name), f"answer to {name}")

    def answer(self, name: str) -> Object:
        found: Object = self.api.get(ALPHA, REQUESTS, f"{self.name}-{name}").get("status") or {}
        for condition in found.get("conditions") or []:
            condition.pop("lastTransitionTime")
        return found

    def close(self) -> None:
        for rule in self.api.list(DRA, RULES):
            if rule["metadata"]["name"].startswith(f"{self.name}-"):
                self.api.delete(DRA, RULES, rule["metadata"]["name"])
        for pod in self.api.list("v1", "pods", self.name):
            patch = {"metadata": {"finalizers": None}}
            self.api.patch("v1", "pods", pod["metadata"]["name"], patch, self.name)


@pytest.fixture(scope="module", params=["embedded", "local"])
def cluster(request: pytest.FixtureRequest) -> Iterator[StartedCluster[Any]]:
    """One node and no driver."""
    started: StartedCluster[Any]
    if request.param == "local":
        started = LocalCluster(SPEC, binaries.find("1.37", COMPONENTS, progress=print))
    else:
        started = EmbeddedCluster(SPEC)
    with started:
        started.wait_ready()
        yield started


@pytest.fixture
def space(cluster: StartedCluster[Any], request: pytest.FixtureRequest) -> Iterator[Space]:
    made = Space(cluster.client(), request.function.__name__[5:].replace("_", "-")[:40])
    yield made
    made.close()


def test_rule_evicts(space: Space) -> None:
    space.publish({"name": "gpu-0"}, {"name": "gpu-1"})
    space.consumer("a")
    space.consumer("b", device="gpu-1")
    space.consumer("stays", device="gpu-2")
    space.taint("out", "NoExecute", selector={"device": "gpu-0"})
    pod = space.evicted("a")
    (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "reason": "DeletionByDeviceTaintManager",
        "message": "Device Taint manager: deleting due to NoExecute taint",
    }
    name = "device-taint-eviction-controller"
    assert space.until(lambda: space.events("a"), "event") == [
        {
            "type": "Normal",
            "reason": "DeviceTaintManagerEviction",
            "message": "Marking for deletion",
            "source": {"component": name},
            "reportingComponent": name,
            "reportingInstance": "",
            "count": 1,
        }
    ]
    assert space.rule("out", "Completed") == {
        "type": "EvictionInProgress",
        "status": "False",
        "observedGeneration": 1,
        "reason": "Completed",
        "message": "1 pod evicted since starting the controller.",
    }
    entries = space.api.get(DRA, RULES, f"{space.name}-out")["metadata"]["managedFields"]
    assert [(one["manager"], one["subresource"]) for one in entries if one["operation"] == "Apply"] == [
        (name, "status")
    ]
    assert "deletionTimestamp" not in space.pod("b")["metadata"]
    assert "deletionTimestamp" not in space.pod("stays")["metadata"]


def test_taint_in_a_slice_evicts_what_does_not_tolerate_it(space: Space) -> None:
    for name, toleration in {
        "forever": {"key": "broken", "operator": "Exists", "effect": "NoExecute"},
        "any-effect": {"key": "broken", "operator": "Exists"},
        "other-value": {"key": "broken", "operator": "Equal", "value": "x", "effect": "NoExecute"},
    }.items():
        space.consumer(name, toleration)
    space.publish({"name": "gpu-0", "taints": [{"key": "broken", "effect": "NoExecute"}]})
    space.evicted("any-effect")
    space.evicted("other-value")
    assert "deletionTimestamp" not in space.pod("forever")["metadata"]


def test_toleration_seconds_count_from_the_time_of_the_taint(space: Space) -> None:
    space.consumer("a", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 63})
    since = time.time() - 60
    space.taint("out", "NoExecute", timeAdded=stamp(since))
    assert space.rule("out", "PodsPendingEviction") == {
        "type": "EvictionInProgress",
        "status": "True",
        "observedGeneration": 1,
        "reason": "PodsPendingEviction",
        "message": "1 pod needs to be evicted in 1 namespace.",
    }
    (condition,) = [
        one for one in space.evicted("a")["status"]["conditions"] if one["type"] == "DisruptionTarget"
    ]
    assert parse_stamp(condition["lastTransitionTime"]) >= parse_stamp(stamp(since + 63))


def test_eviction_is_cancelled(space: Space) -> None:
    space.consumer("a", {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 600})
    space.taint("out", "NoExecute")
    space.rule("out", "PodsPendingEviction")
    space.api.delete(DRA, RULES, f"{space.name}-out")
    (event,) = space.until(lambda: space.events("a"), "event")
    assert event["message"] == "Cancelling deletion"
    assert "deletionTimestamp" not in space.pod("a")["metadata"]


def test_rules_that_do_not_evict(space: Space) -> None:
    space.publish({"name": "gpu-0"}, {"name": "gpu-1"})
    space.consumer("a")
    space.consumer("b")
    space.until(lambda: space.pod("b")["status"].get("conditions"), "kubelet has seen it")
    space.taint("dry", "None", selector={"pool": "pool"})
    space.taint("schedule", "NoSchedule")
    space.taint("nobody", "NoExecute", selector={"device": "other"})
    assert space.rule("dry", "NoEffect")["message"] == (
        "2 published devices selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace if the "
        "effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
        "an update."
    )
    assert space.rule("schedule", "OtherEffect") == {
        "type": "EvictionInProgress",
        "status": "False",
        "observedGeneration": 1,
        "reason": "OtherEffect",
        "message": "Eviction only happens for the NoExecute effect.",
    }
    assert space.rule("nobody", "NotStarted")["message"] == ""


def test_rule_with_another_effect_starts_anew(space: Space) -> None:
    space.consumer("a")
    space.taint("late", "None", timeAdded="2026-01-01T00:00:00Z")
    space.rule("late", "NoEffect")
    name = f"{space.name}-late"
    space.api.patch(DRA, RULES, name, {"spec": {"taint": {"effect": "NoExecute"}}})
    rule = space.api.get(DRA, RULES, name)
    assert rule["metadata"]["generation"] == 2
    assert rule["spec"]["taint"]["timeAdded"] > "2026-01-01T00:00:00Z"
    space.evicted("a")
    assert space.rule("late", "Completed")["observedGeneration"] == 2


def partition(name: str, kind: str, memory: str) -> Object:
    return {
        "name": name,
        "attributes": {"kind": {"string": kind}},
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}}],
    }


def test_pool_status(space: Space) -> None:
    devices: list[Object] = [{"name": f"gpu-{number}"} for number in range(5)]
    devices[0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}
    space.publish(*devices)
    space.publish({"name": "s-0", **shared}, {"name": "s-1", **shared}, pool="shared", count=1)
    space.consumer("a", device="gpu-1")
    share = "0f34ab3c-1b1c-4a6c-9a8e-3c3f5d1a2b3c"
    space.consumer("s", device="s-0", pool="shared", consumedCapacity={"memory": "3Gi"}, shareID=share)
    space.taint("bad", "NoSchedule", selector={"device": "gpu-4"})
    space.until(
        lambda: space.ask(f"wait-{time.monotonic_ns()}")["pools"][0]["unavailableDevices"] == 2, "caches"
    )
    assert space.ask() == {
        "poolCount": 2,
        "pools": [
            {
                "driver": space.driver,
                "poolName": "pool",
                "generation": 1,
                "nodeName": "n1",
                "resourceSliceCount": 1,
                "totalDevices": 5,
                "allocatedDevices": 1,
                "availableDevices": 2,
                "unavailableDevices": 2,
            },
            {
                "driver": space.driver,
                "poolName": "shared",
                "generation": 1,
                "nodeName": "n1",
                "resourceSliceCount": 1,
                "totalDevices": 2,
                "allocatedDevices": 1,
                "availableDevices": 1,
                "unavailableDevices": 0,
                "shareableSummary": {
                    "fullyAvailableDevices": 1,
                    "partiallyAvailableDevices": 1,
                    "capacity": [{"name": "memory", "total": "16Gi", "consumed": "3Gi", "available": "13Gi"}],
                },
            },
        ],
        "conditions": [
            {
                "type": "Complete",
                "status": "True",
                "reason": "CalculationComplete",
                "message": "Calculated status for 2 pools",
            }
        ],
    }
    assert [pool["poolName"] for pool in space.ask("one", limit=1)["pools"]] == ["pool"]
    nothing = space.ask("none", poolName="elsewhere")
    assert (nothing["poolCount"], nothing.get("pools")) == (0, None)
    assert nothing["conditions"][0]["message"] == "Calculated status for 0 pools"


def test_pool_status_of_partitions(space: Space) -> None:
    devices = [
        partition("whole", "Full", "40Gi"),
        partition("h-0", "Half", "20Gi"),
        partition("h-1", "Half", "20Gi"),
    ]
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    space.publish({"name": "gpu-0"}, pool="a-plain")
    space.publish(count=2, sharedCounters=counters, devices=None)
    space.publish(*devices, count=2, partitionTypeAttribute=f"{space.driver}/kind")
    space.consumer("a", device="h-0")
    space.until(
        lambda: space.ask(f"wait-{time.monotonic_ns()}", poolName="pool")["pools"][0]["allocatedDevices"],
        "caches",
    )
    status = space.ask()
    plain, parts = status["pools"]
    attribute = f"{space.driver}/kind"
    assert "partitionSummary" not in plain
    assert parts["partitionSummary"] == [
        {"attribute": attribute, "type": "Full", "total": 1, "allocatable": 0},
        {"attribute": attribute, "type": "Half", "total": 2, "allocatable": 1},
    ]
    status = space.ask("asked", poolName="a-plain", defaultPartitionTypeAttribute=attribute)
    assert status["pools"][0]["validationError"] == (
        f"PartitionTypeMissing: pool {space.driver}/a-plain declares partitionTypeAttribute but publishes no "
        "sharedCounters"
    )
    assert status["conditions"][0]["message"] == "Calculated status for 1 pools (1 incomplete)"


def test_incomplete_pool_gets_no_status(space: Space) -> None:
    space.publish({"name": "gpu-0"}, count=2)
    space.publish({"name": "gpu-0"}, pool="whole")
    name = f"{space.name}-early"
    space.api.create(ALPHA, REQUESTS, {"metadata": {"name": name}, "spec": {"driver": space.driver}})
    # By then its five retries are over.
    pause = threading.Event()
    for _ in range(4):
        space.ask(f"other-{time.monotonic_ns()}", poolName="whole")
        pause.wait(0.2)
    assert space.answer("early") == {}
    space.publish({"name": "gpu-1"}, count=2)
    pause.wait(0.5)
    assert space.answer("early") == {}
    space.api.patch(ALPHA, REQUESTS, name, {"metadata": {"labels": {"a": "b"}}})
    assert space.until(lambda: space.answer("early"), "answer")["poolCount"] == 2
