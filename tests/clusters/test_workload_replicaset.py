from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from workload_harness import Lab, lab, template, workload

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.controller import Written
from clusters.embedded.controllers.deletion_order import pods_to_delete
from clusters.embedded.controllers.expectations import Expectations
from clusters.embedded.controllers.pod_control import slow_start

CONTROLLER = "replicaset-controller"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with lab(tmp_path_factory.mktemp("lab"), CONTROLLER) as made:
        yield made


def replica_set(name: str, replicas: int, **spec: Any) -> dict[str, Any]:
    return workload("ReplicaSet", name, replicas=replicas, **spec)


def test_pods_are_made_counted_and_announced(room: Lab) -> None:
    room.create("replicasets", replica_set("make", 3))
    found = room.status("replicasets", "make", replicas=3, readyReplicas=3, availableReplicas=3)
    assert found["status"] == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }
    pods = room.pods("app=make")
    assert len(pods) == 3
    for pod in pods:
        assert pod["metadata"]["generateName"] == "make-"
        assert pod["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "make",
                "uid": found["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    expected = sorted(("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", 1) for pod in pods)
    room.until(lambda: sorted(room.events("make")) == expected, "an event for each pod")


def test_a_deleted_or_failed_pod_is_replaced(room: Lab) -> None:
    room.create("replicasets", replica_set("heal", 2))
    room.status("replicasets", "heal", readyReplicas=2)
    first, second = room.names("app=heal")
    room.delete("pods", first, "v1")
    room.until(lambda: first not in room.names("app=heal") and len(room.names("app=heal")) == 2, "a new pod")
    room.set_pod(second, phase="Failed")
    room.until(lambda: len(room.names("app=heal")) == 3, "one more for the failed one")
    room.status("replicasets", "heal", replicas=2, readyReplicas=2)


def test_scaling_down_deletes_and_reports_deletions(room: Lab) -> None:
    room.create("replicasets", replica_set("shrink", 4))
    room.status("replicasets", "shrink", readyReplicas=4)
    room.patch("replicasets", "shrink", {"spec": {"replicas": 1}})
    room.status("replicasets", "shrink", replicas=1, terminatingReplicas=0)
    assert len(room.names("app=shrink")) == 1
    room.until(
        lambda: sum(reason == "SuccessfulDelete" for reason, _, _ in room.events("shrink")) == 3, "events"
    )


def test_orphans_are_adopted_and_strangers_released(room: Lab) -> None:
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "adopt"}}, "spec": template("x")["spec"]}
    room.client.create("v1", "pods", orphan, "default")
    room.create("replicasets", replica_set("adopt", 2))
    room.status("replicasets", "adopt", readyReplicas=2)
    assert "orphan" in room.names("app=adopt")
    assert len(room.names("app=adopt")) == 2
    room.client.patch("v1", "pods", "orphan", {"metadata": {"labels": {"app": "other"}}}, "default")
    room.until(lambda: len(room.names("app=adopt")) == 2, "a pod instead of the released one")
    room.until(
        lambda: not room.get("pods", "orphan", "v1")["metadata"].get("ownerReferences"), "the pod is released"
    )


def test_min_ready_seconds_delay_availability(room: Lab) -> None:
    room.create("replicasets", replica_set("late", 1, minReadySeconds=600))
    found = room.status("replicasets", "late", readyReplicas=1)
    assert "availableReplicas" not in found["status"]
    room.clock.advance(601)
    room.status("replicasets", "late", availableReplicas=1)


def test_refused_pods_are_reported(room: Lab) -> None:
    # Admission refuses Pods of a priority class that does not exist; the ReplicaSet itself is accepted.
    body = replica_set("refused", 3, template=template("refused", priorityClassName="nosuch"))
    room.create("replicasets", body)
    room.until(lambda: room.condition("replicasets", "refused", "ReplicaFailure"), "the condition")
    text = 'pods "refused-" is forbidden: no PriorityClass with name nosuch was found'
    assert room.condition("replicasets", "refused", "ReplicaFailure") == {
        "status": "True",
        "reason": "FailedCreate",
        "message": text,
    }
    event = room.until(lambda: room.events("refused"), "an event")[0]
    assert event[:2] == ("FailedCreate", f"Error creating: {text}")
    room.delete("replicasets", "refused")


def test_a_controller_killed_at_random_ends_with_the_wanted_pods(tmp_path: Path, fresh_seed: int) -> None:
    chance = random.Random(fresh_seed)
    with lab(tmp_path, CONTROLLER) as room:
        for index in range(4):
            room.create("replicasets", replica_set(f"chaos{index}", 3))
        wanted = dict.fromkeys(range(4), 3)
        for _ in range(25):
            index = chance.randrange(4)
            wanted[index] = chance.randrange(12)
            room.patch("replicasets", f"chaos{index}", {"spec": {"replicas": wanted[index]}})
            time.sleep(chance.uniform(0, 0.06))
            room.host.kill(CONTROLLER)
            room.host.start(CONTROLLER)
        for index, replicas in wanted.items():
            room.status("replicasets", f"chaos{index}", seconds=20, replicas=replicas, readyReplicas=replicas)
            assert len(room.names(f"app=chaos{index}")) == replicas


def test_a_cache_that_lags_makes_no_pod_too_many(tmp_path: Path) -> None:
    with lab(tmp_path) as room:
        room.start_lagging(CONTROLLER)
        room.create("replicasets", replica_set("late", 3))
        for number in range(10):
            # Each change is a reason for another sync, with a cache that does not know all Pods yet.
            room.patch("replicasets", "late", {"metadata": {"annotations": {"n": str(number)}}})
            time.sleep(0.03)
        room.status("replicasets", "late", readyReplicas=3)
        assert len(room.names("app=late")) == 3
        room.until(lambda: len(room.events("late")) >= 3, "events")
        assert [reason for reason, _, _ in room.events("late")] == ["SuccessfulCreate"] * 3


def test_what_was_written_is_awaited() -> None:
    cache = SimpleNamespace(resource_version="")
    written, key = Written({"pods": cast("Informer", cache)}), ("default", "a")
    assert written.seen(key)
    written.note(key, "pods", {"metadata": {"resourceVersion": "12"}})
    written.note(key, "pods", {"metadata": {"resourceVersion": "9"}})
    assert not written.seen(key)
    cache.resource_version = "11"
    assert not written.seen(key)
    cache.resource_version = "12"
    assert written.seen(key)
    cache.resource_version = ""
    written.forget(key)
    assert written.seen(key)


def _pod(name: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": more.get("uid", name),
            "creationTimestamp": more.get("created", "2026-01-01T00:00:00Z"),
            "annotations": more.get("annotations", {}),
        },
        "spec": {"nodeName": more.get("node", "n")},
        "status": {
            "phase": more.get("phase", "Running"),
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": more["ready"]}
                for _ in range("ready" in more)
            ],
            "containerStatuses": [{"name": "c", "restartCount": more.get("restarts", 0)}],
        },
    }


READY = "2026-01-01T00:00:10Z"
NOW = 1767225600.0 + 3600  # 2026-01-01T01:00:00Z


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_pod("b", node=""), _pod("a", node="n")),
        (_pod("b", phase="Pending"), _pod("a")),
        (_pod("b"), _pod("a", ready=READY)),
        (
            _pod("b", ready=READY, annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"}),
            _pod("a", ready=READY),
        ),
        # Two related pods are on node m and one on n.
        (_pod("b", ready=READY, node="m"), _pod("a", ready=READY)),
        # Ready for 60 s and for 3590 s: another order of magnitude.
        (_pod("b", ready="2026-01-01T00:59:00Z"), _pod("a", ready=READY)),
        (_pod("b", restarts=3), _pod("a")),
        (_pod("b", created="2026-01-01T00:59:00Z"), _pod("a")),
        # 3590 s and 3580 s: the same magnitude, so the uid decides.
        (_pod("b", ready=READY, uid="1"), _pod("a", ready="2026-01-01T00:00:20Z", uid="2")),
    ],
)
def test_pods_of_least_worth_go_first(first: Any, second: Any) -> None:
    related = [_pod("x", node="m"), _pod("y", node="m"), _pod("z", node="n")]
    assert pods_to_delete([second, first], related, 1, NOW) == [first]
    assert pods_to_delete([first, second], related, 1, NOW) == [first]


def test_batches_double_and_end_with_a_failure() -> None:
    started: list[int] = []
    running = 0
    widest: list[int] = []

    async def create(index: int) -> None:
        nonlocal running
        started.append(index)
        running += 1
        await asyncio.sleep(0)
        widest.append(running)
        running -= 1
        if index == 5:
            raise ClientError(403, "Forbidden", "enough")

    # Batches 0 | 1 2 | 3 4 5 6: the third has a failure, so 7..9 are not tried.
    successes, error = asyncio.run(slow_start(10, create))
    assert (successes, started, max(widest)) == (6, [0, 1, 2, 3, 4, 5, 6], 4)
    assert error is not None
    assert error.message == "enough"
    assert asyncio.run(slow_start(0, create)) == (0, None)


def test_expectations_wait_for_what_was_asked_for() -> None:
    clock = Clock()
    expectations, key = Expectations(clock), ("default", "a")
    assert expectations.satisfied(key)
    expectations.expect(key, creations=2)
    expectations.created(key)
    assert not expectations.satisfied(key)
    expectations.created(key)
    assert expectations.satisfied(key)
    expectations.expect(key, deletions=[("default", "p")])
    expectations.deleted(key, ("default", "q"))
    assert not expectations.satisfied(key)
    # Nobody waits for ever: five minutes.
    clock.advance(301)
    assert expectations.satisfied(key)
