from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_api.validation.core import validate_update

TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
TERMS_PATH = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def pod(**spec: Any) -> dict[str, Any]:
    base = {
        "restartPolicy": "Always",
        "containers": [{"name": "c", "image": "i:1"}],
        "terminationGracePeriodSeconds": 30,
    }
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": base | spec}


def problems(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Type and field of each error, and the first line of its text."""
    errors = validate_update(copy.deepcopy(new), old)
    return [f"{error.type} {error.field}: {error.detail.splitlines()[0]}" for error in errors]


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
IN_B = {"key": "rack", "operator": "In", "values": ["b"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"containers": [{"name": "c", "image": "i:2"}]}),
        ({}, {"activeDeadlineSeconds": 5}),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}),
        ({"tolerations": [TOLERATION]}, {"tolerations": [{"operator": "Exists"}, TOLERATION]}),
        ({"tolerations": [TOLERATION]}, {"tolerations": [{**TOLERATION, "tolerationSeconds": 1}]}),
        ({"terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}),
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, {"schedulingGates": [{"name": "b"}]}),
        ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"x": "y"}}),
        ({"schedulingGates": [{"name": "a"}]}, {"affinity": required({"matchExpressions": [IN_A]})}),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": required({"matchExpressions": [IN_A]})},
            {"affinity": required({"matchExpressions": [IN_A, IN_B]})},
        ),
    ],
)
def test_what_may_change(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert problems(pod(**before), pod(**before | after)) == []


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ({}, {"hostNetwork": True}, "Forbidden spec: pod updates may not change fields other than"),
        (
            {},
            {"terminationGracePeriodSeconds": 1},
            "Forbidden spec: pod updates may not change fields other than",
        ),
        (
            {},
            {"nodeSelector": {"x": "y"}},
            "Forbidden spec: pod updates may not change fields other than",
        ),
        (
            {},
            {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]},
            "Forbidden spec.containers: pod updates may not add or remove containers",
        ),
        (
            {},
            {"containers": [{"name": "c", "image": " i"}]},
            "Invalid spec.containers[0].image: must not have leading or trailing whitespace",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            "Invalid spec.activeDeadlineSeconds: must be less than or equal to previous value",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": None},
            "Invalid spec.activeDeadlineSeconds: must not update from a positive integer to nil value",
        ),
        (
            {"tolerations": [TOLERATION]},
            {"tolerations": []},
            "Forbidden spec.tolerations: existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {},
            {"schedulingGates": [{"name": "a"}]},
            "Forbidden spec.schedulingGates[0].name: only deletion is allowed, but found new scheduling gate 'a'",
        ),
        (
            {"schedulingGates": [{"name": "a"}], "nodeSelector": {"x": "y"}},
            {"nodeSelector": {"z": "y"}},
            "Invalid spec.nodeSelector: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        ),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": required({"matchExpressions": [IN_A]})},
            {"affinity": required({"matchExpressions": [IN_B, IN_A]})},
            f"Invalid {TERMS_PATH}[0]: only additions are allowed (no mutations or deletions)",
        ),
        (
            {"schedulingGates": [{"name": "a"}], "affinity": required({"matchExpressions": [IN_A]})},
            {"affinity": required({"matchExpressions": [IN_A]}, {"matchExpressions": [IN_B]})},
            f"Invalid {TERMS_PATH}: no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ),
    ],
)
def test_what_stays(before: dict[str, Any], after: dict[str, Any], error: str) -> None:
    (found,) = problems(pod(**before), pod(**before | after))
    assert found.startswith(error)


def test_a_deadline_is_judged_as_a_value_and_as_a_change() -> None:
    path = "Invalid spec.activeDeadlineSeconds: must be between"
    found = problems(pod(), pod(activeDeadlineSeconds=-1))
    assert found == [f"{path} 1 and 2147483647, inclusive", f"{path} 0 and 2147483647, inclusive"]


def test_the_difference_is_shown() -> None:
    (error,) = validate_update(pod(hostNetwork=True), pod())
    assert '\n+ "hostNetwork": true\n' in error.detail


def test_quantities_are_compared_by_value() -> None:
    resources = [{"requests": {"cpu": amount}} for amount in ("1", "1000m")]
    old, new = (pod(containers=[{"name": "c", "image": "i", "resources": each}]) for each in resources)
    assert problems(old, new) == []


def test_the_difference_shows_what_changes_and_not_in_which_order_it_came() -> None:
    old = pod(containers=[{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "1"}]}])
    new = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [{"env": [{"value": "2", "name": "A"}], "image": "i:1", "name": "c"}],
            "restartPolicy": "Always",
        },
    }
    [error] = validate_update(new, old)
    changed = [line for line in error.detail.splitlines() if line.startswith(("-", "+"))]
    assert changed == ['-     "value": "1"', '+     "value": "2"']
