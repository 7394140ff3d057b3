from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from workload_harness import Lab, lab, template, workload

from clusters.embedded.controllers.daemonset import plan
from clusters.embedded.controllers.daemonset.nodes import Eligibility, daemon_tolerations, target_node

NAME = "daemonset-controller"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path, NAME) as made:
        yield made


def add_node(room: Lab, name: str, **labels: str) -> None:
    room.client.create("v1", "nodes", {"metadata": {"name": name, "labels": labels}})
    set_taints(room, name)


def set_taints(room: Lab, name: str, *taints: dict[str, Any]) -> None:
    room.client.patch("v1", "nodes", name, {"spec": {"taints": list(taints)}})


def taint(effect: str) -> dict[str, Any]:
    return {"key": "broken", "effect": effect}


def daemon_set(name: str, image: str = "run:1", **spec: Any) -> dict[str, Any]:
    return workload("DaemonSet", name, image, **spec)


def nodes_of(room: Lab, name: str) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in room.pods(f"app={name}"))


def set_image(room: Lab, name: str, image: str) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
    room.patch("daemonsets", name, {"spec": {"template": pod}})


def images(room: Lab, name: str) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in room.pods(f"app={name}")}


def test_each_node_gets_one_pod_by_its_name(room: Lab) -> None:
    for name in ("n1", "n2"):
        add_node(room, name)
    room.create("daemonsets", daemon_set("each"))
    found = room.status("daemonsets", "each", numberReady=2, numberAvailable=2)
    assert found["status"] == {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "numberReady": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
    }
    assert nodes_of(room, "each") == ["n1", "n2"]
    (revision,) = room.list("controllerrevisions")
    assert revision["revision"] == 1
    digest = revision["metadata"]["labels"]["controller-revision-hash"]
    assert revision["metadata"]["name"] == f"each-{digest}"
    assert revision["data"]["spec"]["template"]["$patch"] == "replace"
    for pod in room.pods("app=each"):
        assert pod["metadata"]["generateName"] == "each-"
        assert pod["metadata"]["labels"] == {
            "app": "each",
            "controller-revision-hash": digest,
            "pod-template-generation": "1",
        }
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        field = {"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}
        assert required == {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reasons = [reason for reason, _, _ in room.until(lambda: room.events("each")[1:], "events")]
    assert reasons == ["SuccessfulCreate"]


def test_nodes_that_come_change_and_are_tainted(room: Lab) -> None:
    add_node(room, "n1", kind="gpu")
    room.create("daemonsets", daemon_set("pick", template=template("pick", nodeSelector={"kind": "gpu"})))
    room.status("daemonsets", "pick", numberReady=1)
    add_node(room, "n2", kind="cpu")
    add_node(room, "n3", kind="gpu")
    room.status("daemonsets", "pick", desiredNumberScheduled=2, numberReady=2)
    assert nodes_of(room, "pick") == ["n1", "n3"]
    room.client.patch("v1", "nodes", "n1", {"metadata": {"labels": {"kind": "cpu"}}})
    room.until(lambda: nodes_of(room, "pick") == ["n3"], "the end of the pod on n1")
    # A Pod that is there stays on a node that takes no new ones.
    set_taints(room, "n3", taint("NoSchedule"))
    room.status("daemonsets", "pick", desiredNumberScheduled=0, numberMisscheduled=1)
    assert nodes_of(room, "pick") == ["n3"]
    set_taints(room, "n3", taint("NoExecute"))
    room.until(lambda: nodes_of(room, "pick") == [], "the end of the pod on n3")


def test_a_failed_pod_is_replaced(room: Lab) -> None:
    add_node(room, "n1")
    room.create("daemonsets", daemon_set("fail"))
    room.status("daemonsets", "fail", numberReady=1)
    (name,) = room.names("app=fail")
    room.set_pod(name, phase="Failed")
    room.until(lambda: room.names("app=fail") and name not in room.names("app=fail"), "another pod")
    text = f"Found failed daemon pod default/{name} on node n1, will try to kill it"
    room.until(lambda: ("FailedDaemonPod", text, 1) in room.events("fail"), "the event")


def test_an_update_replaces_one_pod_after_the_other(room: Lab) -> None:
    for name in ("n1", "n2", "n3"):
        add_node(room, name)
    room.create("daemonsets", daemon_set("roll"))
    room.status("daemonsets", "roll", numberAvailable=3)
    fewest: list[int] = []
    set_image(room, "roll", "run:2")

    def look() -> bool:
        ready = [
            pod
            for pod in room.pods("app=roll")
            if any(
                one["type"] == "Ready" and one["status"] == "True"
                for one in pod.get("status", {}).get("conditions", [])
            )
        ]
        fewest.append(len(ready))
        return images(room, "roll") == {"run:2"} and len(ready) == 3

    room.until(look, "the end of the update")
    # maxUnavailable is 1.
    assert min(fewest) >= 2
    room.status("daemonsets", "roll", updatedNumberScheduled=3, numberAvailable=3)
    assert [one["revision"] for one in room.list("controllerrevisions")] in ([1, 2], [2, 1])


def test_an_update_with_surge_starts_new_pods_first(room: Lab) -> None:
    for name in ("n1", "n2"):
        add_node(room, name)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    room.create("daemonsets", daemon_set("surge", updateStrategy=strategy))
    room.status("daemonsets", "surge", numberAvailable=2)
    most: list[int] = []
    set_image(room, "surge", "hang:2")
    # The new Pod never gets ready, so no old one goes.
    room.until(lambda: images(room, "surge") == {"run:1", "hang:2"}, "a new pod")
    room.stays(lambda: len(room.names("app=surge")) == 3, "one pod more than nodes")
    set_image(room, "surge", "run:3")

    def look() -> bool:
        most.append(len(room.names("app=surge")))
        return images(room, "surge") == {"run:3"} and len(room.names("app=surge")) == 2

    room.until(look, "the end of the update")
    assert max(most) <= 4


def test_updates_on_deletion_wait_for_it(room: Lab) -> None:
    add_node(room, "n1")
    room.create("daemonsets", daemon_set("wait", updateStrategy={"type": "OnDelete"}))
    room.status("daemonsets", "wait", numberAvailable=1)
    set_image(room, "wait", "run:2")
    room.status("daemonsets", "wait", updatedNumberScheduled=0)
    (name,) = room.names("app=wait")
    room.delete("pods", name, "v1")
    room.status("daemonsets", "wait", updatedNumberScheduled=1)
    assert images(room, "wait") == {"run:2"}


def test_old_revisions_beyond_the_limit_go(room: Lab) -> None:
    add_node(room, "n1")
    room.create("daemonsets", daemon_set("limit", revisionHistoryLimit=1))
    room.status("daemonsets", "limit", numberAvailable=1)
    for number in range(2, 5):
        set_image(room, "limit", f"run:{number}")
        room.until(lambda number=number: images(room, "limit") == {f"run:{number}"}, "the new pod")
        room.status("daemonsets", "limit", updatedNumberScheduled=1, numberAvailable=1)
    room.until(
        lambda: sorted(one["revision"] for one in room.list("controllerrevisions")) == [3, 4],
        "only one old revision",
    )
    # Going back takes the old revision with a new number.
    set_image(room, "limit", "run:3")
    room.until(
        lambda: sorted(one["revision"] for one in room.list("controllerrevisions")) == [4, 5], "revision 5"
    )


def test_a_controller_killed_at_random_ends_with_one_pod_a_node(room: Lab, fresh_seed: int) -> None:
    chance = random.Random(fresh_seed)
    names = [f"n{number}" for number in range(6)]
    for name in names:
        add_node(room, name)
    room.create("daemonsets", daemon_set("chaos"))
    blocked: set[str] = set()
    image = "run:1"
    for _ in range(25):
        name = chance.choice(names)
        blocked ^= {name}
        set_taints(room, name, *([taint("NoExecute")] if name in blocked else []))
        if chance.random() < 0.3:
            image = f"run:{chance.randrange(4)}"
            set_image(room, "chaos", image)
        time.sleep(chance.uniform(0, 0.06))
        room.host.kill(NAME)
        time.sleep(chance.uniform(0, 0.02))
        room.host.start(NAME)
    left = sorted(set(names) - blocked)
    room.until(
        lambda: nodes_of(room, "chaos") == left and images(room, "chaos") <= {image}, "one pod a node", 20
    )
    count = len(left)
    room.status("daemonsets", "chaos", numberAvailable=count, updatedNumberScheduled=count)


def node(name: str, *taints: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def named(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@pytest.mark.parametrize(
    ("spec", "found", "expected"),
    [
        ({}, node("a"), (True, True)),
        ({"nodeName": "b"}, node("a"), (False, False)),
        ({"nodeSelector": {"x": "1"}}, node("a", x="1"), (True, True)),
        ({"nodeSelector": {"x": "1"}}, node("a", x="2"), (False, False)),
        ({}, node("a", taint("NoSchedule")), (False, True)),
        ({}, node("a", taint("NoExecute")), (False, False)),
        ({}, node("a", taint("PreferNoSchedule")), (True, True)),
        ({"tolerations": [{"operator": "Exists"}]}, node("a", taint("NoExecute")), (True, True)),
        ({}, node("a", {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}), (True, True)),
        ({}, node("a", {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}), (False, True)),
        ({}, node("a", {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}), (True, True)),
    ],
)
def test_nodes_are_chosen_by_name_labels_and_taints(
    spec: dict[str, Any], found: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    assert Eligibility(named(**spec)).of(found) == expected


def test_required_affinity_chooses_nodes() -> None:
    term = {"matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    chooser = Eligibility(named(affinity={"nodeAffinity": required}))
    assert chooser.of(node("a", x="1")) == (True, True)
    assert chooser.of(node("a")) == (False, False)


def test_host_network_tolerates_its_absence_too() -> None:
    keys = [
        one["key"].removeprefix("node.kubernetes.io/") for one in daemon_tolerations({"hostNetwork": True})
    ]
    assert keys == [
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
        "network-unavailable",
    ]


def test_the_node_of_a_pod_that_is_not_bound_is_in_its_affinity() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert target_node({"spec": {"affinity": affinity}}) == "n1"
    assert target_node({"spec": {"affinity": affinity, "nodeName": "n2"}}) == "n2"
    assert target_node({"spec": {}}) is None


def test_failed_pods_are_deleted_later_and_later() -> None:
    backoff = plan.FailureBackoff()
    assert backoff.remaining("k", 100.0) is None
    backoff.next("k", 100.0)
    assert backoff.remaining("k", 100.5) == 1
    assert backoff.remaining("k", 101.0) is None
    backoff.next("k", 101.0)
    assert backoff.remaining("k", 102.0) == 2
    # Half an hour later it begins anew.
    backoff.next("k", 102.0 + 1801)
    assert backoff.remaining("k", 102.0 + 1801) == 1


def test_delays_of_nodes_that_are_quiet_are_not_remembered() -> None:
    backoff = plan.FailureBackoff()
    for number in range(1000):
        # One node every 10 s; 1800 s of quiet are the last 181 of them.
        backoff.next(f"node-{number}", 10.0 * number)
    assert len(backoff) == 181
