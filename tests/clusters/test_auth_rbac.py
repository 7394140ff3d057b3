"""RBAC, the union of authorizers and the escalation check (api-machinery sections 12 and 14)."""

from __future__ import annotations

from typing import Any

import pytest
from memory_reader import MemoryReader

from clusters.api_status import ApiError
from clusters.embedded.apiserver.auth import bootstrap
from clusters.embedded.apiserver.auth.attributes import Attributes
from clusters.embedded.apiserver.auth.authorizer import refusal, standard
from clusters.embedded.apiserver.auth.escalation import check_write, uncovered
from clusters.embedded.apiserver.auth.rbac import GROUP, Rbac, rule_allows
from clusters.embedded.apiserver.auth.users import MASTERS, User, anonymous
from clusters.request_info import parse

BOB = User("bob", groups=("system:authenticated",))


def rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "resources": resources.split(),
        "apiGroups": groups.split() or [""],
        **more,
    }


@pytest.mark.parametrize(
    ("resources", "asked", "allowed"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods/log", True),
        ("pods/*", "pods/log", False),
        ("*/log", "pods/log", True),
        ("*/log", "pods", False),
        ("*", "pods/log", True),
        ("secrets", "pods", False),
    ],
)
def test_resources_of_a_rule(resources: str, asked: str, allowed: bool) -> None:
    resource, _, subresource = asked.partition("/")
    attributes = Attributes(BOB, "get", resource=resource, subresource=subresource, name="x")
    assert rule_allows(rule("get", resources), attributes) is allowed


@pytest.mark.parametrize(
    ("verb", "name", "allowed"),
    [
        ("get", "a", True),
        ("get", "b", False),
        ("create", "", False),
        ("list", "", False),
        ("list", "a", True),
    ],
)
def test_rules_with_names_need_a_name(verb: str, name: str, allowed: bool) -> None:
    named = rule("*", "configmaps", resourceNames=["a"])
    assert rule_allows(named, Attributes(BOB, verb, resource="configmaps", name=name)) is allowed


@pytest.mark.parametrize(
    ("urls", "path", "allowed"),
    [
        ("/api/*", "/api/v1", True),
        ("/api/*", "/api", False),
        ("*", "/x", True),
        ("/x", "/x", True),
        ("/x", "/xy", False),
    ],
)
def test_rules_for_paths(urls: str, path: str, allowed: bool) -> None:
    attributes = Attributes(BOB, "get", path=path, is_resource=False)
    assert rule_allows({"verbs": ["get"], "nonResourceURLs": [urls]}, attributes) is allowed


def bind(
    reader: MemoryReader,
    role: str,
    subject: dict[str, Any],
    *,
    namespace: str = "",
    kind: str = "ClusterRole",
) -> None:
    resource = "rolebindings" if namespace else "clusterrolebindings"
    reader.add(
        resource, f"b-{role}", group=GROUP, namespace=namespace,
        subjects=[subject], roleRef={"kind": kind, "name": role},
    )  # fmt: skip


def test_reason_names_binding_role_and_subject() -> None:
    reader = MemoryReader()
    reader.add("clusterroles", "reader", group=GROUP, rules=[rule("get", "pods")])
    bind(reader, "reader", {"kind": "Group", "name": "system:authenticated"})
    decision = standard(reader).authorize(Attributes(BOB, "get", resource="pods", namespace="a", name="p"))
    assert decision.allowed
    assert decision.reason == (
        'RBAC: allowed by ClusterRoleBinding "b-reader" of ClusterRole "reader" to Group "system:authenticated"'
    )


def test_role_binding_counts_in_its_namespace_only() -> None:
    reader = MemoryReader()
    reader.add("roles", "r", group=GROUP, namespace="a", rules=[rule("get", "pods")])
    bind(reader, "r", {"kind": "ServiceAccount", "name": "sa"}, namespace="a", kind="Role")
    account = User("system:serviceaccount:a:sa")
    rbac = Rbac(reader)
    inside = rbac.authorize(Attributes(account, "get", resource="pods", namespace="a", name="p"))
    assert inside.reason == 'RBAC: allowed by RoleBinding "b-r/a" of Role "r" to ServiceAccount "sa/a"'
    assert not rbac.authorize(Attributes(account, "get", resource="pods", namespace="b", name="p")).allowed
    assert not rbac.authorize(Attributes(account, "get", resource="pods", name="p")).allowed


def test_missing_role_is_told_in_the_refusal() -> None:
    reader = MemoryReader()
    bind(reader, "nope", {"kind": "User", "name": "bob"}, namespace="a", kind="Role")
    attributes = Attributes.of_request(BOB, parse("GET", "/api/v1/namespaces/a/pods/p/log", {}))
    decision = standard(reader).authorize(attributes)
    error = refusal(attributes, decision.reason)
    assert error.message == (
        'pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "a": '
        'rbac: RBAC: role.rbac.authorization.k8s.io "nope" not found'
    )
    assert error.status()["details"] == {"name": "p", "kind": "pods"}


def test_refusal_at_the_cluster_scope_and_of_a_path() -> None:
    attributes = Attributes.of_request(BOB, parse("GET", "/apis/resource.k8s.io/v1/resourceslices", {}))
    assert refusal(attributes, "").message == (
        'resourceslices.resource.k8s.io is forbidden: User "bob" cannot list resource "resourceslices" '
        'in API group "resource.k8s.io" at the cluster scope'
    )
    path = Attributes.of_request(BOB, parse("GET", "/metrics", {}))
    error = refusal(path, "")
    assert (error.message, error.details) == ('forbidden: User "bob" cannot get path "/metrics"', {})


def test_masters_are_always_allowed() -> None:
    root = User("root", groups=(MASTERS,))
    assert standard(MemoryReader()).authorize(Attributes(root, "anything", resource="x")).allowed


@pytest.fixture
def cluster() -> MemoryReader:
    reader = MemoryReader()
    resources = {
        "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
        "Role": "roles", "RoleBinding": "rolebindings",
    }  # fmt: skip
    gates = {"DRAResourceClaimGranularStatusAuthorization", "DRADeviceTaints"}
    for obj in bootstrap.objects(gates):
        metadata = obj["metadata"]
        key = (GROUP, resources[obj["kind"]], metadata.get("namespace", ""), metadata["name"])
        reader.objects[key] = obj
    return reader


def path(user: User, url: str) -> Attributes:
    return Attributes.of_request(user, parse("GET", url, {}))


def test_public_rights_after_bootstrap(cluster: MemoryReader) -> None:
    authorizer = standard(cluster)
    for url, for_bob, for_nobody in (
        ("/healthz", True, True),
        ("/version", True, True),
        ("/apis/apps", True, False),
        ("/openapi/v3", True, False),
        ("/metrics", False, False),
    ):
        assert authorizer.authorize(path(BOB, url)).allowed is for_bob, url
        assert authorizer.authorize(path(anonymous(), url)).allowed is for_nobody, url
    review = Attributes(BOB, "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
    assert authorizer.authorize(review).allowed


def test_components_may_bind_claims_and_drivers_may_not(cluster: MemoryReader) -> None:
    authorizer = standard(cluster)
    for user, allowed in (
        (User("system:kube-scheduler"), True),
        (User("system:serviceaccount:kube-system:resource-claim-controller"), True),
        (User("system:serviceaccount:kube-system:device-taint-eviction-controller"), False),
        (BOB, False),
    ):
        attributes = Attributes(user, "update", "resource.k8s.io", "v1", "resourceclaims", "binding")
        assert authorizer.authorize(attributes).allowed is allowed, user.name


def test_gates_change_the_bootstrap_roles() -> None:
    assert "device-taint-eviction-controller" not in bootstrap.controller_names(set())
    assert "device-taint-eviction-controller" in bootstrap.controller_names({"DRADeviceTaints"})


def test_uncovered_rights_are_split() -> None:
    owned = [rule("get list", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]
    wanted = [rule("get delete", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/a/b", "/b"]}]
    assert uncovered(owned, wanted) == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
        {"nonResourceURLs": ["/b"], "verbs": ["get"]},
    ]
    assert uncovered([rule("*", "*", "*")], [rule("create", "pods/exec")]) == []


def write(reader: MemoryReader, user: User, resource: str, obj: dict[str, Any], old: Any = None) -> None:
    check_write(user, resource, obj, old, rbac=Rbac(reader), authorizer=standard(reader))


def test_nobody_grants_what_he_lacks() -> None:
    reader = MemoryReader()
    reader.add(
        "clusterroles", "mine", group=GROUP, rules=[rule("get", "pods"), rule("create", "roles", GROUP)]
    )
    bind(reader, "mine", {"kind": "User", "name": "bob"})
    role = {"metadata": {"name": "r", "namespace": "a"}, "rules": [rule("get delete list", "pods")]}
    with pytest.raises(ApiError) as caught:
        write(reader, BOB, "roles", role)
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "bob" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete" "list"]}'
    )
    write(reader, BOB, "roles", {**role, "rules": [rule("get", "pods")]})
    write(reader, User("root", groups=(MASTERS,)), "roles", role)
    owned = {**role, "metadata": {**role["metadata"], "finalizers": ["x"]}}
    write(reader, BOB, "roles", owned, role)


def test_binding_needs_the_rights_of_the_role_or_bind() -> None:
    reader = MemoryReader()
    reader.add("clusterroles", "strong", group=GROUP, rules=[rule("*", "secrets")])
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "strong"},
    }
    with pytest.raises(ApiError, match="not currently held"):
        write(reader, BOB, "clusterrolebindings", binding)
    reader.add("clusterroles", "binder", group=GROUP, rules=[rule("bind", "clusterroles", GROUP)])
    bind(reader, "binder", {"kind": "User", "name": "bob"})
    write(reader, BOB, "clusterrolebindings", binding)
    write(
        reader,
        User("root", groups=(MASTERS,)),
        "clusterrolebindings",
        {"metadata": {}, "roleRef": {"kind": "Odd"}},
    )
    reader.objects.pop((GROUP, "clusterroles", "", "binder"))
    reader.objects.pop((GROUP, "clusterroles", "", "strong"))
    with pytest.raises(ApiError) as caught:
        write(reader, BOB, "clusterrolebindings", binding)
    assert caught.value.code == 404
