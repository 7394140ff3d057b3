from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workload_harness import Lab, lab, workload

from clusters.embedded.controllers.statefulset import identity

NAME = "statefulset-controller"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path, NAME) as made:
        yield made


def stateful_set(name: str, replicas: int, image: str = "run:1", **spec: Any) -> dict[str, Any]:
    return workload("StatefulSet", name, image, replicas=replicas, serviceName="svc", **spec)


def set_image(room: Lab, name: str, image: str) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
    room.patch("statefulsets", name, {"spec": {"template": pod}})


def images(room: Lab, name: str) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in room.pods(f"app={name}")]


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_pods_come_in_order_with_their_names(room: Lab) -> None:
    room.create("statefulsets", stateful_set("web", 3))
    found = room.status("statefulsets", "web", readyReplicas=3)
    (revision,) = room.list("controllerrevisions")
    name = revision["metadata"]["name"]
    assert found["status"] == {
        "observedGeneration": 1,
        "replicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": name,
        "updateRevision": name,
        "collisionCount": 0,
    }
    for ordinal, pod in enumerate(room.pods("app=web")):
        assert pod["metadata"]["name"] == f"web-{ordinal}"
        assert pod["metadata"]["labels"] == {
            "app": "web",
            "statefulset.kubernetes.io/pod-name": f"web-{ordinal}",
            "apps.kubernetes.io/pod-index": str(ordinal),
            "controller-revision-hash": name,
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"web-{ordinal}", "svc")
    expected = [
        ("SuccessfulCreate", f"Create Pod web-{ordinal} in StatefulSet web successful", 1)
        for ordinal in range(3)
    ]
    assert room.until(lambda: room.events("web")[2:] and room.events("web"), "events") == expected


def test_a_pod_that_is_not_ready_holds_its_successors(room: Lab) -> None:
    room.create("statefulsets", stateful_set("held", 2, "hang:1"))
    room.status("statefulsets", "held", replicas=1)
    room.stays(lambda: room.names("app=held") == ["held-0"], "no second pod yet")
    moment = room.clock.timestamp()
    room.set_pod("held-0", conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": moment}])
    room.until(lambda: room.names("app=held") == ["held-0", "held-1"], "the second pod")


def test_parallel_sets_do_not_wait(room: Lab) -> None:
    room.create("statefulsets", stateful_set("burst", 3, "hang:1", podManagementPolicy="Parallel"))
    room.until(lambda: room.names("app=burst") == ["burst-0", "burst-1", "burst-2"], "all pods")
    room.patch("statefulsets", "burst", {"spec": {"replicas": 1}})
    room.until(lambda: room.names("app=burst") == ["burst-0"], "the end of two pods")


def test_scaling_down_takes_the_highest_first(room: Lab) -> None:
    room.create("statefulsets", stateful_set("down", 3, ordinals={"start": 5}))
    room.status("statefulsets", "down", readyReplicas=3)
    assert room.names("app=down") == ["down-5", "down-6", "down-7"]
    room.patch("statefulsets", "down", {"spec": {"replicas": 1}})
    room.status("statefulsets", "down", replicas=1)
    assert room.names("app=down") == ["down-5"]
    room.until(lambda: len(room.events("down")) == 5, "events")
    texts = [text for reason, text, _ in room.events("down") if reason == "SuccessfulDelete"]
    assert texts == [f"Delete Pod down-{ordinal} in StatefulSet down successful" for ordinal in (7, 6)]


def test_ended_and_deleted_pods_come_back_under_their_names(room: Lab) -> None:
    room.create("statefulsets", stateful_set("back", 2))
    room.status("statefulsets", "back", readyReplicas=2)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in room.pods("app=back")}
    room.set_pod("back-1", phase="Failed")
    room.delete("pods", "back-0", "v1")

    def renewed() -> bool:
        after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in room.pods("app=back")}
        return set(after) == set(before) and not set(after.values()) & set(before.values())

    room.until(renewed, "new pods of the same names")
    room.status("statefulsets", "back", readyReplicas=2)


def test_an_update_goes_from_the_last_to_the_partition(room: Lab) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    room.create("statefulsets", stateful_set("part", 3, updateStrategy=strategy))
    room.status("statefulsets", "part", readyReplicas=3)
    fewest: list[int] = []
    set_image(room, "part", "run:2")

    def look() -> bool:
        fewest.append(sum(map(ready, room.pods("app=part"))))
        return images(room, "part") == ["run:1", "run:2", "run:2"] and fewest[-1] == 3

    room.until(look, "the update of two pods")
    assert min(fewest) >= 2
    found = room.status("statefulsets", "part", updatedReplicas=2, currentReplicas=1)
    assert found["status"]["currentRevision"] != found["status"]["updateRevision"]
    # A Pod below the partition comes back as it was.
    room.delete("pods", "part-0", "v1")
    room.until(lambda: images(room, "part") == ["run:1", "run:2", "run:2"], "the old first pod")
    room.status("statefulsets", "part", readyReplicas=3)
    room.patch("statefulsets", "part", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    found = room.status("statefulsets", "part", updatedReplicas=3, currentReplicas=3, readyReplicas=3)
    assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
    texts = [text for reason, text, _ in room.events("part") if reason == "SuccessfulDelete"]
    assert texts == [f"Delete Pod part-{ordinal} in StatefulSet part successful" for ordinal in (2, 1, 0)]


def test_updates_on_deletion_wait_for_it(room: Lab) -> None:
    room.create("statefulsets", stateful_set("wait", 1, updateStrategy={"type": "OnDelete"}))
    room.status("statefulsets", "wait", readyReplicas=1)
    set_image(room, "wait", "run:2")
    room.status("statefulsets", "wait", updatedReplicas=0)
    assert images(room, "wait") == ["run:1"]
    room.delete("pods", "wait-0", "v1")
    room.until(lambda: images(room, "wait") == ["run:2"], "the new pod")


def test_several_pods_of_a_parallel_set_are_updated_at_once(room: Lab) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    body = stateful_set("wide", 4, updateStrategy=strategy, podManagementPolicy="Parallel")
    room.create("statefulsets", body)
    room.status("statefulsets", "wide", readyReplicas=4)
    set_image(room, "wide", "hang:2")
    # Two of four may be unavailable: the last two, for ever.
    room.until(lambda: images(room, "wide") == ["run:1", "run:1", "hang:2", "hang:2"], "two new pods")
    room.stays(lambda: images(room, "wide") == ["run:1", "run:1", "hang:2", "hang:2"], "two old pods stay")
    # Those that are unavailable anyway are replaced in spite of that.
    set_image(room, "wide", "run:3")
    room.status("statefulsets", "wide", updatedReplicas=4, readyReplicas=4)
    assert images(room, "wide") == ["run:3"] * 4


def test_history_is_limited_and_going_back_takes_the_old_revision(room: Lab) -> None:
    room.create("statefulsets", stateful_set("past", 1, revisionHistoryLimit=1))
    room.status("statefulsets", "past", readyReplicas=1)
    for number in range(2, 5):
        set_image(room, "past", f"run:{number}")
        room.until(lambda number=number: images(room, "past") == [f"run:{number}"], "the new pod")
        room.status("statefulsets", "past", updatedReplicas=1, readyReplicas=1)
    room.until(
        lambda: sorted(one["revision"] for one in room.list("controllerrevisions")) == [3, 4],
        "one old revision",
    )
    set_image(room, "past", "run:3")
    room.until(
        lambda: sorted(one["revision"] for one in room.list("controllerrevisions")) == [4, 5], "revision 5"
    )


def test_claims_that_cannot_be_made_are_reported(room: Lab) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    room.create("statefulsets", stateful_set("disk", 1, volumeClaimTemplates=[claim]))
    start = "Create Claim data-disk-0 for Pod disk-0 in StatefulSet disk failed error: "
    event = room.until(lambda: [one for one in room.events("disk") if one[1].startswith(start)], "the event")[
        0
    ]
    assert event[0] == "FailedCreate"
    assert room.names("app=disk") == []


def test_a_controller_killed_at_random_ends_with_the_wanted_pods(room: Lab, fresh_seed: int) -> None:
    chance = random.Random(fresh_seed)
    wanted = {"one": (3, "run:1"), "all": (3, "run:1")}
    room.create("statefulsets", stateful_set("one", 3))
    room.create("statefulsets", stateful_set("all", 3, podManagementPolicy="Parallel"))
    for _ in range(25):
        name = chance.choice(list(wanted))
        replicas, image = chance.randrange(6), f"run:{chance.randrange(3)}"
        wanted[name] = (replicas, image)
        pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
        room.patch("statefulsets", name, {"spec": {"replicas": replicas, "template": pod}})
        time.sleep(chance.uniform(0, 0.08))
        room.host.kill(NAME)
        time.sleep(chance.uniform(0, 0.02))
        room.host.start(NAME)
    for name, (replicas, image) in wanted.items():
        room.status(
            "statefulsets",
            name,
            seconds=20,
            replicas=replicas,
            readyReplicas=replicas,
            updatedReplicas=replicas,
        )
        assert room.names(f"app={name}") == [f"{name}-{ordinal}" for ordinal in range(replicas)]
        assert images(room, name) == [image] * replicas


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("a-b-12", ("a-b", 12)),
        ("web", ("", -1)),
        ("web-x", ("", -1)),
        ("web-99999999999", ("web", -1)),
    ],
)
def test_ordinals_of_names(name: str, expected: tuple[str, int]) -> None:
    assert identity.parent_and_ordinal({"metadata": {"name": name}}) == expected


def test_volumes_of_claims_replace_those_of_the_same_name() -> None:
    found = {
        "metadata": {"name": "web"},
        "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
    }
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    assert identity.with_storage(found, 1, volumes) == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}},
        {"name": "tmp", "emptyDir": {}},
    ]
