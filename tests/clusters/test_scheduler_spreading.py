"""Pods that want to be together or apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from scheduler_harness import NAMESPACE, Bench, bench

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def b() -> Iterator[Bench]:
    with bench() as running:
        for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
            running.node(name, {HOST: name, "zone": zone})
        yield running


def create(b: Bench, name: str, app: str, **spec: Any) -> None:
    body = {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "a", "image": "probe:1"}], **spec},
    }
    b.http.created(f"{NAMESPACE}/pods", body)


def term(app: str, key: str = HOST) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def test_pods_that_repel_each_other_get_a_node_each_until_there_is_none_left(b: Bench) -> None:
    apart = {"podAntiAffinity": {REQUIRED: [term("web")]}}
    for number in range(3):
        create(b, f"w{number}", "web", affinity=apart)
    assert {b.node_of(f"w{number}") for number in range(3)} == {"n1", "n2", "n3"}
    create(b, "w3", "web", affinity=apart)
    b.refusal("w3", "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. ")
    create(b, "plain", "web")
    b.refusal(
        "plain", "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules. "
    )
    b.http.delete(f"{NAMESPACE}/pods/w1", {"gracePeriodSeconds": 0})
    b.until(lambda: any(b.get_pod(name)["spec"].get("nodeName") for name in ("w3", "plain")))


def test_pods_follow_others_into_their_zone_and_the_first_of_a_kind_goes_anywhere(b: Bench) -> None:
    create(b, "follower", "cache", affinity={"podAffinity": {REQUIRED: [term("db", "zone")]}})
    b.refusal("follower", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules. ")
    create(b, "db", "db", nodeSelector={"zone": "b"})
    assert b.node_of("follower") == "n3"
    create(b, "first", "self", affinity={"podAffinity": {REQUIRED: [term("self", "zone")]}})
    assert b.node_of("first")


def cordon_is_seen(b: Bench, node: str) -> None:
    """Wait until the scheduler refuses a pod for this node; pods of before are let in."""
    for number in itertools.count():
        name = f"witness-{number}"
        create(b, name, "witness", nodeSelector={HOST: node})
        b.until(lambda name=name: b.condition(name))  # type: ignore[misc]
        if "unschedulable" in b.condition(name).get("message", ""):
            return


def test_spread_constraints_hold_the_difference_down(b: Bench) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    for number in range(4):
        create(b, f"w{number}", "web", topologySpreadConstraints=[constraint])
        b.node_of(f"w{number}")
    zones = ["b" if b.node_of(f"w{number}") == "n3" else "a" for number in range(4)]
    assert sorted(zones) == ["a", "a", "b", "b"]
    b.http.patch("/api/v1/nodes/n3", {"spec": {"unschedulable": True}})
    cordon_is_seen(b, "n3")
    create(b, "w4", "web", topologySpreadConstraints=[constraint])
    b.node_of("w4")
    create(b, "w5", "web", topologySpreadConstraints=[constraint])
    # Zone a has three, b two: a fourth in a would make a difference of two.
    b.refusal(
        "w5",
        "0/3 nodes are available: 1 node(s) were unschedulable, "
        "2 node(s) didn't match pod topology spread constraints. ",
    )


def test_a_node_without_the_label_takes_no_part(b: Bench) -> None:
    b.node("bare", {"only": "this"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    create(b, "w", "web", topologySpreadConstraints=[constraint], nodeSelector={"only": "this"})
    b.refusal("w", "1 node(s) didn't match pod topology spread constraints (missing required label), ")
