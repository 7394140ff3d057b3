"""Seed 000, how DRA works: a policy that gives Pods back to the scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from seeds_api import PLAIN_NODE
from seeds_kit import World

from conformance.cluster.manifests import request

DRIVER = "simple.example.com"
POLICY = "back-to-the-scheduler.example.com"
GROUP = "admissionregistration.k8s.io/v1"
PATCH = """
[
  JSONPatch{op: "add", path: "/spec/nodeSelector", value: {"kubernetes.io/hostname": object.spec.nodeName}},
  JSONPatch{op: "remove", path: "/spec/nodeName"}
]
"""


def replace_node_names(world: World) -> None:
    """A policy about the Pods of the namespace of the test."""
    created: dict[str, Any] = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec: dict[str, Any] = {
        "matchConstraints": {"resourceRules": [created]},
        "matchConditions": [{"name": "has-a-node", "expression": "object.spec.?nodeName.orValue('') != ''"}],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": PATCH}}],
    }
    bound: dict[str, Any] = {
        "policyName": POLICY,
        "matchResources": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
        },
    }
    for kind, of_kind in {"MutatingAdmissionPolicy": spec, "MutatingAdmissionPolicyBinding": bound}.items():
        world.create({"apiVersion": GROUP, "kind": kind, "metadata": {"name": POLICY}, "spec": of_kind})


@pytest.mark.seed("S000-23")
def test_a_policy_replaces_the_name_of_a_node_by_a_selector(world: World) -> None:
    world.driver(DRIVER)
    world.slice_of(DRIVER, "dev-0")
    replace_node_names(world)
    each = request(world.device_class("simple", DRIVER))
    world.template("each", each)
    made = world.pod("pinned", templates={"device": "each"}, nodeName=PLAIN_NODE)
    assert "nodeName" not in made["spec"]
    assert made["spec"]["nodeSelector"] == {"kubernetes.io/hostname": PLAIN_NODE}
    assert world.phase("pinned")["spec"]["nodeName"] == PLAIN_NODE
    assert world.devices(world.generated("pinned", "device")) == ["dev-0"]
