"""Discovery, version, health and OpenAPI over HTTP (api-machinery sections 1, 2, 4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apiserver_harness import BOB, Http, claim, serve

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@pytest.fixture(scope="module")
def old_versions() -> Iterator[Http]:
    server = serve(runtime_config={"api/all": True})
    client = Http(server)
    yield client
    client.close()
    server.stop()


def test_legacy_documents(http: Http) -> None:
    assert http.get("/api").json["versions"] == ["v1"]
    groups = {group["name"]: group for group in http.get("/apis").json["groups"]}
    assert groups["resource.k8s.io"] == {
        "name": "resource.k8s.io",
        "versions": [{"groupVersion": "resource.k8s.io/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "resource.k8s.io/v1", "version": "v1"},
    }
    assert http.get("/apis/resource.k8s.io").json["kind"] == "APIGroup"
    entries = {entry["name"]: entry for entry in http.get("/api/v1").json["resources"]}
    assert entries["pods"]["shortNames"] == ["po"]
    assert entries["pods"]["categories"] == ["all"]
    assert entries["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert entries["namespaces"]["verbs"] == [verb for verb in ALL_VERBS if verb != "deletecollection"]
    assert entries["nodes/status"]["verbs"] == ["get", "patch", "update"]


@pytest.mark.parametrize("path", ["/api/", "/apis/", "/version/", "/api/v1/", "/apis/resource.k8s.io/v1/"])
def test_trailing_slashes(http: Http, path: str) -> None:
    assert http.get(path).json == http.get(path.rstrip("/")).json


def test_everything_listed_is_served(http: Http) -> None:
    for group in http.get("/apis").json["groups"]:
        for version in group["versions"]:
            assert http.get(f"/apis/{version['groupVersion']}").code == 200


def test_aggregated_form(http: Http) -> None:
    answer = http.get("/apis", Accept=f"{AGGREGATED},application/json")
    assert answer.headers["Content-Type"] == AGGREGATED
    assert answer.headers["Vary"] == "Accept"
    assert answer.headers["Cache-Control"] == "public"
    items = {item["metadata"]["name"]: item for item in answer.json["items"]}
    resources = {r["resource"]: r for r in items["resource.k8s.io"]["versions"][0]["resources"]}
    assert resources["resourceclaims"] == {
        "resource": "resourceclaims",
        "responseKind": {"group": "", "version": "", "kind": "ResourceClaim"},
        "scope": "Namespaced",
        "singularResource": "resourceclaim",
        "verbs": ALL_VERBS,
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "", "version": "", "kind": "ResourceClaim"},
                "verbs": ["get", "patch", "update"],
            }
        ],
    }
    again = http.get("/apis", Accept=AGGREGATED, If_None_Match=answer.headers["ETag"])
    assert (again.code, again.body) == (304, b"")
    assert http.get("/api", Accept=AGGREGATED).json["items"][0]["metadata"] == {}
    assert http.get("/apis", Accept=AGGREGATED.replace("v=v2", "v=v2beta1")).code == 406


def test_old_versions_are_served_on_demand(http: Http, old_versions: Http) -> None:
    path = "/apis/resource.k8s.io/v1beta1/namespaces/default/resourceclaims"
    assert http.get(path).code == 404
    group = old_versions.get("/apis/resource.k8s.io").json
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]
    assert group["preferredVersion"]["version"] == "v1"
    body = {
        "metadata": {"name": "old"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}},
    }
    answer = old_versions.post(path, body)
    assert answer.code == 201, answer.body
    assert answer.headers["Warning"] == (
        '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
    )
    request = {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}
    assert answer.json["spec"]["devices"]["requests"] == [request]
    new = old_versions.get(path.replace("v1beta1", "v1") + "/old").json
    assert new["apiVersion"] == "resource.k8s.io/v1"
    exactly = {key: value for key, value in request.items() if key != "name"}
    assert new["spec"]["devices"]["requests"] == [{"name": "r", "exactly": exactly}]
    old_versions.created(path.replace("v1beta1", "v1"), claim("new"))
    listed = old_versions.get(path).json
    assert (listed["apiVersion"], len(listed["items"])) == ("resource.k8s.io/v1beta1", 2)


def test_unknown_runtime_config_is_named() -> None:
    with pytest.raises(
        ValueError, match=r'unknown API version "resource.k8s.io/v7"; allowed: .*resource.k8s.io/v1beta1'
    ):
        serve(runtime_config={"resource.k8s.io/v7": True})


def test_version_and_health(http: Http) -> None:
    version = http.get("/version").json
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "37", "v1.37.2")
    for path in ("/healthz", "/livez", "/readyz"):
        answer = http.get(path)
        assert (answer.code, answer.body) == (200, b"ok")
    assert http.get("/readyz?verbose").body.endswith(b"readyz check passed\n")
    assert "/apis/resource.k8s.io/v1" in http.get("/").json["paths"]


def test_openapi_documents(http: Http) -> None:
    index = http.get("/openapi/v3").json["paths"]
    url = index["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    answer = http.get(url)
    assert answer.headers["Cache-Control"] == "public, immutable"
    path = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
    patch = answer.json["paths"][path]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "resource.k8s.io",
        "version": "v1",
        "kind": "ResourceClaim",
    }
    schema = answer.json["components"]["schemas"]["io.k8s.api.resource.v1.ResourceClaim"]
    assert schema["x-kubernetes-group-version-kind"] == [patch["x-kubernetes-group-version-kind"]]
    assert "spec" in schema["properties"]
    moved = http.get("/openapi/v3/apis/resource.k8s.io/v1?hash=old")
    assert (moved.code, moved.headers["Location"]) == (301, url)
    assert http.get("/openapi/v3/apis/nope/v1").code == 404
    assert http.get("/openapi/v1").code == 404


def test_discovery_needs_authentication_only(http: Http) -> None:
    bob = Http(http._server, BOB)
    anonymous = Http(http._server, None)
    try:
        assert bob.get("/apis").code == 200
        assert anonymous.get("/apis").code == 403
        assert anonymous.get("/healthz").code == 200
        assert anonymous.get("/version").code == 200
    finally:
        bob.close()
        anonymous.close()
