"""Rules of Jobs, CronJobs and pod templates that need no server."""

from __future__ import annotations

from typing import Any

import pytest

from dra_api.defaults_workloads import apply_workload_defaults
from dra_api.validation.cron import schedule_problem, time_zone_problems
from dra_api.validation.job_policies import count_indexes
from dra_api.validation.workloads import validate, validate_scale, validate_status


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("*/5 0-6,12 1 jan-mar mon", ""),
        ("@daily", ""),
        ("@every 1h30m", ""),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@never", "unrecognized descriptor: @never"),
    ],
)
def test_schedules(schedule: str, problem: str) -> None:
    assert schedule_problem(schedule) == problem


def test_time_zones() -> None:
    assert time_zone_problems("Europe/Berlin") == []
    assert time_zone_problems("") == ["timeZone must be nil or non-empty string"]
    assert time_zone_problems("Mars/Base") == ["unknown time zone Mars/Base"]
    assert time_zone_problems("../x") == ["unknown time zone ../x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        # 1 + (5 - 3 + 1)
        ("1,3-5", 4),
        ("9", 'too large index: "9"'),
        ("3,3", "non-increasing order, previous: 3, current: 3"),
        ("5-3", "non-increasing order, previous: 5, current: 3"),
        ("a", 'cannot convert string to integer for index: "a"'),
    ],
)
def test_lists_of_indexes(text: str, expected: int | str) -> None:
    if isinstance(expected, int):
        assert count_indexes(text, 8) == expected
        return
    with pytest.raises(ValueError) as caught:
        count_indexes(text, 8)
    assert str(caught.value) == expected


def job(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    made: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "uid": "u"},
        "spec": {
            "template": template,
            "selector": {"matchLabels": {"a": "b"}},
            "manualSelector": True,
            **spec,
        },
    }
    template["metadata"] = {"labels": {"a": "b"}}
    apply_workload_defaults(made)
    return made


def texts(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in validate(obj, old)]


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"completionMode": "Indexed", "completions": None, "parallelism": 2},
         "spec.completions: Required value: when completion mode is Indexed"),
        ({"backoffLimitPerIndex": 1},
         "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        ({"backoffLimit": -1},
         "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
        ({"managedBy": "me"},
         'spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")'),
        ({"podReplacementPolicy": "Never"},
         'spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"'),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0]}}]}},
         "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator"),
    ],
)  # fmt: skip
def test_jobs(spec: dict[str, Any], error: str) -> None:
    assert texts(job(**spec)) == [error]


def test_an_indexed_job_may_be_resized_as_a_whole() -> None:
    old = job(completionMode="Indexed", completions=2, parallelism=2)
    assert texts(job(completionMode="Indexed", completions=3, parallelism=3), old) == []
    assert texts(job(completionMode="Indexed", completions=3, parallelism=2), old) == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]


def test_counts_of_a_workload_fit_together() -> None:
    status = {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3}
    errors = validate_status({"kind": "ReplicaSet", "status": status}, {})
    assert [str(error) for error in errors] == [
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
    ]


def test_a_failed_job_does_not_come_back() -> None:
    ended = {"startTime": "2026-01-01T00:00:00Z", "failed": 1}
    true = [{"type": each, "status": "True"} for each in ("FailureTarget", "Failed")]
    old = {**job(), "status": {**ended, "conditions": true}}
    new = {**job(), "status": {"startTime": ended["startTime"], "conditions": true[:1]}}
    assert [str(error) for error in validate_status(new, old)] == [
        "status.conditions: Invalid value: cannot disable the terminal Failed=True condition",
        "status.failed: Invalid value: 0: cannot decrease the failed counter",
    ]


def test_scales() -> None:
    assert validate_scale({"spec": {}}) == []
    assert len(validate_scale({"spec": {"replicas": -1}})) == 1


@pytest.mark.parametrize(
    ("container", "error"),
    [
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
         'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
        ({"resources": {"limits": {"example.com/gpu": "500m"}}},
         'resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer'),
        ({"resources": {"limits": {"gpu": "1"}}},
         'resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers'),
        ({"ports": [{"containerPort": 0, "protocol": "TCP"}]}, "ports[0].containerPort: Required value"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, 'volumeMounts[0].name: Not found: "v"'),
        ({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
         'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'),
        ({"imagePullPolicy": "Often"},
         'imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"'),
    ],
)  # fmt: skip
def test_containers_of_a_template(container: dict[str, Any], error: str) -> None:
    made = job()
    made["spec"]["template"]["spec"]["containers"] = [{"name": "c", "image": "i", **container}]
    apply_workload_defaults(made)
    assert texts(made)[-1] == f"spec.template.spec.containers[0].{error}"
