"""Granular authorization of claim status (api-validation 3.3.8)."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver.auth.attributes import Attributes, Decision
from clusters.embedded.apiserver.auth.claim_status import check
from clusters.embedded.apiserver.auth.users import NODE_NAME, User
from dra_api.errors import FieldError

NODE_TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
ALLOCATION: dict[str, Any] = {"nodeSelector": {"nodeSelectorTerms": [NODE_TERM]}}


def driver(node: str) -> User:
    return User("system:serviceaccount:a:driver", extra={NODE_NAME: (node,)} if node else {})


class Rights:
    """Allows listed rights and remembers what was asked."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[str] = []

    def authorize(self, attributes: Attributes) -> Decision:
        right = f"{attributes.verb} {attributes.full_resource} {attributes.namespace}/{attributes.name}"
        self.asked.append(right)
        return Decision(right in self.allowed)


def entry(name: str, **content: Any) -> dict[str, Any]:
    return {"driver": name, "pool": "p", "device": "d", **content}


def run(
    user: User, new: dict[str, Any], old: dict[str, Any], rights: Rights, verb: str = "update"
) -> list[FieldError]:
    return check(user, verb, namespace="ns", version="v1", new=new, old=old, authorizer=rights)


def test_unchanged_status_needs_nothing() -> None:
    rights = Rights()
    status = {"allocation": ALLOCATION, "devices": [entry("x")]}
    assert run(driver("n1"), status, status, rights) == []
    assert rights.asked == []


def test_allocation_and_reservation_need_binding_cluster_wide() -> None:
    rights = Rights("update resourceclaims/binding /")
    assert run(User("sched"), {"allocation": ALLOCATION}, {}, rights) == []
    (error,) = run(User("bob"), {"reservedFor": [{"uid": "u"}]}, {}, Rights())
    assert (error.type, error.field) == ("Forbidden", "status.allocation")
    assert error.detail == (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="update" '
        'permission: resourceclaims.resource.k8s.io is forbidden: User "bob" cannot update resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )


def test_driver_on_the_allocated_node_needs_the_associated_verb() -> None:
    new, old = {"allocation": ALLOCATION, "devices": [entry("x")]}, {"allocation": ALLOCATION}
    rights = Rights("associated-node:patch resourceclaims/driver ns/x")
    assert run(driver("n1"), new, old, rights, "patch") == []
    (error,) = run(driver("n2"), new, old, rights, "patch")
    assert error.field == "status.devices"
    assert error.detail.startswith(
        'changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: '
        'resourceclaims.resource.k8s.io "x" is forbidden: User "system:serviceaccount:a:driver" cannot '
        'arbitrary-node:patch resource "resourceclaims/driver"'
    )
    arbitrary = Rights("arbitrary-node:patch resourceclaims/driver ns/x")
    for user in (driver("n1"), driver("n2"), driver("")):
        assert run(user, new, old, arbitrary, "patch") == []


def test_both_verbs_are_named_and_the_first_refusal_is_shown() -> None:
    new, old = {"allocation": ALLOCATION, "devices": [entry("x")]}, {"allocation": ALLOCATION}
    (error,) = run(driver("n1"), new, old, Rights())
    assert 'verb="[associated-node:update arbitrary-node:update]" permission: ' in error.detail
    assert "cannot associated-node:update" in error.detail


def test_each_changed_driver_is_checked_in_order() -> None:
    old = {"allocation": ALLOCATION, "devices": [entry("c"), entry("same"), entry("b", data={"a": 1})]}
    new = {"allocation": ALLOCATION, "devices": [entry("same"), entry("b", data={"a": 2}), entry("a")]}
    rights = Rights()
    errors = run(driver("n2"), new, old, rights)
    assert [right.rsplit("/", 1)[1] for right in rights.asked] == ["a", "b", "c"]
    assert len(errors) == 3


def test_lost_allocation_frees_the_device_entries() -> None:
    old = {"allocation": ALLOCATION, "devices": [entry("x")]}
    rights = Rights("update resourceclaims/binding /")
    assert run(User("bob"), {}, old, rights) == []


def test_only_an_exact_node_selector_associates() -> None:
    term = {**NODE_TERM, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
    for selector in (
        {"nodeSelectorTerms": [term]},
        {"nodeSelectorTerms": [NODE_TERM, NODE_TERM]},
        {"nodeSelectorTerms": [{"matchFields": [{**NODE_TERM["matchFields"][0], "values": ["n1", "n2"]}]}]},
    ):
        status = {"allocation": {"nodeSelector": selector}}
        rights = Rights()
        run(driver("n1"), {**status, "devices": [entry("x")]}, status, rights)
        assert rights.asked == ["arbitrary-node:update resourceclaims/driver ns/x"]
