from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_harness import Lab, lab, template, workload

from clusters.embedded.controllers.deployment import model
from clusters.embedded.controllers.template_hash import template_hash

NAME = "deployment-controller"
BOTH = (NAME, "replicaset-controller")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with lab(tmp_path_factory.mktemp("lab"), *BOTH) as made:
        yield made


def deployment(name: str, replicas: int = 1, image: str = "run:1", **spec: Any) -> dict[str, Any]:
    return workload("Deployment", name, image, replicas=replicas, **spec)


def sets_of(room: Lab, name: str) -> list[dict[str, Any]]:
    """By revision."""
    found = room.list("replicasets", labelSelector=f"app={name}")
    return sorted(found, key=lambda one: int(one["metadata"]["annotations"][model.REVISION]))


def done(room: Lab, name: str, replicas: int, seconds: float = 10.0) -> dict[str, Any]:
    """The Deployment after its rollout."""
    room.status(
        "deployments",
        name,
        seconds=seconds,
        replicas=replicas,
        updatedReplicas=replicas,
        availableReplicas=replicas,
        unavailableReplicas=0,
    )
    room.until(
        lambda: room.condition("deployments", name, "Progressing").get("reason") == "NewReplicaSetAvailable",
        "the end of the rollout",
    )
    return room.get("deployments", name)


def set_image(room: Lab, name: str, image: str) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
    room.patch("deployments", name, {"spec": {"template": pod}})


def test_a_first_rollout(room: Lab) -> None:
    room.create("deployments", deployment("first", 2))
    found = done(room, "first", 2)
    (one,) = sets_of(room, "first")
    digest = one["metadata"]["labels"]["pod-template-hash"]
    assert one["metadata"]["name"] == f"first-{digest}"
    assert one["spec"]["selector"] == {"matchLabels": {"app": "first", "pod-template-hash": digest}}
    # 2 replicas and 25 % of them, rounded up.
    assert one["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
        "deployment.kubernetes.io/revision": "1",
    }
    assert found["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    status = found["status"]
    assert {key: value for key, value in status.items() if key != "conditions"} == {
        "observedGeneration": found["metadata"]["generation"],
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    assert room.condition("deployments", "first", "Progressing") == {
        "status": "True",
        "reason": "NewReplicaSetAvailable",
        "message": f'ReplicaSet "first-{digest}" has successfully progressed.',
    }
    assert room.condition("deployments", "first", "Available") == {
        "status": "True",
        "reason": "MinimumReplicasAvailable",
        "message": "Deployment has minimum availability.",
    }
    event = ("ScalingReplicaSet", f"Scaled up replica set first-{digest} from 0 to 2", 1)
    assert room.until(lambda: room.events("first"), "an event") == [event]


def test_a_rolling_update_keeps_enough_pods_and_not_too_many(room: Lab) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    room.create("deployments", deployment("roll", 4, strategy=rolling))
    done(room, "roll", 4)
    set_image(room, "roll", "run:2")
    seen: list[tuple[int, int]] = []

    def look() -> bool:
        sets = sets_of(room, "roll")
        seen.append((model.wanted(sets), model.count(sets, "availableReplicas")))
        return room.get("deployments", "roll")["status"].get("updatedReplicas") == 4 and all(
            model.replicas_of(one) == 0 for one in sets[:-1]
        )

    room.until(look, "the end of the rollout")
    done(room, "roll", 4)
    assert max(total for total, _ in seen) <= 5
    assert min(available for _, available in seen) >= 3
    old, new = sets_of(room, "roll")
    assert (model.replicas_of(old), model.replicas_of(new)) == (0, 4)
    assert room.get("deployments", "roll")["metadata"]["annotations"][model.REVISION] == "2"
    texts = [text for reason, text, _ in room.events("roll") if reason == "ScalingReplicaSet"]
    assert texts[0] == f"Scaled up replica set {old['metadata']['name']} from 0 to 4"
    # One may be too many: the new set begins with one Pod.
    assert texts[1] == f"Scaled up replica set {new['metadata']['name']} from 0 to 1"
    assert texts[2] == f"Scaled down replica set {old['metadata']['name']} from 4 to 3"
    assert {pod["spec"]["containers"][0]["image"] for pod in room.pods("app=roll")} == {"run:2"}


def test_going_back_uses_the_old_set_with_a_new_revision(room: Lab) -> None:
    room.create("deployments", deployment("back", 1))
    done(room, "back", 1)
    set_image(room, "back", "run:2")
    room.until(lambda: len(sets_of(room, "back")) == 2, "a second set")
    done(room, "back", 1)
    set_image(room, "back", "run:1")
    room.until(
        lambda: room.get("deployments", "back")["metadata"]["annotations"][model.REVISION] == "3",
        "revision 3",
    )
    done(room, "back", 1)
    second, third = sets_of(room, "back")
    assert second["metadata"]["annotations"][model.REVISION] == "2"
    assert third["spec"]["template"]["spec"]["containers"][0]["image"] == "run:1"
    assert third["metadata"]["annotations"][model.REVISION_HISTORY] == "1"


def test_recreate_ends_old_pods_before_new_ones_start(room: Lab) -> None:
    room.create("deployments", deployment("again", 2, strategy={"type": "Recreate"}))
    done(room, "again", 2)
    room.host.stop("kubelet")
    set_image(room, "again", "run:2")
    try:
        # The old Pods are being deleted, and nobody ends them.
        room.until(lambda: not room.pods("app=again"), "deletion of the old pods")
        room.stays(lambda: len(sets_of(room, "again")) == 1, "no second set yet")
    finally:
        room.host.start("kubelet")
    room.until(lambda: len(sets_of(room, "again")) == 2, "a second set")
    done(room, "again", 2)


def test_a_pause_holds_a_rollout(room: Lab) -> None:
    room.create("deployments", deployment("pause", 1))
    done(room, "pause", 1)
    room.patch("deployments", "pause", {"spec": {"paused": True}})
    set_image(room, "pause", "run:2")
    paused = {"status": "Unknown", "reason": "DeploymentPaused", "message": "Deployment is paused"}
    room.until(lambda: room.condition("deployments", "pause", "Progressing") == paused, "the condition")
    room.patch("deployments", "pause", {"spec": {"replicas": 2}})
    room.status("deployments", "pause", availableReplicas=2)
    assert len(sets_of(room, "pause")) == 1
    room.patch("deployments", "pause", {"spec": {"paused": False}})
    room.until(lambda: len(sets_of(room, "pause")) == 2, "a second set")
    done(room, "pause", 2)


def test_a_rollout_that_stands_still_passes_its_deadline(room: Lab) -> None:
    room.create("deployments", deployment("stuck", 1, "hang:1", progressDeadlineSeconds=60))
    room.until(
        lambda: room.condition("deployments", "stuck", "Progressing").get("reason") == "ReplicaSetUpdated",
        "progress",
    )
    assert room.condition("deployments", "stuck", "Available") == {
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }
    room.clock.advance(70)
    (one,) = sets_of(room, "stuck")
    expected = {
        "status": "False",
        "reason": "ProgressDeadlineExceeded",
        "message": f'ReplicaSet "{one["metadata"]["name"]}" has timed out progressing.',
    }
    room.until(
        lambda: room.condition("deployments", "stuck", "Progressing") == expected, "the end of patience"
    )


def test_scaling_in_the_middle_of_a_rollout_is_proportional(room: Lab) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    room.create("deployments", deployment("prop", 6, strategy=rolling))
    done(room, "prop", 6)
    # New Pods never get ready: 6 + 2 = 8 at most, 5 available at least; the old set stops at 5, the new one at 3.
    set_image(room, "prop", "hang:2")
    room.until(lambda: [model.replicas_of(one) for one in sets_of(room, "prop")] == [5, 3], "a stuck rollout")
    room.patch("deployments", "prop", {"spec": {"replicas": 12}})
    # 12 + 2 = 14 allowed, 6 more than 8. The old set grows to round(5 * 14 / 8) = 9, 4 more; the new one gets
    # round(3 * 14 / 8) = 5, 2 more.
    room.until(lambda: [model.replicas_of(one) for one in sets_of(room, "prop")] == [9, 5], "proportions")
    room.delete("deployments", "prop")


def test_old_sets_beyond_the_limit_go(room: Lab) -> None:
    room.create("deployments", deployment("limit", 1, revisionHistoryLimit=1))
    done(room, "limit", 1)
    for image in ("run:2", "run:3", "run:4"):
        set_image(room, "limit", image)
        room.until(
            lambda image=image: (
                sets_of(room, "limit")[-1]["spec"]["template"]["spec"]["containers"][0]["image"] == image
            ),
            "the new set",
        )
        done(room, "limit", 1)
    room.until(lambda: len(sets_of(room, "limit")) == 2, "only one old set")
    revisions = [one["metadata"]["annotations"][model.REVISION] for one in sets_of(room, "limit")]
    assert revisions == ["3", "4"]


def test_equal_hashes_of_different_templates_are_counted(room: Lab) -> None:
    room.host.stop(NAME)
    body = deployment("clash", 1)
    made = room.create("deployments", body)
    # Somebody else's set has the name that the Deployment's set is going to have.
    digest = template_hash(made["spec"]["template"])
    stranger = workload("ReplicaSet", "stranger", replicas=0)
    stranger["metadata"]["name"] = f"clash-{digest}"
    room.create("replicasets", stranger)
    room.host.start(NAME)
    found = done(room, "clash", 1)
    assert found["status"]["collisionCount"] == 1
    (one,) = sets_of(room, "clash")
    assert one["metadata"]["name"] != f"clash-{digest}"


def test_failures_of_pods_show_in_the_deployment(room: Lab) -> None:
    body = deployment("refused", 1)
    body["spec"]["template"] = template("refused", priorityClassName="nosuch")
    room.create("deployments", body)
    room.until(lambda: room.condition("deployments", "refused", "ReplicaFailure"), "the condition")
    found = room.condition("deployments", "refused", "ReplicaFailure")
    assert (found["status"], found["reason"]) == ("True", "FailedCreate")
    assert "is forbidden: no PriorityClass with name nosuch was found" in found["message"]
    room.delete("deployments", "refused")


def test_a_rollback_by_annotation(room: Lab) -> None:
    room.create("deployments", deployment("wish", 1))
    done(room, "wish", 1)
    set_image(room, "wish", "run:2")
    room.until(lambda: len(sets_of(room, "wish")) == 2, "a second set")
    done(room, "wish", 1)
    room.patch("deployments", "wish", {"metadata": {"annotations": {model.ROLLBACK_TO: "0"}}})
    room.until(
        lambda: (
            ("DeploymentRollback", 'Rolled back deployment "wish" to revision 1', 1) in room.events("wish")
        ),
        "the event",
    )
    found = done(room, "wish", 1)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "run:1"
    assert model.ROLLBACK_TO not in found["metadata"]["annotations"]


def test_controllers_killed_at_random_end_with_the_wanted_pods(tmp_path: Path, fresh_seed: int) -> None:
    chance = random.Random(fresh_seed)
    with lab(tmp_path, *BOTH) as room:
        wanted = {f"chaos{index}": (3, "run:1") for index in range(3)}
        for name in wanted:
            room.create("deployments", deployment(name, 3))
        for _ in range(30):
            name = chance.choice(list(wanted))
            replicas, image = chance.randrange(8), f"run:{chance.randrange(4)}"
            wanted[name] = (replicas, image)
            pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
            room.patch("deployments", name, {"spec": {"replicas": replicas, "template": pod}})
            time.sleep(chance.uniform(0, 0.08))
            for victim in chance.sample(BOTH, chance.randrange(3)):
                room.host.kill(victim)
                time.sleep(chance.uniform(0, 0.02))
                room.host.start(victim)
        for name, (replicas, image) in wanted.items():
            done(room, name, replicas, seconds=30)
            pods = room.pods(f"app={name}")
            assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [image] * replicas
            # One set for each image that was ever asked for.
            images = [
                one["spec"]["template"]["spec"]["containers"][0]["image"] for one in sets_of(room, name)
            ]
            assert len(images) == len(set(images))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    replicas=st.integers(0, 60),
    surge=st.integers(0, 10),
)
def test_proportional_sizes_reach_the_allowed_number(sizes: list[int], replicas: int, surge: int) -> None:
    before = sum(sizes)
    sets = [
        {
            "metadata": {
                "name": f"s{index}",
                "creationTimestamp": f"2026-01-01T00:00:{index:02}Z",
                "annotations": {model.MAX_REPLICAS: str(before)},
            },
            "spec": {"replicas": size},
        }
        for index, size in enumerate(sizes)
    ]
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}
    found = model.proportional_sizes({"spec": {"replicas": replicas, "strategy": rolling}}, sets)
    allowed = replicas + surge if replicas else 0
    assert sum(size for _, size in found) == allowed
    assert all(size >= 0 for _, size in found)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        # 25 % of 3 is 0.75: one more, none less.
        ("25%", "25%", 3, (1, 0)),
        ("25%", "25%", 10, (3, 2)),
        (0, 0, 5, (0, 1)),
        ("0%", "10%", 5, (0, 1)),
        (0, 9, 5, (0, 5)),
        ("25%", "25%", 0, (0, 0)),
    ],
)
def test_surge_and_unavailability(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }
    found = {"spec": {"replicas": replicas, "strategy": strategy}}
    assert (model.max_surge(found), model.max_unavailable(found)) == expected


def test_history_of_revisions_forgets_the_oldest() -> None:
    long = ",".join(["1000"] * 400)  # 400 * 5 - 1 = 1999 characters
    annotations = {model.REVISION: "77", model.REVISION_HISTORY: long}
    found = model.set_annotations(
        {"metadata": {}, "spec": {"replicas": 1, "strategy": {"type": "Recreate"}}},
        annotations,
        78,
        exists=True,
    )
    # 1999 + 3 characters are too many; without the first five they fit.
    assert found[model.REVISION_HISTORY] == ",".join(["1000"] * 399 + ["77"])
