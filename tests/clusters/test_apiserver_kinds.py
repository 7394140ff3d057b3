"""What is special about single kinds over HTTP (api-machinery sections 7, 16 and 20)."""

from __future__ import annotations

from typing import Any

from apiserver_harness import PODS, Http, config_map, connected, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def test_pods_start_pending_with_defaults(http: Http) -> None:
    stored = http.created(PODS, {**pod("defaults"), "status": {"phase": "Running"}})
    spec = stored["spec"]
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["metadata"]["generation"] == 1
    assert (spec["restartPolicy"], spec["schedulerName"], spec["priority"]) == (
        "Always",
        "default-scheduler",
        0,
    )
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert http.patch(f"{PODS}/defaults", {"spec": {"hostNetwork": True}}).code == 422


def test_pod_claims_are_checked(http: Http) -> None:
    wrong = pod("claims", resourceClaims=[{"name": "c"}])
    wrong["spec"]["containers"][0]["resources"] = {"claims": [{"name": "d"}]}
    causes = {c["field"]: c["message"] for c in http.post(PODS, wrong).json["details"]["causes"]}
    assert causes.keys() == {"spec.resourceClaims[0]", "spec.containers[0].resources.claims[0]"}


def test_namespace_life(http: Http) -> None:
    space = http.created("/api/v1/namespaces", {"metadata": {"name": "life"}})
    assert space["spec"] == {"finalizers": ["kubernetes"]}
    assert space["status"] == {"phase": "Active"}
    assert space["metadata"]["labels"] == {"kubernetes.io/metadata.name": "life"}
    going = http.delete("/api/v1/namespaces/life").json
    assert going["status"] == {"phase": "Terminating"}
    assert "deletionGracePeriodSeconds" not in going["metadata"]
    refused = http.post("/api/v1/namespaces/life/configmaps", config_map("late"))
    assert refused.code == 403
    cause = refused.json["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("NamespaceTerminating", "metadata.namespace")
    gone = http.put("/api/v1/namespaces/life/finalize", {**going, "spec": {}})
    assert gone.code == 200
    assert http.get("/api/v1/namespaces/life").code == 404
    kept = http.delete("/api/v1/namespaces/default").json
    assert (kept["code"], kept["message"]) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


def test_secrets_merge_plain_data(http: Http) -> None:
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
    stored = http.created("/api/v1/namespaces/default/secrets", body)
    # base64 of "b" is Yg==
    assert stored["data"] == {"a": "Yg==", "c": "ZA=="}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_events_of_both_groups_are_one_object(http: Http) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Tested",
        "message": "hello",
        "type": "Normal",
    }
    core = http.created("/api/v1/namespaces/default/events", event)
    assert core["source"] == {}
    assert core["firstTimestamp"] is None
    view = http.get("/apis/events.k8s.io/v1/namespaces/default/events/e1").json
    assert (view["apiVersion"], view["regarding"]["name"], view["note"]) == ("events.k8s.io/v1", "p", "hello")
    assert view["deprecatedSource"] == {}
    refused = http.post("/apis/events.k8s.io/v1/namespaces/default/events", {"metadata": {"name": "e2"}})
    assert refused.code == 422
    assert {c["field"] for c in refused.json["details"]["causes"]} == {"eventTime", "type"}


def test_leases_are_created_by_put_and_need_a_version(http: Http) -> None:
    lease = {"metadata": {"name": "l1", "resourceVersion": "999999"}, "spec": {"holderIdentity": "a"}}
    created = http.put(f"{LEASES}/l1", lease)
    assert created.code == 201, created.body
    answer = http.put(f"{LEASES}/l1", {"metadata": {"name": "l1"}, "spec": {"holderIdentity": "b"}})
    assert answer.json["message"] == (
        'leases.coordination.k8s.io "l1" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for '
        "an update"
    )
    assert answer.json["details"]["kind"] == "leases"
    renewed = http.put(f"{LEASES}/l1", {**created.json, "spec": {"holderIdentity": "b"}})
    assert renewed.json["spec"] == {"holderIdentity": "b"}


def test_events_end_an_hour_after_their_last_write() -> None:
    now = [1_800_000_000.0]
    with connected(clock=lambda: now[0]) as http:
        path = "/api/v1/namespaces/default/events"
        involved = {"kind": "Pod", "name": "p", "namespace": "default"}
        for name in ("kept", "old"):
            http.created(path, {"metadata": {"name": name}, "involvedObject": involved})
        now[0] += 3599
        http.patch(f"{path}/kept", {"count": 2})
        with http.stream(f"{path}?watch=true&resourceVersion=0") as stream:
            assert stream.names(2) == [("ADDED", "kept"), ("ADDED", "old")]
            now[0] += 1
            assert [item["metadata"]["name"] for item in http.get(path).json["items"]] == ["kept"]
            assert stream.names(1) == [("DELETED", "old")]


def _condition(kind: str, **more: object) -> dict[str, object]:
    return {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": None, **more}


def test_binding_replaces_the_condition_in_its_place(http: Http) -> None:
    http.created(PODS, pod("bound"))
    waiting = _condition("PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    status = {"nominatedNodeName": "n9", "conditions": [waiting, _condition("Other")]}
    assert http.patch(f"{PODS}/bound/status", {"status": status}).code == 200
    stale = {"metadata": {"name": "bound", "resourceVersion": "1"}, "target": {"kind": "Node", "name": "n9"}}
    refused = http.post(f"{PODS}/bound/binding", stale).json
    assert (refused["code"], refused["reason"]) == (409, "Conflict")
    binding = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": "n9"}}
    assert http.post(f"{PODS}/bound/binding", binding).code == 201
    found = http.get(f"{PODS}/bound").json["status"]
    assert "nominatedNodeName" not in found
    assert [(c["type"], c["status"]) for c in found["conditions"]] == [
        ("PodScheduled", "True"),
        ("Other", "True"),
    ]
    assert "reason" not in found["conditions"][0]
    late = http.patch(f"{PODS}/bound/status", {"status": {"nominatedNodeName": "n8"}})
    assert late.json["details"]["causes"][0]["message"] == (
        "Forbidden: may not be set on pods that are already bound to a node"
    )


def test_observed_generations_are_not_lost(http: Http) -> None:
    http.created(PODS, pod("observed"))
    path = f"{PODS}/observed/status"
    http.patch(
        path, {"status": {"observedGeneration": 1, "conditions": [_condition("Ready", observedGeneration=1)]}}
    )
    after = http.patch(
        path, {"status": {"observedGeneration": None, "conditions": [_condition("Ready")]}}
    ).json
    assert after["status"]["observedGeneration"] == 1
    assert after["status"]["conditions"][0]["observedGeneration"] == 1


def test_ended_containers_stay_ended(http: Http) -> None:
    http.created(PODS, pod("ended", restartPolicy="OnFailure"))
    path = f"{PODS}/ended/status"

    def report(state: dict[str, object]) -> Any:
        entry = {"name": "a", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        return http.patch(path, {"status": {"containerStatuses": [entry]}})

    assert report({"terminated": {"exitCode": 1}}).code == 200
    assert report({"waiting": {}}).code == 200
    assert report({"terminated": {"exitCode": 0}}).code == 200
    cause = report({"waiting": {}}).json["details"]["causes"][0]
    assert (cause["field"], cause["message"]) == (
        "status.containerStatuses[0].state",
        "Forbidden: may not be transitioned to non-terminated state",
    )
