"""GET, lists, tables and content negotiation over HTTP (api-machinery sections 1, 3, 10, 18)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from apiserver_harness import (
    CLAIMS,
    CONFIG_MAPS,
    SLICES,
    TABLE,
    Http,
    claim,
    config_map,
    resource_slice,
    serve,
)

from clusters.embedded.apiserver.thread import ServerThread


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    server = serve()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def http(server: ServerThread) -> Iterator[Http]:
    client = Http(server)
    for space, name in (("b", "x"), ("a", "z"), ("a", "y"), ("a-b", "x")):
        if client.get(f"/api/v1/namespaces/{space}").code == 404:
            client.created("/api/v1/namespaces", {"metadata": {"name": space}})
        body = config_map(name, from_namespace=space)
        body["metadata"]["labels"] = {"space": space, "number": "7" if name == "y" else "3"}
        client.created(f"/api/v1/namespaces/{space}/configmaps", body)
    yield client
    client.close()


ALL = "/api/v1/configmaps"


def keys(body: Any) -> list[str]:
    return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in body["items"]]


def test_lists_are_ordered_by_namespace_and_name_as_bytes(http: Http) -> None:
    body = http.get(ALL).json
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    # "-" (0x2d) sorts before "/" (0x2f).
    assert keys(body) == ["a-b/x", "a/y", "a/z", "b/x"]
    assert all("kind" not in item and "apiVersion" not in item for item in body["items"])
    assert keys(http.get("/api/v1/namespaces/a/configmaps").json) == ["a/y", "a/z"]
    assert http.get("/api/v1/namespaces/none/configmaps").json["items"] == []


def test_list_revision_is_the_current_one(http: Http) -> None:
    before = int(http.get(ALL).json["metadata"]["resourceVersion"])
    http.created("/api/v1/nodes", {"metadata": {"name": "bump"}})
    assert int(http.get(ALL).json["metadata"]["resourceVersion"]) == before + 1


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("space=a", ["a/y", "a/z"]),
        ("space==a,number=7", ["a/y"]),
        ("space!=a", ["a-b/x", "b/x"]),
        ("space in (a,b)", ["a/y", "a/z", "b/x"]),
        ("space notin (a,b)", ["a-b/x"]),
        ("!space", []),
        ("space", ["a-b/x", "a/y", "a/z", "b/x"]),
        ("number>5", ["a/y"]),
        ("number<5", ["a-b/x", "a/z", "b/x"]),
    ],
)
def test_label_selectors(http: Http, selector: str, expected: list[str]) -> None:
    query = (
        selector.replace("=", "%3D")
        .replace(" ", "%20")
        .replace(">", "%3E")
        .replace("<", "%3C")
        .replace("!", "%21")
    )
    assert keys(http.get(f"{ALL}?labelSelector={query}").json) == expected


def test_bad_selectors(http: Http) -> None:
    assert (
        http.get(f"{ALL}?labelSelector=a%3Db%3Dc").json["message"]
        == "found '=', expected: ',' or 'end of string'"
    )
    field = http.get(f"{ALL}?fieldSelector=foo").json
    assert field["code"] == 400
    assert "can't understand 'foo'" in field["message"]
    assert http.get(f"{ALL}?fieldSelector=data.a%3Db").json["message"] == (
        '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    assert http.get("/api/v1/pods?fieldSelector=foo%3Db").json["message"] == "field label not supported: foo"


def test_pages_keep_their_revision(http: Http) -> None:
    first = http.get(f"{ALL}?limit=2").json
    assert keys(first) == ["a-b/x", "a/y"]
    assert first["metadata"]["remainingItemCount"] == 2
    token = first["metadata"]["continue"]
    http.created("/api/v1/namespaces/b/configmaps", config_map("later"))
    http.delete("/api/v1/namespaces/a/configmaps/z")
    second = http.get(f"{ALL}?limit=2&continue={token}").json
    assert keys(second) == ["a/z", "b/x"], "what the first page saw, not what changed since"
    assert "continue" not in second["metadata"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    http.delete("/api/v1/namespaces/b/configmaps/later")
    restored = config_map("z", from_namespace="a")
    restored["metadata"]["labels"] = {"space": "a", "number": "3"}
    http.created("/api/v1/namespaces/a/configmaps", restored)
    selected = http.get(f"{ALL}?limit=1&labelSelector=space%3Da").json
    assert "remainingItemCount" not in selected["metadata"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=="))
    assert decoded["v"] == "meta.k8s.io/v1"


def test_an_expired_page_offers_to_go_on(server: ServerThread, http: Http) -> None:
    token = http.get(f"{ALL}?limit=2").json["metadata"]["continue"]
    http.created(CONFIG_MAPS, config_map("expires-the-page"))
    server.call(server.state.store.compact)
    expired = http.get(f"{ALL}?limit=2&continue={token}").json
    assert (expired["code"], expired["reason"]) == (410, "Expired")
    assert expired["message"].startswith(
        "The provided continue parameter is too old to display a consistent list"
    )
    again = http.get(f"{ALL}?limit=9&continue={expired['metadata']['continue']}").json
    assert keys(again) == ["a/z", "b/x", "default/expires-the-page"]
    http.delete(f"{CONFIG_MAPS}/expires-the-page")


def test_revision_zero_ignores_the_limit(http: Http) -> None:
    body = http.get(f"{ALL}?limit=1&resourceVersion=0").json
    assert len(body["items"]) == 4
    assert "continue" not in body["metadata"]


def test_exact_revision(http: Http) -> None:
    revision = http.get(ALL).json["metadata"]["resourceVersion"]
    http.created(CONFIG_MAPS, config_map("after"))
    past = http.get(f"{ALL}?resourceVersion={revision}&resourceVersionMatch=Exact").json
    assert "default/after" not in keys(past)
    assert past["metadata"]["resourceVersion"] == revision
    http.delete(f"{CONFIG_MAPS}/after")
    assert keys(http.get(f"{ALL}?resourceVersion={revision}").json) == keys(http.get(ALL).json)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            "resourceVersionMatch=Exact",
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            'resourceVersionMatch "exact" is forbidden for',
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Foo",
            422,
            'Unsupported value: "Foo": supported values: "Exact", "N',
        ),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("resourceVersion=x", 400, "invalid resource version"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("continue=abc&limit=1", 400, "continue key is not valid"),
        (
            "continue=abc&resourceVersion=5",
            400,
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
def test_bad_list_options(http: Http, query: str, code: int, message: str) -> None:
    body = http.get(f"{ALL}?{query}").json
    assert body["code"] == code
    assert message in body["message"]


def test_future_revision_times_out(http: Http) -> None:
    answer = http.get(f"{CONFIG_MAPS}?resourceVersion=999999")
    current = http.get(ALL).json["metadata"]["resourceVersion"]
    assert answer.code == 504
    assert answer.headers["Retry-After"] == "1"
    assert answer.json["message"] == f"Timeout: Too large resource version: 999999, current: {current}"
    assert answer.json["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


def test_missing_objects_and_paths(http: Http) -> None:
    missing = http.get("/apis/resource.k8s.io/v1/resourceslices/x").json
    assert missing["details"] == {"name": "x", "group": "resource.k8s.io", "kind": "resourceslices"}
    unknown = http.get("/api/v1/namespaces/default/foos")
    assert unknown.json["message"] == "the server could not find the requested resource"
    assert unknown.json["details"] == {}
    for path in (
        "/foo",
        "/apis/nope/v1/things",
        "/apis/resource.k8s.io/v9/resourceslices",
        "/api/v2/pods",
        "/apis//v1/pods",
    ):
        answer = http.get(path)
        assert (answer.code, answer.body) == (404, b"404 page not found\n"), path
        assert answer.headers["Content-Type"].startswith("text/plain")
    assert http.get(f"{SLICES}/x/status").code == 404
    assert http.get("/api/v1/pods/x").code == 404


def test_wrong_methods(http: Http) -> None:
    for method, path in (
        ("POST", ALL),
        ("DELETE", "/api/v1/namespaces"),
        ("PUT", CONFIG_MAPS),
        ("POST", f"{CONFIG_MAPS}/x"),
    ):
        body = http.request(method, path, {}).json
        assert (body["code"], body["details"]) == (405, {}), (method, path)
        assert body["message"] == "the server does not allow this method on the requested resource"


def test_every_answer_has_its_headers(http: Http) -> None:
    for path in (ALL, "/nope", f"{CONFIG_MAPS}/none", "/version"):
        headers = http.get(path).headers
        assert headers["Cache-Control"] == "no-cache, private"
        assert headers["Audit-Id"]


def test_json_is_compact_unless_asked_for(http: Http) -> None:
    assert http.get(CONFIG_MAPS).body.count(b"\n") == 1
    assert http.get(f"{CONFIG_MAPS}?pretty=true").body.count(b"\n") > 1
    assert http.get(CONFIG_MAPS, User_Agent="curl/8").body.count(b"\n") > 1


def test_yaml_answers(http: Http) -> None:
    answer = http.get("/api/v1/namespaces/a/configmaps/y", Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(answer.body) == http.get("/api/v1/namespaces/a/configmaps/y").json


def test_not_acceptable(http: Http) -> None:
    answer = http.get(ALL, Accept="application/*")
    assert answer.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
        "reason": "NotAcceptable",
        "details": {},
        "code": 406,
    }


def test_large_lists_are_compressed_when_asked(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("large", a="x" * 200_000))
    answer = http.request("GET", f"{CONFIG_MAPS}/large", None, None, Accept_Encoding="gzip")
    assert answer.headers["Content-Encoding"] == "gzip"
    # urllib3 has unpacked it already.
    assert answer.json["data"]["a"] == "x" * 200_000
    plain = http.request("GET", f"{CONFIG_MAPS}/large", None, None, Accept_Encoding="identity")
    assert "Content-Encoding" not in plain.headers
    assert gzip.compress(plain.body)
    http.delete(f"{CONFIG_MAPS}/large")


def test_tables(http: Http) -> None:
    http.created(CLAIMS, claim("t"))
    table = http.get(CLAIMS, Accept=f"{TABLE},application/json").json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "State", "Age"]
    row = table["rows"][0]
    assert row["cells"][:2] == ["t", "pending"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert http.get(f"{CLAIMS}?includeObject=None", Accept=TABLE).json["rows"][0]["object"] is None
    assert "spec" in http.get(f"{CLAIMS}?includeObject=Object", Accept=TABLE).json["rows"][0]["object"]
    assert http.get(f"{CLAIMS}?includeObject=Foo", Accept=TABLE).code == 400
    empty = http.get("/api/v1/namespaces/a/pods", Accept=TABLE).json
    assert empty["rows"] == []
    http.created(SLICES, resource_slice("t1"))
    assert http.get(f"{SLICES}/t1", Accept=TABLE).json["rows"][0]["cells"][:4] == [
        "t1",
        "n1",
        "gpu.example.com",
        "n1",
    ]


def test_partial_metadata_lists(http: Http) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    body = http.get("/api/v1/namespaces/a/configmaps", Accept=accept).json
    assert body["kind"] == "PartialObjectMetadataList"
    assert body["items"][0]["kind"] == "PartialObjectMetadata"
    assert "data" not in body["items"][0]
    assert http.get("/api/v1/namespaces/a/configmaps/y", Accept=accept).code == 406


def test_unknown_query_parameters_are_ignored(http: Http) -> None:
    assert http.get(f"{ALL}?timeout=32s&foo=bar").code == 200


def test_long_selectors(http: Http) -> None:
    names = ",".join(f"name-{number}" for number in range(3000))
    assert http.get(f"{ALL}?labelSelector=space%20in%20({names})").json["items"] == []
