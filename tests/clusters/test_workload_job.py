from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_harness import BATCH, Lab, lab

from clusters.embedded.controllers.job import failures, indexes, model
from clusters.embedded.controllers.job.pods import new_pod, surplus

NAME = "job-controller"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with lab(tmp_path_factory.mktemp("lab"), NAME, "ttl-after-finished-controller") as made:
        yield made


def job(name: str, image: str = "done:1", **spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": image}], "restartPolicy": "Never"}
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def condition(room: Lab, name: str, kind: str) -> dict[str, Any]:
    return room.condition("jobs", name, kind, BATCH)


def finished(room: Lab, name: str, kind: str, seconds: float = 10.0) -> dict[str, Any]:
    """The Job with the final condition `kind`."""
    room.until(lambda: condition(room, name, kind).get("status") == "True", f"{name} {kind}", seconds)
    return room.get("jobs", name, BATCH)


def pods_of(room: Lab, name: str) -> list[dict[str, Any]]:
    return room.list("pods", "v1", labelSelector=f"batch.kubernetes.io/job-name={name}")


def untracked(room: Lab, name: str) -> bool:
    return all(not pod["metadata"].get("finalizers") for pod in pods_of(room, name))


def test_a_job_completes(room: Lab) -> None:
    room.create("jobs", job("simple", completions=3, parallelism=2), BATCH)
    found = finished(room, "simple", "Complete")
    status = found["status"]
    conditions = status.pop("conditions")
    assert [(one["type"], one["status"], one["reason"], one["message"]) for one in conditions] == [
        ("SuccessCriteriaMet", "True", "CompletionsReached", "Reached expected number of succeeded pods"),
        ("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods"),
    ]
    assert status.pop("completionTime") >= status.pop("startTime")
    assert status == {"succeeded": 3, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    pods = pods_of(room, "simple")
    assert len(pods) == 3
    assert untracked(room, "simple")
    names = {("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", 1) for pod in pods}
    room.until(lambda: len(room.events("simple")) == 4, "events")
    assert set(room.events("simple")) == names | {("Completed", "Job completed", 1)}
    labels = pods[0]["metadata"]["labels"]
    assert labels["job-name"] == "simple"
    assert labels["batch.kubernetes.io/controller-uid"] == found["metadata"]["uid"]
    assert pods[0]["metadata"]["generateName"] == "simple-"


def test_a_running_pod_is_tracked_and_counted_as_active(room: Lab) -> None:
    room.create("jobs", job("busy", "run:1"), BATCH)
    room.status("jobs", "busy", api_version=BATCH, active=1, ready=1)
    (pod,) = pods_of(room, "busy")
    assert pod["metadata"]["finalizers"] == [model.TRACKING]
    room.delete("jobs", "busy", BATCH, propagationPolicy="Background")


def test_failures_are_retried_later_and_later_until_the_limit(room: Lab) -> None:
    room.create("jobs", job("bad", "fail:1", backoffLimit=2), BATCH)
    room.status("jobs", "bad", api_version=BATCH, failed=1)
    # The next try is due 10 s after the first failure, the one after that 20 s after the second.
    room.stays(lambda: len(pods_of(room, "bad")) == 1, "no second try yet")
    room.clock.advance(11)
    room.status("jobs", "bad", api_version=BATCH, failed=2)
    room.clock.advance(11)
    room.stays(lambda: len(pods_of(room, "bad")) == 2, "no third try yet")
    room.clock.advance(10)
    found = finished(room, "bad", "Failed")
    expected = {
        "status": "True",
        "reason": "BackoffLimitExceeded",
        "message": "Job has reached the specified backoff limit",
    }
    assert condition(room, "bad", "Failed") == condition(room, "bad", "FailureTarget") == expected
    assert found["status"]["failed"] == 3
    assert "completionTime" not in found["status"]
    assert untracked(room, "bad")
    room.until(
        lambda: (
            room.events("bad")[-1:]
            == [("BackoffLimitExceeded", "Job has reached the specified backoff limit", 1)]
        ),
        "the event",
    )


def test_indexes_give_names_and_variables(room: Lab) -> None:
    room.create("jobs", job("index", completions=4, parallelism=4, completionMode="Indexed"), BATCH)
    found = finished(room, "index", "Complete")
    assert found["status"]["completedIndexes"] == "0-3"
    assert found["status"]["succeeded"] == 4
    for number, pod in enumerate(pods_of(room, "index")):
        assert pod["metadata"]["name"].startswith(f"index-{number}-")
        assert pod["metadata"]["annotations"][indexes.INDEX] == str(number)
        assert pod["metadata"]["labels"][indexes.INDEX] == str(number)
        assert pod["spec"]["hostname"] == f"index-{number}"
        (variable,) = pod["spec"]["containers"][0]["env"]
        path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == path


def test_limits_of_indexes(room: Lab) -> None:
    body = job(
        "limits",
        "run:1",
        completions=2,
        parallelism=2,
        completionMode="Indexed",
        backoffLimitPerIndex=1,
    )
    room.create("jobs", body, BATCH)
    room.status("jobs", "limits", api_version=BATCH, active=2, ready=2)
    first, second = pods_of(room, "limits")
    assert first["metadata"]["annotations"][failures.FAILURES] == "0"
    room.set_pod(second["metadata"]["name"], phase="Succeeded")
    room.set_pod(first["metadata"]["name"], phase="Failed")
    room.status("jobs", "limits", api_version=BATCH, succeeded=1)
    room.clock.advance(11)

    def retried() -> list[dict[str, Any]]:
        return [
            pod for pod in pods_of(room, "limits") if pod["metadata"]["annotations"][failures.FAILURES] == "1"
        ]

    (again,) = room.until(retried, "another try of index 0")
    assert again["metadata"]["annotations"][indexes.INDEX] == "0"
    room.set_pod(again["metadata"]["name"], phase="Failed")
    found = finished(room, "limits", "Failed")
    assert condition(room, "limits", "Failed")["reason"] == "FailedIndexes"
    assert condition(room, "limits", "Failed")["message"] == "Job has failed indexes"
    assert (found["status"]["failedIndexes"], found["status"]["completedIndexes"]) == ("0", "1")
    assert untracked(room, "limits")


def test_a_deadline_ends_a_job(room: Lab) -> None:
    room.create("jobs", job("slow", "run:1", activeDeadlineSeconds=30), BATCH)
    room.status("jobs", "slow", api_version=BATCH, ready=1)
    room.clock.advance(31)
    finished(room, "slow", "Failed")
    assert condition(room, "slow", "Failed") == {
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": "Job was active longer than specified deadline",
    }
    room.until(lambda: not pods_of(room, "slow"), "the end of the pod")


def test_suspending_removes_pods_and_resuming_starts_anew(room: Lab) -> None:
    room.create("jobs", job("held", "run:1", parallelism=2, completions=2), BATCH)
    room.status("jobs", "held", api_version=BATCH, active=2, ready=2)
    room.patch("jobs", "held", {"spec": {"suspend": True}}, BATCH)
    found = room.status("jobs", "held", api_version=BATCH, active=0, terminating=0)
    assert condition(room, "held", "Suspended") == {
        "status": "True",
        "reason": "JobSuspended",
        "message": "Job suspended",
    }
    assert "startTime" not in found["status"]
    room.patch("jobs", "held", {"spec": {"suspend": False}}, BATCH)
    found = room.status("jobs", "held", api_version=BATCH, active=2)
    room.until(lambda: condition(room, "held", "Suspended")["reason"] == "JobResumed", "the condition")
    assert condition(room, "held", "Suspended")["message"] == "Job resumed"
    reasons = [reason for reason, _, _ in room.events("held")]
    assert "Suspended" in reasons
    room.until(lambda: "Resumed" in [reason for reason, _, _ in room.events("held")], "the event")


def test_a_failure_policy_ends_the_job(room: Lab) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}]
    room.create("jobs", job("policy", "fail:1", podFailurePolicy={"rules": rules}), BATCH)
    finished(room, "policy", "Failed")
    (pod,) = pods_of(room, "policy")
    text = (
        f"Container c for pod default/{pod['metadata']['name']} failed with exit code 7 "
        "matching FailJob rule at index 0"
    )
    assert condition(room, "policy", "Failed") == {
        "status": "True",
        "reason": "PodFailurePolicy",
        "message": text,
    }


def test_a_success_policy_ends_the_job(room: Lab) -> None:
    body = job(
        "leader",
        "run:1",
        completions=3,
        parallelism=3,
        completionMode="Indexed",
        successPolicy={"rules": [{"succeededIndexes": "0"}]},
    )
    room.create("jobs", body, BATCH)
    room.status("jobs", "leader", api_version=BATCH, ready=3)
    room.set_pod(pods_of(room, "leader")[0]["metadata"]["name"], phase="Succeeded")
    found = finished(room, "leader", "Complete")
    assert condition(room, "leader", "SuccessCriteriaMet") == {
        "status": "True",
        "reason": "SuccessPolicy",
        "message": "Matched rules at index 0",
    }
    assert found["status"]["completedIndexes"] == "0"


def test_a_finished_job_goes_when_its_time_is_over(room: Lab) -> None:
    room.create("jobs", job("short", ttlSecondsAfterFinished=100), BATCH)
    finished(room, "short", "Complete")
    room.clock.advance(95)
    room.stays(
        lambda: "deletionTimestamp" not in room.get("jobs", "short", BATCH)["metadata"], "the job is there"
    )
    room.clock.advance(10)
    # Foreground deletion: without a garbage collector the Job waits for its dependents.
    room.until(
        lambda: room.get("jobs", "short", BATCH)["metadata"].get("finalizers") == ["foregroundDeletion"],
        "the deletion",
    )


def test_pods_of_a_job_that_is_gone_are_freed(room: Lab) -> None:
    room.create("jobs", job("lost", "run:1"), BATCH)
    room.status("jobs", "lost", api_version=BATCH, ready=1)
    room.delete("jobs", "lost", BATCH, propagationPolicy="Background")
    room.until(lambda: untracked(room, "lost"), "the removal of the finalizer")


def test_a_controller_killed_at_random_counts_every_pod_once(tmp_path: Path, fresh_seed: int) -> None:
    chance = random.Random(fresh_seed)
    with lab(tmp_path, NAME) as room:
        wanted = {f"chaos{number}": chance.randrange(1, 12) for number in range(6)}
        for number, (name, completions) in enumerate(wanted.items()):
            mode = "Indexed" if number % 2 else "NonIndexed"
            body = job(name, completions=completions, parallelism=chance.randrange(1, 6), completionMode=mode)
            room.create("jobs", body, BATCH)
        for _ in range(25):
            time.sleep(chance.uniform(0, 0.1))
            room.host.kill(NAME)
            time.sleep(chance.uniform(0, 0.02))
            room.host.start(NAME)
        for name, completions in wanted.items():
            found = finished(room, name, "Complete", seconds=20)
            # A killed controller may have asked for a Pod that its next life did not see in time.
            assert found["status"]["succeeded"] >= completions
            counted = found["status"]["succeeded"] + found["status"].get("failed", 0)
            if found["spec"]["completionMode"] == "Indexed":
                assert found["status"]["completedIndexes"] == indexes.format_indexes(range(completions))
            else:
                ended = [
                    pod for pod in pods_of(room, name) if pod["status"]["phase"] in ("Succeeded", "Failed")
                ]
                assert counted == len(ended)
            room.until(lambda name=name: untracked(room, name), "no finalizer is left")


@pytest.mark.parametrize(
    ("text", "found", "written"),
    [
        ("", set(), ""),
        ("1,3-5,7", {1, 3, 4, 5, 7}, "1,3-5,7"),
        # Two in a row are written as two numbers; beyond the nine completions nothing counts.
        ("0-1,8-20", {0, 1, 8}, "0,1,8"),
        ("x,2", {2}, "2"),
    ],
)
def test_texts_of_indexes(text: str, found: set[int], written: str) -> None:
    assert indexes.parse_indexes(text, 9) == found
    assert indexes.format_indexes(found) == written


@given(st.sets(st.integers(0, 60)))
def test_texts_of_indexes_can_be_read_back(found: set[int]) -> None:
    assert indexes.parse_indexes(indexes.format_indexes(found), 61) == found


def test_delays_double_up_to_ten_minutes() -> None:
    delays = [failures.Backoff(count, 1000.0).remaining(1000.0) for count in range(9)]
    assert delays == [0, 10, 20, 40, 80, 160, 320, 600, 600]
    assert failures.Backoff(2, 1000.0).remaining(1015.0) == 5
    assert failures.Backoff(2, 1000.0).remaining(1030.0) == 0


def ended(moment: str) -> dict[str, Any]:
    state = {"terminated": {"exitCode": 1, "finishedAt": moment}}
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}]},
    }


def test_a_success_ends_the_row_of_failures() -> None:
    early, middle, late = (ended(f"2026-01-01T00:0{minute}:00Z") for minute in (1, 2, 3))
    backoff = failures.Backoff().after([], [early, middle])
    assert (backoff.failures, backoff.last_failure) == (2, failures.finished_at(middle))
    assert failures.Backoff(5, 1.0).after([middle], [early, late]) == failures.Backoff(
        1, failures.finished_at(late)
    )
    assert failures.Backoff(5, 1.0).after([late], [early]) == failures.Backoff()
    assert failures.Backoff(5, 1.0).after([], []) == failures.Backoff(5, 1.0)


POLICY = {
    "rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42], "containerName": "x"}},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [9]}},
    ]
}


@pytest.mark.parametrize(
    ("container", "code", "conditions", "verdict"),
    [
        ("c", 1, [{"type": "DisruptionTarget", "status": "True"}], failures.Verdict(False, "Ignore")),
        ("x", 42, [], failures.Verdict(True, "FailIndex")),
        ("c", 42, [], failures.Verdict(True, "Count")),
        ("c", 9, [], failures.Verdict()),
        # Success of a container matches no rule.
        ("c", 0, [], failures.Verdict()),
    ],
)
def test_the_first_matching_rule_judges(
    container: str, code: int, conditions: list[Any], verdict: failures.Verdict
) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "status": {
            "phase": "Failed",
            "conditions": conditions,
            "containerStatuses": [{"name": container, "state": {"terminated": {"exitCode": code}}}],
        },
    }
    assert failures.judge({"spec": {"podFailurePolicy": POLICY}}, pod) == verdict


def test_doubled_and_invalid_indexes_are_removed_first() -> None:
    def pod(name: str, index: str, node: str = "n") -> dict[str, Any]:
        return {
            "metadata": {
                "name": name,
                "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {indexes.INDEX: index},
            },
            "spec": {"nodeName": node, "containers": []},
            "status": {"phase": "Running"},
        }

    good, double = pod("good", "0"), pod("double", "0", node="")
    beyond, none = pod("beyond", "2"), pod("none", "x")
    found = {"spec": {"completionMode": "Indexed", "completions": 2}}
    assert surplus(found, [good, double, beyond, none], 0) == [beyond, none, double]
    assert surplus(found, [good], 1) == [good]
    assert surplus(found, [good], 0) == []


def test_long_names_leave_room_for_the_random_part() -> None:
    made = new_pod(
        {
            **job("x" * 63, completions=20, completionMode="Indexed"),
            "metadata": {"name": "x" * 63, "namespace": "n", "uid": "u"},
        },
        12,
        {},
    )
    # 63 characters at most, of which 5 are random.
    assert made["metadata"]["generateName"] == "x" * 54 + "-12-"
