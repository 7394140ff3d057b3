"""Identities, rights, reviews and tokens over HTTP (api-machinery section 14)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import (
    BOB,
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    SLICES,
    Http,
    claim,
    config_map,
    pod,
    resource_slice,
    serve,
)

from clusters.embedded.apiserver.thread import ServerThread

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    server = serve()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def http(server: ServerThread) -> Iterator[Http]:
    client = Http(server)
    yield client
    client.close()


@pytest.fixture(scope="module")
def bob(server: ServerThread) -> Iterator[Http]:
    client = Http(server, BOB)
    yield client
    client.close()


def grant(http: Http, name: str, user: str, rules: list[dict[str, Any]]) -> None:
    http.created(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "User", "name": user}
    role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    http.created(
        f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    )


def test_refusals(server: ServerThread, bob: Http) -> None:
    refused = bob.get(SLICES).json
    assert refused["message"] == (
        'resourceslices.resource.k8s.io is forbidden: User "bob" cannot list resource "resourceslices" in API group '
        '"resource.k8s.io" at the cluster scope'
    )
    assert refused["details"] == {"group": "resource.k8s.io", "kind": "resourceslices"}
    unknown = bob.get("/api/v1/namespaces/default/foos").json
    assert unknown["code"] == 403, "authorization comes before the question whether a resource exists"
    stranger = Http(server, "wrong")
    assert stranger.get("/version").json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }
    stranger.close()


def test_rights_on_one_object_cover_its_watch(http: Http, bob: Http) -> None:
    rule = {
        "verbs": ["get", "list", "watch"],
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["one"],
    }
    grant(http, "one-map", "bob", [rule])
    http.created(CONFIG_MAPS, config_map("one"))
    assert bob.get(CONFIG_MAPS).code == 403
    assert bob.get(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Done").code == 200
    with bob.stream(f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Done") as stream:
        assert stream.names(1) == [("ADDED", "one")]


def test_create_by_put_needs_both_rights(http: Http, server: ServerThread) -> None:
    grant(http, "updates-leases", "carol", [
        {"verbs": ["update"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    ])  # fmt: skip
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    refused = http.put(path, {"metadata": {"name": "l"}}, Impersonate_User="carol").json
    assert refused["code"] == 403
    assert 'cannot create resource "leases"' in refused["message"]


def test_impersonation(http: Http, bob: Http) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = http.post(path, review, Impersonate_User="dave", Impersonate_Group="x").json["status"]["userInfo"]
    assert info == {"username": "dave", "groups": ["x", "system:authenticated"]}
    assert bob.post(path, review, Impersonate_User="dave").json["code"] == 403
    assert bob.post(path, review).json["status"]["userInfo"]["username"] == "bob"


def token_of(http: Http, name: str, **spec: Any) -> Any:
    return http.post(f"{ACCOUNTS}/{name}/token", {"spec": spec})


def claims_of(token: str) -> Any:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def test_tokens_of_a_pod_name_its_node(http: Http, server: ServerThread) -> None:
    http.created(ACCOUNTS, {"metadata": {"name": "driver"}})
    http.created("/api/v1/nodes", {"metadata": {"name": "n1"}})
    stored = http.created(PODS, pod("driver-pod", serviceAccountName="driver"))
    http.post(f"{PODS}/driver-pod/binding", {"metadata": {"name": "driver-pod"}, "target": {"name": "n1"}})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "driver-pod", "uid": stored["metadata"]["uid"]}
    answer = token_of(http, "driver", boundObjectRef=reference)
    assert answer.code == 201, answer.body
    token = answer.json["status"]["token"]
    assert claims_of(token)["kubernetes.io"]["node"]["name"] == "n1"
    driver = Http(server, token)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = driver.post(path, {}).json["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:driver"
    assert info["extra"]["authentication.kubernetes.io/node-name"] == ["n1"]
    driver.close()
    assert token_of(http, "driver", expirationSeconds=5).code == 422
    assert token_of(http, "nobody").code == 404


def test_reviews(http: Http) -> None:
    review = http.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "wrong"}})
    assert review.code == 201
    assert review.json["status"] == {"user": {}, "error": "invalid bearer token"}
    good = http.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": BOB}}).json["status"]
    assert (good["authenticated"], good["user"]["username"]) == (True, "bob")
    asked = {"spec": {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert http.post(path, asked).json["status"] == {"allowed": False}
    mine = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert (
        http.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", mine).json["status"]["allowed"]
        is True
    )
    assert http.get(path).code == 405
    rules = http.post(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert rules.code == 201


def test_nodes_are_restricted_to_their_own_slices(http: Http) -> None:
    node = {"Impersonate-User": "system:node:n7", "Impersonate-Group": "system:nodes"}
    http.created("/api/v1/nodes", {"metadata": {"name": "n7"}})
    assert http.post(SLICES, resource_slice("own", nodeName="n7"), **node).code == 201
    foreign = http.post(SLICES, resource_slice("foreign", nodeName="n8"), **node).json
    assert "can only create ResourceSlice with the same NodeName as the requesting node" in foreign["message"]
    assert http.get(SLICES, **node).code == 403
    assert http.get(f"{SLICES}?fieldSelector=spec.nodeName%3Dn7", **node).code == 200


def test_claim_status_needs_the_right_for_its_part(http: Http) -> None:
    grant(http, "claim-status", "erin", [
        {"verbs": ["update", "patch", "get"], "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"]}
    ])  # fmt: skip
    http.created(CLAIMS, claim("guarded"))
    refused = http.patch(f"{CLAIMS}/guarded/status", {"status": {"allocation": {}}}, Impersonate_User="erin")
    assert refused.code == 422
    assert 'resource="resourceclaims/binding", verb="patch"' in refused.json["message"]


def test_nobody_grants_what_he_lacks(http: Http) -> None:
    grant(http, "role-writer", "frank", [
        {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
         "resourceNames": []}
    ])  # fmt: skip
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    role = {"metadata": {"name": "too-much"}, "rules": rules}
    # The wildcard verb includes escalate, so frank is free; grace has but the plain verbs.
    assert http.post(f"{RBAC}/clusterroles", role, Impersonate_User="frank").code == 201
    grant(http, "plain-writer", "grace", [
        {"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    ])  # fmt: skip
    role["metadata"] = {"name": "too-much-2"}
    refused = http.post(f"{RBAC}/clusterroles", role, Impersonate_User="grace")
    assert refused.code == 403
    assert "is attempting to grant RBAC permissions not currently held" in refused.json["message"]


def test_admin_access_is_for_marked_namespaces(http: Http) -> None:
    label = "resource.kubernetes.io/admin-access"
    wanted = claim("admin")
    wanted["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    refused = http.post(CLAIMS, wanted).json
    assert refused["details"]["causes"] == [
        {
            "reason": "FieldValueForbidden",
            "message": f"Forbidden: admin access to devices requires the `{label}: true` label on the containing "
            "namespace",
            "field": "spec.devices.requests[0].adminAccess",
        }
    ]
    template = {"metadata": {"name": "t"}, "spec": {"spec": wanted["spec"]}}
    templates = CLAIMS.replace("resourceclaims", "resourceclaimtemplates")
    assert http.post(templates, template).code == 422
    http.created("/api/v1/namespaces", {"metadata": {"name": "admins", "labels": {label: "true"}}})
    http.created(CLAIMS.replace("default", "admins"), wanted)
    http.created(CLAIMS, claim("status-admin"))
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x", "adminAccess": True}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    causes = http.patch(f"{CLAIMS}/status-admin/status", status).json["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["status.allocation.devices.results[0].adminAccess"]
