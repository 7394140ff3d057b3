"""The check of types in ValidatingAdmissionPolicies, by the recorded answers of a real Kubernetes 1.37.2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import recorded
from controller_harness import Plane

from clusters.embedded.controllers.admission_policy_status import AdmissionPolicyStatusController

VERSION = "admissionregistration.k8s.io/v1"
POLICIES = "validatingadmissionpolicies"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    versions = {f"resource.k8s.io/{version}": True for version in ("v1beta1", "v1beta2", "v1alpha3")}
    plane = Plane(tmp_path_factory.mktemp("policies"), runtime_config=versions)
    plane.add(AdmissionPolicyStatusController.name, AdmissionPolicyStatusController)
    yield plane
    plane.close()


def checked(plane: Plane, name: str, generation: int = 1) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        policy: dict[str, Any] = plane.client.get(VERSION, POLICIES, name)
        status = policy.get("status") or {}
        return policy if status.get("observedGeneration") == generation else None

    return plane.until(look, f"policy {name} is checked")


@pytest.mark.parametrize("case", recorded.load("policy_types.json.gz"), ids=lambda case: case["name"])
def test_warnings_are_those_of_a_real_cluster(case: dict[str, Any], plane: Plane) -> None:
    plane.client.create(VERSION, POLICIES, case["policy"])
    status = checked(plane, case["policy"]["metadata"]["name"])["status"]
    # The names of types end in a number that is another one each time.
    assert (
        json.loads(re.sub(r"\b([A-Z][A-Za-z]+?)1\b(?=[.,)])", r"\1NNN", json.dumps(status))) == case["status"]
    )


def test_a_changed_policy_is_checked_again(plane: Plane) -> None:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "has(object.nope)"}],
    }
    plane.client.create(
        VERSION,
        POLICIES,
        {
            "apiVersion": VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "again"},
            "spec": spec,
        },
    )
    (warning,) = checked(plane, "again")["status"]["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    plane.changed(
        VERSION,
        POLICIES,
        "again",
        lambda policy: policy["spec"]["validations"][0].update(expression="has(object.data)"),
    )
    policy = checked(plane, "again", 2)
    # As in a real cluster: the apply takes away what it had set, and the empty rest with it.
    assert policy["status"] == {"observedGeneration": 2}
    owned = {entry["manager"]: entry for entry in policy["metadata"]["managedFields"]}
    assert owned["validatingadmissionpolicy-status"]["operation"] == "Apply"
    assert owned["validatingadmissionpolicy-status"]["fieldsV1"] == {
        "f:status": {"f:observedGeneration": {}, "f:typeChecking": {}}
    }
