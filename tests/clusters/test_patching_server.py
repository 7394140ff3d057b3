"""PATCH requests against the embedded API server (api-machinery sections 6 and 8)."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class Client:
    """One connection as an administrator."""

    def __init__(self, url: str, ca_pem: bytes) -> None:
        context = ssl.create_default_context(cadata=ca_pem.decode())
        target = urlsplit(url)
        self._connection = http.client.HTTPSConnection(target.hostname or "", target.port, context=context)
        self.warnings: list[str] = []

    def send(self, method: str, path: str, body: Any = None, media_type: str = "application/json") -> Any:
        """The code and the decoded answer."""
        headers = {"Authorization": "Bearer admin", "Content-Type": media_type, "User-Agent": "tester/1"}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        self.warnings = response.headers.get_all("Warning") or []
        return response.status, json.loads(response.read())

    def patch(self, path: str, body: Any, media_type: str) -> Any:
        return self.send("PATCH", path, body, media_type)

    def apply(self, path: str, body: Any, manager: str, query: str = "") -> Any:
        return self.patch(f"{path}?fieldManager={manager}{query}", body, APPLY_PATCH)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    tokens = StaticTokens({"admin": User("admin", groups=("system:masters",))})
    thread = ServerThread(ServerConfig(tokens=tokens)).start()
    yield thread
    thread.stop()


@pytest.fixture
def client(server: ServerThread) -> Iterator[Client]:
    found = Client(server.url, server.ca_pem)
    yield found
    found.close()


@pytest.fixture
def name(client: Client, request: pytest.FixtureRequest) -> str:
    """A fresh ConfigMap with data a=1, named after the test."""
    text = request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:60].strip("-")
    code, _ = client.send("POST", MAPS, {"metadata": {"name": text}, "data": {"a": "1"}})
    assert code == 201
    return text


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(
    ("media_type", "patch"),
    [
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}],
        ),
        (MERGE_PATCH, {"data": {"b": "2"}}),
        (STRATEGIC_PATCH, {"data": {"b": "2"}}),
    ],
    ids=["json", "merge", "strategic"],
)
def test_patch_changes_and_tracks(client: Client, name: str, media_type: str, patch: Any) -> None:
    code, obj = client.patch(f"{MAPS}/{name}?fieldManager=two", patch, media_type)
    assert (code, obj["data"]) == (200, {"a": "1", "b": "2"})
    owned = {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}
    assert owned == {
        "tester": {"f:data": {".": {}, "f:a": {}}},
        "two": {"f:data": {"f:b": {}}},
    }


def test_patch_without_effect_is_no_write(client: Client, name: str) -> None:
    _, before = client.send("GET", f"{MAPS}/{name}")
    _, after = client.patch(f"{MAPS}/{name}", {"data": {"a": "1"}}, MERGE_PATCH)
    assert after == before


def test_managed_fields_can_be_replaced_by_json_patch(client: Client, name: str) -> None:
    """kubectl renames its managers this way."""
    _, obj = client.send("GET", f"{MAPS}/{name}")
    entries = [{**entry, "manager": "renamed"} for entry in obj["metadata"]["managedFields"]]
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": entries}]
    _, obj = client.patch(f"{MAPS}/{name}", patch, JSON_PATCH)
    assert [entry["manager"] for entry in obj["metadata"]["managedFields"]] == ["renamed"]


@pytest.mark.parametrize(
    ("media_type", "body", "code", "message"),
    [
        (JSON_PATCH, b"{", 400, "invalid JSON patch"),
        (
            JSON_PATCH,
            [{"op": "test", "path": "/data/a", "value": "9"}],
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            MERGE_PATCH,
            [],
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]",
        ),
        (MERGE_PATCH, {"data": 1}, 422, ' "" is invalid: patch: Invalid value: '),
        (STRATEGIC_PATCH, {"metadata": {"$patch": "x"}}, 500, "unknown patch type: x in map: map[$patch:x]"),
        ("text/plain", b"", 415, "415: Unsupported Media Type"),
    ],
    ids=["no-json", "test-fails", "array", "wrong-type", "directive", "media-type"],
)
def test_refused_patches(
    client: Client, name: str, media_type: str, body: Any, code: int, message: str
) -> None:
    got, status = client.patch(f"{MAPS}/{name}", body, media_type)
    assert got == code
    assert status["message"].startswith(message)


def test_strict_and_warn_for_unknown_fields(client: Client, name: str) -> None:
    code, status = client.patch(f"{MAPS}/{name}?fieldValidation=Strict", {"foo": 1}, MERGE_PATCH)
    assert code == 422
    assert status["message"].endswith(': strict decoding error: unknown field "foo"')
    assert [cause["field"] for cause in status["details"]["causes"]] == ["patch"]
    code, _ = client.patch(f"{MAPS}/{name}", {"foo": 1}, MERGE_PATCH)
    assert (code, client.warnings) == (200, ['299 - "unknown field \\"foo\\""'])


def test_patch_of_a_missing_object_is_404_but_apply_creates(client: Client) -> None:
    path = f"{MAPS}/made-by-apply"
    assert client.patch(path, {"data": {}}, MERGE_PATCH)[0] == 404
    code, obj = client.apply(path, config_map("made-by-apply", a="1"), "m1")
    assert (code, obj["data"]) == (201, {"a": "1"})
    code, again = client.apply(path, config_map("made-by-apply", a="1"), "m1")
    assert (code, again) == (200, obj)


def test_apply_by_two_managers_conflicts_until_forced(client: Client, name: str) -> None:
    path = f"{MAPS}/{name}"
    code, status = client.apply(path, config_map(name, a="2", b="1"), "two")
    assert code == 409
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "tester" using v1: .data.a'
    code, obj = client.apply(path, config_map(name, a="2", b="1"), "two", "&force=true")
    assert (code, obj["data"]) == (200, {"a": "2", "b": "1"})
    nothing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    _, obj = client.apply(path, nothing, "two")
    # tester lost a to the force, so nobody owns it any more; it owns the map itself still.
    assert "data" not in obj
    assert [entry["manager"] for entry in obj["metadata"]["managedFields"]] == ["tester"]


def test_apply_body_is_yaml(client: Client, name: str) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\nimmutable: yes\n".encode()
    code, obj = client.apply(f"{MAPS}/{name}", body, "m")
    assert (code, obj["immutable"]) == (200, True)


def test_apply_of_status_owns_the_status_alone(client: Client) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "with-status"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    }
    assert client.send("POST", CLAIMS, claim)[0] == 201
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
    status = {"allocation": {"devices": {"results": [result]}}}
    path = f"{CLAIMS}/with-status/status"
    config = {**claim, "metadata": {"name": "with-status", "labels": {"a": "b"}}, "status": status}
    code, obj = client.apply(path, config, "m")
    assert code == 200, obj
    entry = next(entry for entry in obj["metadata"]["managedFields"] if entry["manager"] == "m")
    assert (entry["subresource"], list(entry["fieldsV1"])) == ("status", ["f:status"])
    assert "labels" not in obj["metadata"]


def test_what_admission_sets_is_owned_by_nobody(client: Client) -> None:
    pod = {"metadata": {"name": "tracked"}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    client.send("POST", accounts, {"metadata": {"name": "default"}})
    code, obj = client.send("POST", "/api/v1/namespaces/default/pods", pod)
    assert code == 201, obj
    (entry,) = obj["metadata"]["managedFields"]
    assert obj["spec"]["serviceAccountName"] == "default"
    assert "f:containers" in entry["fieldsV1"]["f:spec"]
    assert not {"f:serviceAccountName", "f:serviceAccount", "f:volumes"} & entry["fieldsV1"]["f:spec"].keys()


@pytest.mark.parametrize(
    ("born_with_secrets", "failure"),
    [
        (
            True,
            (
                "failed to create manager for existing fields: failed to convert new object "
                "(default/{}; /v1, Kind=ServiceAccount) to smd typed: "
            ),
        ),
        (False, "failed to create typed live object (default/{}; /v1, Kind=ServiceAccount): "),
    ],
)
def test_apply_to_an_object_whose_items_lack_their_key(
    client: Client, born_with_secrets: bool, failure: str
) -> None:
    name = f"nameless-{born_with_secrets}".lower()
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = {"metadata": {"name": name}, "automountServiceAccountToken": False}
    nameless = {**account, "secrets": [{"namespace": "x"}]}
    client.send("POST", accounts, nameless if born_with_secrets else account)
    code, stored = client.send("PUT", f"{accounts}/{name}", nameless)
    assert code == 200
    assert ("managedFields" in stored["metadata"]) is not born_with_secrets, "such an object is not tracked"
    config = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": {"a": "b"}}}
    code, answer = client.apply(f"{accounts}/{name}", config, "m")
    assert (code, answer["message"]) == (
        500,
        failure.format(name)
        + '.secrets: element 0: associative list with keys has an element that omits all key fields ["name"] '
        "(and doesn't have default values for any key fields)",
    )
    assert "reason" not in answer
