"""Admission policies of both kinds: the answers of a real server of Kubernetes 1.37.2, recorded in data/."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import recorded
from apiserver_harness import ADMIN, BOB, Http

from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

GROUP = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RECORDED = recorded.load("admission_policies.json.gz")
MUTATING = recorded.load("mutating_policies.json.gz")
# What no two servers have in common.
OWN_METADATA = ("uid", "creationTimestamp", "resourceVersion", "managedFields")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    users = {ADMIN: User("admin", "admin", (MASTERS,)), BOB: User("bob", "bob-uid", ("devs",))}
    versions = {f"resource.k8s.io/{version}": True for version in ("v1beta1", "v1beta2")}
    thread = ServerThread(ServerConfig(tokens=StaticTokens(users), runtime_config=versions)).start()
    yield thread
    thread.stop()


@pytest.fixture(scope="module")
def clients(server: ServerThread) -> Iterator[dict[str, Http]]:
    found = {"admin": Http(server, ADMIN), "bob": Http(server, BOB)}
    yield found
    for client in found.values():
        client.close()


def path_of(obj: dict[str, Any]) -> str:
    plural = obj["kind"].lower().replace("admissionpolicy", "admissionpolicies")
    return f"{GROUP}/{plural.replace('policiesbinding', 'policybindings')}"


@pytest.mark.parametrize("case", [*RECORDED["refused"], *MUTATING["refused"]], ids=lambda case: case["name"])
def test_a_policy_or_binding_that_is_wrong_is_refused_in_the_words_of_a_real_server(
    case: dict[str, Any], clients: dict[str, Http]
) -> None:
    answer = clients["admin"].post(path_of(case["object"]), case["object"])
    assert recorded.shown(answer) == case["answer"]


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["name"])
def test_policies_decide_about_requests_as_in_a_real_server(
    case: dict[str, Any], clients: dict[str, Http]
) -> None:
    admin, namespace = clients["admin"], f"ns-{case['name']}"
    begin(admin, namespace, case)
    for sent in case["requests"]:
        assert recorded.send(clients[sent.get("user", "admin")], sent) == sent["answer"]


@pytest.mark.parametrize("case", MUTATING["cases"], ids=lambda case: case["name"])
def test_policies_change_objects_as_in_a_real_server(case: dict[str, Any], clients: dict[str, Http]) -> None:
    admin = clients["admin"]
    begin(admin, f"ms-{case['name']}", case)
    for sent in case["requests"]:
        answer = recorded.request(admin, sent)
        assert recorded.shown(answer) == sent["answer"]
        if "object" in sent:
            obj = answer.json
            for name in OWN_METADATA:
                obj["metadata"].pop(name, None)
            assert obj == sent["object"]


def begin(admin: Http, namespace: str, case: dict[str, Any]) -> None:
    """The namespace of a case with its parameters, and its policies."""
    admin.created("/api/v1/namespaces", {"metadata": {"name": namespace}})
    admin.created(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
    let_bob_create(admin, namespace)
    for obj in case["objects"]:
        admin.created(f"/api/v1/namespaces/{namespace}/configmaps", obj)
    for policy in case["policies"]:
        stored = admin.created(path_of(policy["object"]), policy["object"])
        assert stored["spec"] == policy["stored"]
        assert stored["metadata"]["generation"] == 1


def let_bob_create(admin: Http, namespace: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]
    where = f"{RBAC}/namespaces/{namespace}"
    admin.created(f"{where}/roles", {"metadata": {"name": "maker"}, "rules": rules})
    admin.created(
        f"{where}/rolebindings", {"metadata": {"name": "bob"}, "roleRef": role, "subjects": subjects}
    )
