"""The comparison of used and declared rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.descriptor import Rule
from clusters.proxies.api_calls import ApiCall
from clusters.proxies.permissions import Permission, covers, needed, report
from clusters.request_info import parse

DRA = "resource.k8s.io"
CLAIM_STATUS = f"/apis/{DRA}/v1/namespaces/a/resourceclaims/c/status"


def call(method: str, path: str, body: Any = None, status: int = 200) -> ApiCall:
    data = b"" if body is None else json.dumps(body).encode()
    info = parse(method, path, {})
    return ApiCall(0.0, 0.0, "driver", "", method, info, {}, "application/json", data, status)


def rule(groups: str, resources: str, verbs: str, names: str = "") -> Rule:
    return Rule(
        tuple(groups.split() or [""]), tuple(resources.split()), tuple(verbs.split()), tuple(names.split())
    )


def test_used_and_declared_agree() -> None:
    calls = [
        call("GET", "/api/v1/nodes/n"),
        call("POST", f"/apis/{DRA}/v1/resourceslices", {}),
        call("GET", "/apis"),
        call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}),
    ]
    assert report(calls, [rule("", "nodes", "get"), rule(DRA, "resourceslices", "create")]) == report([], [])


def test_differences_both_ways() -> None:
    result = report([call("GET", "/api/v1/nodes/n")], [rule(DRA, "resourceslices", "list watch")])
    assert [str(item) for item in result.undeclared] == ["get nodes n"]
    assert [str(item) for item in result.unused] == [
        "list resourceslices.resource.k8s.io", "watch resourceslices.resource.k8s.io",
    ]  # fmt: skip


@pytest.mark.parametrize("status", [200, 403, 0])
def test_a_refused_call_is_a_use_too(status: int) -> None:
    assert report([call("GET", "/api/v1/nodes/n", status=status)], []).undeclared


def test_calls_without_identity_use_nothing() -> None:
    assert needed(call("GET", "/api/v1/nodes/n", status=401)) == []


def test_names_limit_a_rule() -> None:
    calls = [call("GET", "/api/v1/namespaces/a/configmaps/x")]
    assert report(calls, [rule("", "configmaps", "get", "x")]).undeclared == ()
    assert report(calls, [rule("", "configmaps", "get", "y")]).undeclared == (
        Permission("", "configmaps", "get", "x"),
    )


def test_device_status_needs_the_right_of_the_driver() -> None:
    body = {"status": {"devices": [{"driver": "gpu.example.com", "pool": "p", "device": "d"}]}}
    calls = [call("PATCH", CLAIM_STATUS, body)]
    ordinary = rule(DRA, "resourceclaims/status", "patch")
    assert report(calls, [ordinary]).undeclared == (
        Permission(DRA, "resourceclaims/driver", "associated-node:patch", "gpu.example.com"),
    )
    for verb in ("associated-node:patch", "arbitrary-node:patch"):
        granular = rule(DRA, "resourceclaims/driver", verb, "gpu.example.com")
        assert report(calls, [ordinary, granular]) == report([], [])


@pytest.mark.parametrize(
    ("resources", "wanted", "granted"),
    [
        ("*", "pods/log", True),
        ("*/log", "pods/log", True),
        ("pods", "pods/log", False),
        ("pods/*", "pods/log", False),
    ],
)
def test_wildcards(resources: str, wanted: str, granted: bool) -> None:
    assert covers(rule("*", resources, "*"), Permission("", wanted, "get")) is granted


def test_wildcard_rule_is_used_by_anything_under_it() -> None:
    wild = rule("*", "*", "*")
    assert report([call("GET", "/api/v1/nodes/n")], [wild]) == report([], [])
    assert report([], [wild]).unused == (Permission("*", "*", "*"),)
