"""DELETE over HTTP (api-machinery section 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import (
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    SLICES,
    Http,
    claim,
    config_map,
    connected,
    pod,
    resource_slice,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def http(clock: Clock) -> Iterator[Http]:
    with connected(clock=clock) as client:
        yield client


def scheduled(http: Http, name: str, **spec: Any) -> Any:
    http.created(PODS, pod(name, **spec))
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}
    assert http.post(f"{PODS}/{name}/binding", target).code == 201
    return http.get(f"{PODS}/{name}").json


def test_most_kinds_answer_with_a_status(http: Http) -> None:
    stored = http.created(LEASES, {"metadata": {"name": "x"}, "spec": {}})
    assert http.delete(f"{LEASES}/x").json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "x",
            "group": "coordination.k8s.io",
            "kind": "leases",
            "uid": stored["metadata"]["uid"],
        },
    }


def test_device_kinds_answer_with_the_object(http: Http) -> None:
    stored = http.created(SLICES, resource_slice("x"))
    gone = http.delete(f"{SLICES}/x").json
    assert gone["kind"] == "ResourceSlice"
    assert int(gone["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])
    http.created(CLAIMS, claim("x"))
    assert http.delete(f"{CLAIMS}/x").json["kind"] == "ResourceClaim"


def test_missing(http: Http) -> None:
    assert http.delete(f"{CONFIG_MAPS}/none").json["reason"] == "NotFound"


def test_preconditions(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, config_map("u1"))["metadata"]
    wrong = http.delete(f"{CONFIG_MAPS}/u1", {"preconditions": {"uid": "abc"}}).json
    assert wrong["message"] == (
        f'Operation cannot be fulfilled on ConfigMap "u1": the UID in the precondition (abc) does not match the UID in '
        f"record ({stored['uid']}). The object might have been deleted and then recreated"
    )
    assert wrong["details"] == {"name": "u1", "kind": "ConfigMap"}
    stale = http.delete(f"{CONFIG_MAPS}/u1", {"preconditions": {"resourceVersion": "1"}}).json
    assert stale["message"].endswith(
        f"the ResourceVersion in the precondition (1) does not match the ResourceVersion in record "
        f"({stored['resourceVersion']}). The object might have been modified"
    )
    good = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": stored["uid"]}}
    assert http.delete(f"{CONFIG_MAPS}/u1", good).code == 200


def test_options(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("options"))
    path = f"{CONFIG_MAPS}/options"
    assert http.delete(path, {"kind": "Foo", "apiVersion": "v1"}).code == 400
    policy = http.delete(path, {"propagationPolicy": "Never"}).json
    assert policy["code"] == 422
    assert policy["message"].startswith('DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: ')
    both = http.delete(path, {"propagationPolicy": "Orphan", "orphanDependents": True}).json
    assert both["code"] == 422
    assert http.delete(f"{path}?dryRun=All").code == 200
    assert http.get(path).code == 200
    empty = http.request("DELETE", path, b"", "application/json")
    assert empty.json["status"] == "Success"


def test_propagation_policies_become_finalizers(http: Http) -> None:
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        http.created(CONFIG_MAPS, config_map("policy"))
        body = http.delete(f"{CONFIG_MAPS}/policy?propagationPolicy={policy}").json
        assert body["metadata"]["finalizers"] == [finalizer]
        assert body["metadata"]["deletionGracePeriodSeconds"] == 0
        # The other policy takes its place, none removes it.
        assert http.delete(f"{CONFIG_MAPS}/policy?propagationPolicy=Background").json["status"] == "Success"


def test_unscheduled_and_finished_pods_go_at_once(http: Http) -> None:
    http.created(PODS, pod("unscheduled"))
    assert http.delete(f"{PODS}/unscheduled").json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert http.get(f"{PODS}/unscheduled").code == 404
    scheduled(http, "finished")
    http.patch(f"{PODS}/finished/status", {"status": {"phase": "Succeeded"}})
    http.delete(f"{PODS}/finished")
    assert http.get(f"{PODS}/finished").code == 404


def test_scheduled_pods_get_their_grace(http: Http, clock: Clock) -> None:
    scheduled(http, "grace")
    path = f"{PODS}/grace"
    first = http.delete(path).json
    # 08:00:00 + 30 s
    assert first["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    assert first["metadata"]["deletionGracePeriodSeconds"] == 30
    assert first["metadata"]["generation"] == 2
    assert http.delete(path).json == first
    assert http.delete(f"{path}?gracePeriodSeconds=60").json == first, "a grace is never made longer"
    shorter = http.delete(f"{path}?gracePeriodSeconds=10").json["metadata"]
    # The start of the deletion, 08:00:00, + 10 s
    assert (shorter["deletionTimestamp"], shorter["deletionGracePeriodSeconds"]) == (
        "2027-01-15T08:00:10Z",
        10,
    )
    clock.now += 60
    late = http.delete(f"{path}?gracePeriodSeconds=5").json["metadata"]
    assert late["deletionTimestamp"] == "2027-01-15T08:01:00Z", "not before now"
    uid = first["metadata"]["uid"]
    final = http.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    assert final.json["metadata"]["deletionGracePeriodSeconds"] == 0
    assert http.get(path).code == 404
    clock.now = NOW


def test_finalizers_of_a_pod_outlast_its_grace(http: Http) -> None:
    body = pod("held")
    body["metadata"]["finalizers"] = ["a.b/c"]
    http.created(PODS, body)
    held = http.delete(f"{PODS}/held").json
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert http.get(f"{PODS}/held").code == 200
    http.patch(f"{PODS}/held", {"metadata": {"finalizers": []}})
    assert http.get(f"{PODS}/held").code == 404


def test_generation_counts_the_start_of_a_deletion(http: Http) -> None:
    body = resource_slice("counted")
    body["metadata"]["finalizers"] = ["a.b/c"]
    http.created(SLICES, body)
    assert http.delete(f"{SLICES}/counted").json["metadata"]["generation"] == 2


def test_collections(http: Http) -> None:
    for name in ("c1", "c2", "kept"):
        body = config_map(name)
        body["metadata"]["labels"] = {"set": "no" if name == "kept" else "yes"}
        http.created(CONFIG_MAPS, body)
    answer = http.delete(f"{CONFIG_MAPS}?labelSelector=set%3Dyes").json
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["c1", "c2"]
    assert all("deletionTimestamp" not in item["metadata"] for item in answer["items"])
    left = [item["metadata"]["name"] for item in http.get(CONFIG_MAPS).json["items"]]
    assert "kept" in left
    assert "c1" not in left


def test_deletion_of_a_pod_is_two_events(http: Http) -> None:
    since = http.get(PODS).json["metadata"]["resourceVersion"]
    http.created(PODS, pod("events"))
    http.delete(f"{PODS}/events")
    with http.stream(f"{PODS}?watch=1&resourceVersion={since}") as stream:
        assert stream.names(3) == [("ADDED", "events"), ("MODIFIED", "events"), ("DELETED", "events")]


def test_binding(http: Http) -> None:
    bound = scheduled(http, "bound")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["generation"] == 1
    assert bound["status"]["conditions"][0]["type"] == "PodScheduled"
    again = http.post(f"{PODS}/bound/binding", {"metadata": {"name": "bound"}, "target": {"name": "n2"}}).json
    assert again["message"] == (
        'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"'
    )
    assert again["details"] == {"name": "bound", "kind": "pods/binding"}
    http.created(PODS, pod("bound2"))
    other = http.post(
        "/api/v1/namespaces/default/bindings", {"metadata": {"name": "bound2"}, "target": {"name": "n2"}}
    )
    assert other.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def test_eviction(http: Http) -> None:
    scheduled(http, "evicted")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    assert http.post(f"{PODS}/evicted/eviction", {**body, "metadata": {"name": "x"}}).json["message"] == (
        "name in URL does not match name in Eviction object"
    )
    assert http.post(f"{PODS}/evicted/eviction", body).json["status"] == "Success"
    assert "deletionTimestamp" in http.get(f"{PODS}/evicted").json["metadata"]
