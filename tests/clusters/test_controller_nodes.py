"""Nodes whose kubelets are silent, and what becomes of their pods. Time is skipped."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Object, Plane, plane

from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.node_lifecycle import NodeLifecycleController
from clusters.embedded.controllers.node_lifecycle.monitor import Monitor, SkippedError
from clusters.embedded.controllers.node_lifecycle.zones import (
    TaintQueue,
    ZoneState,
    rate,
    zone_of,
    zone_state,
)
from clusters.embedded.controllers.pod_gc import PodGarbageCollector
from clusters.embedded.controllers.taint_eviction import TaintEvictionController, toleration_seconds
from clusters.tls import client_context

LEASES = ("coordination.k8s.io/v1", "leases")
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        yield made


class Kubelet:
    """Posts the status of a node once, and renews its lease while it lives."""

    def __init__(self, cluster: Plane, name: str, **labels: str) -> None:
        self.cluster, self.name = cluster, name
        self._stopped = threading.Event()
        cluster.client.create("v1", "nodes", {"metadata": {"name": name, "labels": labels}})
        lease = {"metadata": {"name": name}, "spec": self._lease()}
        cluster.client.create(*LEASES, lease, "kube-node-lease")
        self.post("True")

    def _lease(self) -> Object:
        return {
            "holderIdentity": self.name,
            "leaseDurationSeconds": 40,
            "renewTime": self.cluster.clock.micro_timestamp(),
        }

    def renew(self) -> None:
        body = {"spec": {"renewTime": self.cluster.clock.micro_timestamp()}}
        self.cluster.client.patch(*LEASES, self.name, body, "kube-node-lease")

    def post(self, ready: str) -> None:
        now = self.cluster.clock.timestamp()
        conditions = [
            {
                "type": kind,
                "status": status,
                "reason": "Test",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            for kind, status in (("Ready", ready), ("MemoryPressure", "False"))
        ]
        body = {"status": {"conditions": conditions}}
        self.cluster.client.patch("v1", "nodes", self.name, body, None, "status")

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Renew the lease ten times a second."""

        def run() -> None:
            while not self._stopped.wait(0.1):
                self.renew()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()


def node(cluster: Plane, name: str) -> Object:
    return cluster.client.get("v1", "nodes", name)


def taints(cluster: Plane, name: str) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node(cluster, name)["spec"].get("taints") or []}


def condition(obj: Object, kind: str) -> Object:
    found = [one for one in obj["status"].get("conditions") or [] if one["type"] == kind]
    return found[0] if found else {}


def pod(cluster: Plane, name: str, on: str, **spec: Any) -> Object:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "probe"}], "nodeName": on, **spec},
    }
    return cluster.client.create("v1", "pods", body, "default")


def find_pod(cluster: Plane, name: str) -> Object | None:
    return cluster.client.find("v1", "pods", name, "default")


def deleted(cluster: Plane, name: str) -> bool:
    found = find_pod(cluster, name)
    return found is None or "deletionTimestamp" in found["metadata"]


def seen(cluster: Plane, name: str) -> None:
    """Wait until the controller knows a node."""
    cluster.until(lambda: any(e["reason"] == "RegisteredNode" for e in cluster.events(name)), "registration")


def test_first_taint_of_a_node_goes_when_it_is_ready(cluster: Plane) -> None:
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    assert taints(cluster, "n1") == {(NOT_READY, "NoSchedule")}
    now = cluster.clock.timestamp()
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
    cluster.client.patch("v1", "nodes", "n1", {"status": {"conditions": [ready]}}, None, "status")
    cluster.until(lambda: not taints(cluster, "n1"), "no taints")


def test_taints_follow_conditions_and_cordon(cluster: Plane) -> None:
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    Kubelet(cluster, "n1")
    cluster.until(lambda: not taints(cluster, "n1"), "no taints")
    cluster.client.patch("v1", "nodes", "n1", {"spec": {"unschedulable": True}})
    cluster.until(
        lambda: taints(cluster, "n1") == {("node.kubernetes.io/unschedulable", "NoSchedule")}, "cordon"
    )
    assert node(cluster, "n1")["spec"]["taints"][0]["timeAdded"]
    cluster.client.patch("v1", "nodes", "n1", {"spec": {"unschedulable": None}})
    cluster.until(lambda: not taints(cluster, "n1"), "no taints")


def test_labels_of_old_names_are_kept_equal(cluster: Plane) -> None:
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows", "kubernetes.io/arch": "amd64"}
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1", "labels": labels}})
    cluster.until(
        lambda: (
            node(cluster, "n1")["metadata"]["labels"]
            == labels | {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}
        ),
        "labels",
    )


def test_silent_node_is_unknown_tainted_and_told_and_comes_back(cluster: Plane) -> None:
    silent, good = Kubelet(cluster, "silent"), Kubelet(cluster, "good")
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    consumer = pod(cluster, "train", "silent")
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    cluster.client.patch("v1", "pods", "train", ready, "default", "status")
    for name in ("silent", "good"):
        seen(cluster, name)
        cluster.until(lambda name=name: not taints(cluster, name), "no taints")  # type: ignore[misc]
    with good.alive():
        cluster.clock.advance(45)
        cluster.until(lambda: cluster.clock.advance(1) or taints(cluster, "silent"), "a lost node", 20)
        lost = node(cluster, "silent")
        assert condition(lost, "Ready")["status"] == "Unknown"
        assert condition(lost, "Ready")["reason"] == "NodeStatusUnknown"
        assert condition(lost, "Ready")["message"] == "Kubelet stopped posting node status."
        assert condition(lost, "DiskPressure")["reason"] == "NodeStatusNeverUpdated"
        assert condition(lost, "DiskPressure")["message"] == "Kubelet never posted node status."
        both = {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        cluster.until(
            lambda: cluster.clock.advance(1) or taints(cluster, "silent") == both, "both taints", 20
        )
        event = cluster.until(
            lambda: [e for e in cluster.events("silent") if e["reason"] == "NodeNotReady"], "event"
        )[0]
        assert event["message"] == "Node silent status is now: NodeNotReady"
        assert event["source"] == {"component": "node-controller"}
        cluster.until(
            lambda: condition(find_pod(cluster, "train") or {}, "Ready").get("status") == "False",
            "a pod that is not ready",
        )
        told = cluster.until(lambda: cluster.events("train"), "event of the pod")[0]
        assert (told["reason"], told["message"]) == ("NodeNotReady", "Node is not ready")
        assert told["involvedObject"]["uid"] == consumer["metadata"]["uid"]
        assert not taints(cluster, "good")
        assert condition(node(cluster, "good"), "Ready")["status"] == "True"
        silent.renew()
        silent.post("True")
        cluster.until(lambda: cluster.clock.advance(1) or not taints(cluster, "silent"), "no taints", 20)


def test_skipped_time_does_not_make_living_nodes_silent(cluster: Plane) -> None:
    kubelets = [Kubelet(cluster, name) for name in ("a", "b")]
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    for name in ("a", "b"):
        seen(cluster, name)
        cluster.until(lambda name=name: not taints(cluster, name), "no taints")  # type: ignore[misc]
    with kubelets[0].alive():
        cluster.clock.advance(3600)
        cluster.until(
            lambda: condition(node(cluster, "b"), "Ready")["status"] == "Unknown", "the silent one", 10
        )
        assert condition(node(cluster, "a"), "Ready")["status"] == "True"


def test_nothing_is_evicted_when_no_node_is_ready(cluster: Plane) -> None:
    kubelet = Kubelet(cluster, "only")
    cluster.add(NodeLifecycleController.name, NodeLifecycleController)
    seen(cluster, "only")
    cluster.until(lambda: not taints(cluster, "only"), "no taints")
    before = node(cluster, "only")["metadata"]["resourceVersion"]
    cluster.clock.advance(60)
    cluster.until(lambda: taints(cluster, "only") == {(UNREACHABLE, "NoSchedule")}, "NoSchedule", 10)
    kubelet.renew()
    kubelet.post("True")
    cluster.until(lambda: cluster.clock.advance(1) or not taints(cluster, "only"), "no taints", 20)
    for event in cluster.client.watch("v1", "nodes", timeout=10, resourceVersion=before):
        now = event["object"]["spec"].get("taints") or []
        assert "NoExecute" not in {one["effect"] for one in now}
        if (
            event["object"]["metadata"]["resourceVersion"]
            == node(cluster, "only")["metadata"]["resourceVersion"]
        ):
            break


def test_lease_that_is_newer_than_its_cached_copy_saves_the_node(cluster: Plane) -> None:
    kubelet = Kubelet(cluster, "n1")

    async def run() -> None:
        tls = client_context(cluster.server.ca_pem)
        async with ApiClient(cluster.server.url, tls, "admin", "test") as client:
            context = Context(client, cluster.clock, {}, logging.getLogger("test"))
            leases = Informer(client, *LEASES)
            task = asyncio.create_task(leases.run())
            await leases.wait_synced()
            monitor = Monitor(context, leases)
            current, was_ready = await monitor.update(await client.get("v1", "nodes", "n1"))
            assert was_ready
            # The watch ends here, as if it hung; the kubelet goes on.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(kubelet.renew)
            cluster.clock.advance(60)
            for _ in range(2):
                with pytest.raises(SkippedError):
                    await monitor.update(current)

    asyncio.run(run())
    assert condition(node(cluster, "n1"), "Ready")["status"] == "True"


def taint(cluster: Plane, name: str, *keys: str) -> None:
    wanted = [{"key": key, "effect": "NoExecute"} for key in keys]
    cluster.client.patch("v1", "nodes", name, {"spec": {"taints": wanted or None}})


def test_pods_without_toleration_are_evicted_at_once_and_told(cluster: Plane) -> None:
    cluster.add(TaintEvictionController.name, TaintEvictionController)
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    pod(cluster, "plain", "n1")
    pod(cluster, "for-ever", "n1", tolerations=[{"operator": "Exists"}])
    taint(cluster, "n1", "example.com/broken")
    cluster.until(lambda: deleted(cluster, "plain"), "deletion")
    target = condition(find_pod(cluster, "plain") or {}, "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "DeletionByTaintManager")
    assert target["message"] == "Taint manager: deleting due to NoExecute taint"
    event = cluster.until(lambda: cluster.events("plain"), "an event")[0]
    assert (event["type"], event["reason"]) == ("Normal", "TaintManagerEviction")
    assert event["message"] == "Marking for deletion Pod default/plain"
    assert event["source"] == {"component": "taint-eviction-controller"}
    assert not deleted(cluster, "for-ever")
    pod(cluster, "late", "n1")
    cluster.until(lambda: deleted(cluster, "late"), "deletion of a pod that came later")


def test_default_toleration_lets_a_pod_stay_for_five_minutes(cluster: Plane) -> None:
    cluster.add(TaintEvictionController.name, TaintEvictionController)
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    pod(cluster, "train", "n1")
    pod(
        cluster,
        "canary",
        "n1",
        tolerations=[{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
    )
    taint(cluster, "n1", NOT_READY)
    cluster.until(lambda: cluster.clock.advance(1) or deleted(cluster, "canary"), "the canary's end")
    cluster.clock.advance(250)
    assert not deleted(cluster, "train")
    taint(cluster, "n1")
    event = cluster.until(lambda: cluster.events("train"), "an event")[0]
    assert event["message"] == "Cancelling deletion of Pod default/train"
    taint(cluster, "n1", UNREACHABLE)
    cluster.until(lambda: cluster.clock.advance(10) or deleted(cluster, "train"), "eviction", 20)


def test_second_taint_does_not_give_a_pod_more_time(cluster: Plane) -> None:
    cluster.add(TaintEvictionController.name, TaintEvictionController)
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    everything = {"operator": "Exists", "effect": "NoExecute"}
    pod(cluster, "train", "n1", tolerations=[{**everything, "tolerationSeconds": 1000}])
    pod(cluster, "canary", "n1", tolerations=[{**everything, "tolerationSeconds": 1}])
    taint(cluster, "n1", "a")
    cluster.until(lambda: cluster.clock.advance(1) or deleted(cluster, "canary"), "the canary's end")
    pod(cluster, "canary-2", "n1", tolerations=[{"key": "a", **everything}])
    cluster.clock.advance(900)
    taint(cluster, "n1", "a", "b")
    cluster.until(lambda: deleted(cluster, "canary-2"), "the second taint seen")
    assert not deleted(cluster, "train")
    cluster.clock.advance(100)
    cluster.until(lambda: deleted(cluster, "train"), "the end of the time that began with the first taint")


@pytest.mark.parametrize(
    ("taint_keys", "tolerations", "expected"),
    [
        (["a"], [], -1),
        (["a"], [{"key": "a", "operator": "Exists"}], None),
        (["a"], [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], -1),
        (["a"], [{"key": "a", "operator": "Exists", "tolerationSeconds": 7}], 7),
        (["a"], [{"key": "a", "operator": "Exists", "tolerationSeconds": -7}], 0),
        # The first toleration that matches counts, not the longest.
        (
            ["a"],
            [
                {"key": "a", "operator": "Exists", "tolerationSeconds": 7},
                {"operator": "Exists", "tolerationSeconds": 9},
            ],
            7,
        ),
        (
            ["a", "b"],
            [
                {"key": "a", "operator": "Exists", "tolerationSeconds": 7},
                {"key": "b", "operator": "Exists", "tolerationSeconds": 5},
            ],
            5,
        ),
        (
            ["a", "b"],
            [{"key": "a", "operator": "Exists", "tolerationSeconds": 7}, {"key": "b", "operator": "Exists"}],
            7,
        ),
        (["a", "b"], [{"key": "a", "operator": "Exists"}], -1),
        (["a"], [{"key": "a", "value": "x"}], -1),
        (["a"], [{"key": "a"}], None),
    ],
)
def test_time_that_a_pod_may_stay(
    taint_keys: list[str], tolerations: list[Object], expected: float | None
) -> None:
    taints = [{"key": key, "effect": "NoExecute"} for key in taint_keys]
    assert toleration_seconds(taints, tolerations) == expected


def test_pods_of_a_node_that_is_gone_are_deleted_after_quarantine(cluster: Plane) -> None:
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    pod(cluster, "train", "n1")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    cluster.client.patch("v1", "pods", "train", held, "default")
    cluster.client.delete("v1", "nodes", "n1")
    # Terminating pods without a node are the last of a pass.
    pod(cluster, "canary", "")
    cluster.client.patch("v1", "pods", "canary", held, "default")
    cluster.client.delete("v1", "pods", "canary", "default")
    cluster.add(PodGarbageCollector.name, PodGarbageCollector)
    cluster.until(
        lambda: (find_pod(cluster, "canary") or {})["status"]["phase"] == "Failed", "the end of a first pass"
    )
    cluster.clock.advance(39)
    assert not deleted(cluster, "train")
    cluster.until(lambda: cluster.clock.advance(1) or deleted(cluster, "train"), "deletion", 15)
    found = find_pod(cluster, "train") or {}
    assert found["status"]["phase"] == "Failed"
    target = condition(found, "DisruptionTarget")
    assert (target["reason"], target["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")


def test_terminating_pods_without_a_node_are_marked_failed(cluster: Plane) -> None:
    pod(cluster, "train", "")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    cluster.client.patch("v1", "pods", "train", held, "default")
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.add(PodGarbageCollector.name, PodGarbageCollector)
    cluster.until(lambda: (find_pod(cluster, "train") or {})["status"]["phase"] == "Failed", "failed phase")


def test_pods_on_a_node_out_of_service_are_ended(cluster: Plane) -> None:
    cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    pod(cluster, "train", "n1")
    pod(cluster, "other", "n1")
    taint(cluster, "n1", "node.kubernetes.io/out-of-service")
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.add(PodGarbageCollector.name, PodGarbageCollector)
    cluster.gone("v1", "pods", "train", "default")
    assert not deleted(cluster, "other")


def test_state_of_a_zone_and_its_rate() -> None:
    assert zone_state([]) is ZoneState.NORMAL
    assert zone_state([False]) is ZoneState.FULL_DISRUPTION
    assert zone_state([True, False, False]) is ZoneState.NORMAL  # two broken nodes are never a disruption
    assert zone_state([True] * 2 + [False] * 3) is ZoneState.PARTIAL_DISRUPTION  # 3/5 = 0.6
    assert zone_state([True] * 3 + [False] * 3) is ZoneState.NORMAL  # 0.5 is below 0.55
    assert rate(ZoneState.PARTIAL_DISRUPTION, 50) == 0
    assert rate(ZoneState.PARTIAL_DISRUPTION, 51) == 0.01
    assert rate(ZoneState.FULL_DISRUPTION, 5) == rate(ZoneState.NORMAL, 5) == 0.1
    labels = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}
    assert zone_of({"metadata": {"labels": labels}}) == "r:\x00:z"
    assert zone_of({"metadata": {}}) == ""


def test_one_node_in_ten_seconds_is_tainted() -> None:
    queue = TaintQueue(0.0)
    assert queue.add("a")
    assert not queue.add("a")
    queue.add("b")
    assert queue.head(0.0) == "a"
    queue.done("a", success=True)
    assert queue.head(9.9) is None
    assert queue.head(10.0) == "b"
    queue.done("b", success=False)
    assert queue.head(20.0) == "b"
    queue.done("b", success=True)
    assert not queue
    assert not queue.add("b")  # known until it was healthy
    assert queue.remove("b")
    assert queue.add("b")
    queue.set_rate(0.0, 30.0)
    assert queue.head(1000.0) is None
    queue.set_rate(0.1, 1000.0)
    assert queue.head(1009.0) is None
    assert queue.head(1010.0) == "b"
