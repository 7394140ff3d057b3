"""How many Pods of a budget may be evicted. Numbers by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Object, Plane, plane

from clusters.client import ClientError
from clusters.embedded.controllers.disruption import DisruptionController

POLICY = "policy/v1"
BUDGETS = "poddisruptionbudgets"
NS = "default"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add("disruption-controller", DisruptionController)
        yield made


def pods(cluster: Plane, count: int, ready: int, owner: Object | None = None) -> None:
    for number in range(count):
        metadata: Object = {"name": f"p{number}", "labels": {"app": "web"}}
        if owner is not None:
            reference = {key: owner[key] for key in ("apiVersion", "kind")}
            meta = owner["metadata"]
            metadata["ownerReferences"] = [
                {**reference, "name": meta["name"], "uid": meta["uid"], "controller": True}
            ]
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        pod = cluster.client.create("v1", "pods", {"metadata": metadata, "spec": spec}, NS)
        if number < ready:
            pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            cluster.client.update("v1", "pods", pod, "status")


def budget(cluster: Plane, **spec: Any) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    cluster.client.create(POLICY, BUDGETS, body, NS)


def status(cluster: Plane, allowed: int, healthy: int, desired: int, expected: int) -> Object:
    """Wait for these numbers."""
    wanted = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "observedGeneration": 1,
    }

    def look() -> Object | None:
        found: Object = cluster.client.get(POLICY, BUDGETS, "b", NS).get("status") or {}
        return found if wanted.items() <= found.items() else None

    return cluster.until(look, f"status {wanted}")


def replica_set(cluster: Plane, replicas: int) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    return cluster.client.create("apps/v1", "replicasets", body, NS)


def evict(cluster: Plane, name: str) -> None:
    path = f"/api/v1/namespaces/{NS}/pods/{name}/eviction"
    body = {"apiVersion": POLICY, "kind": "Eviction", "metadata": {"name": name}}
    cluster.client.request("POST", path, body=body)


def test_a_number_of_pods_that_must_stay(cluster: Plane) -> None:
    pods(cluster, 3, ready=2)
    budget(cluster, minAvailable=1)
    found = status(cluster, allowed=1, healthy=2, desired=1, expected=3)
    (condition,) = found["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "True",
        "SufficientPods",
    )
    evict(cluster, "p0")
    status(cluster, allowed=0, healthy=1, desired=1, expected=3)
    with pytest.raises(ClientError, match="would violate the pod's disruption budget"):
        evict(cluster, "p1")


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        # 30 % of 5 are 1.5, rounded up to 2; 4 healthy
        ({"minAvailable": "30%"}, 2, 2),
        # 30 % of 5 may be away: 2, rounded up; 5 - 2 must stay
        ({"maxUnavailable": "30%"}, 3, 1),
        ({"maxUnavailable": 1}, 4, 0),
    ],
)
def test_shares_of_what_the_controller_wants(
    cluster: Plane, spec: dict[str, Any], desired: int, allowed: int
) -> None:
    pods(cluster, 4, ready=4, owner=replica_set(cluster, 5))
    budget(cluster, **spec)
    status(cluster, allowed=allowed, healthy=4, desired=desired, expected=5)


def test_a_new_scale_counts(cluster: Plane) -> None:
    pods(cluster, 2, ready=2, owner=replica_set(cluster, 2))
    budget(cluster, maxUnavailable=1)
    status(cluster, allowed=1, healthy=2, desired=1, expected=2)

    def three(obj: Object) -> None:
        obj["spec"]["replicas"] = 3

    cluster.changed("apps/v1", "replicasets", "web", three, namespace=NS)
    status(cluster, allowed=0, healthy=2, desired=2, expected=3)


def test_a_controller_without_a_scale_fails_the_budget(cluster: Plane) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "uid": "u"}}
    pods(cluster, 1, ready=1, owner=owner)
    budget(cluster, maxUnavailable=1)

    def failed() -> Object | None:
        conditions = (cluster.client.get(POLICY, BUDGETS, "b", NS).get("status") or {}).get("conditions")
        return conditions[0] if conditions and conditions[0]["reason"] == "SyncFailed" else None

    condition = cluster.until(failed, "the sync fails")
    assert condition["message"] == "daemonsets.apps does not implement the scale subresource"


def test_an_eviction_without_a_deletion_is_forgotten_after_two_minutes(cluster: Plane) -> None:
    pods(cluster, 2, ready=2)
    budget(cluster, minAvailable=1)
    status(cluster, allowed=1, healthy=2, desired=1, expected=2)
    now = cluster.clock.timestamp()

    def mark(obj: Object) -> None:
        obj["status"]["disruptedPods"] = {"p0": now}
        obj["status"]["disruptionsAllowed"] = 0

    cluster.changed(POLICY, BUDGETS, "b", mark, namespace=NS, subresource="status")
    found = status(cluster, allowed=0, healthy=1, desired=1, expected=2)
    assert found["disruptedPods"] == {"p0": now}
    cluster.clock.advance(121)
    found = status(cluster, allowed=1, healthy=2, desired=1, expected=2)
    assert "disruptedPods" not in found


def test_pods_without_a_controller_are_told(cluster: Plane) -> None:
    pods(cluster, 1, ready=1)
    budget(cluster, maxUnavailable=1)
    status(cluster, allowed=0, healthy=1, desired=0, expected=0)
    events = cluster.until(
        lambda: [one for one in cluster.events("b") if one["reason"] == "UnmanagedPods"], "an event"
    )
    selector = "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert f"(selector: {selector}) were found to be unmanaged" in events[0]["message"]
    assert events[0]["source"]["component"] == "controllermanager"
