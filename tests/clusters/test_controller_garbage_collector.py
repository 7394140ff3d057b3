from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import DRA, Object, Plane, plane

from clusters.embedded.controllers.garbage_collector import GarbageCollector

NAME = GarbageCollector.name
MAPS = ("v1", "configmaps")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add(NAME, GarbageCollector)
        yield made


def reference(owner: Object, **more: Any) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def config_map(cluster: Plane, name: str, *owners: Object, namespace: str = "default", **meta: Any) -> Object:
    metadata = {"name": name, **({"ownerReferences": list(owners)} if owners else {}), **meta}
    return cluster.client.create(*MAPS, {"metadata": metadata}, namespace)


def find(cluster: Plane, name: str, namespace: str = "default") -> Object | None:
    return cluster.client.find(*MAPS, name, namespace)


def delete(cluster: Plane, name: str, policy: str | None = None) -> None:
    body = {"propagationPolicy": policy} if policy else None
    cluster.client.delete(*MAPS, name, "default", body)


def settled(cluster: Plane) -> None:
    """Wait until what was written before has been judged: an orphan that was written later is gone."""
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobody"}
    config_map(cluster, "canary", stranger)
    cluster.gone(*MAPS, "canary", "default")


def test_dependents_of_dependents_go_with_their_owner(cluster: Plane) -> None:
    first = config_map(cluster, "first")
    second = config_map(cluster, "second", reference(first))
    config_map(cluster, "third", reference(second))
    delete(cluster, "first")
    cluster.gone(*MAPS, "third", "default")
    assert find(cluster, "second") is None


def test_slice_with_the_uid_of_another_node_is_collected_soon(cluster: Plane) -> None:
    """M19, S004-16."""
    node = cluster.client.create("v1", "nodes", {"metadata": {"name": "n1"}})
    for name, uid in (("wrong", "00000000-0000-0000-0000-000000000000"), ("right", node["metadata"]["uid"])):
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
        spec = {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        }
        body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
        cluster.client.create(DRA, "resourceslices", body)
    start = time.monotonic()
    cluster.gone(DRA, "resourceslices", "wrong")
    assert time.monotonic() - start < 10.0, "it need not wait for the next look at what kinds there are"
    assert cluster.client.find(DRA, "resourceslices", "right")
    cluster.client.delete("v1", "nodes", "n1")
    cluster.gone(DRA, "resourceslices", "right")


def test_claim_of_a_deleted_pod_is_collected(cluster: Plane) -> None:
    pod = cluster.client.create(
        "v1",
        "pods",
        {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "c", "image": "probe"}]}},
        "default",
    )
    body = {
        "metadata": {"name": "train-gpu-x", "ownerReferences": [reference(pod, controller=True)]},
        "spec": {},
    }
    cluster.client.create(DRA, "resourceclaims", body, "default")
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.gone(DRA, "resourceclaims", "train-gpu-x", "default")


def test_owner_that_is_gone_is_removed_while_another_lives(cluster: Plane) -> None:
    first, second = config_map(cluster, "first"), config_map(cluster, "second")
    config_map(cluster, "both", reference(first), reference(second))
    delete(cluster, "first")
    cluster.until(
        lambda: (find(cluster, "both") or {})["metadata"]["ownerReferences"] == [reference(second)],
        "one owner",
    )


def test_foreground_deletion_waits_for_blocking_dependents(cluster: Plane) -> None:
    owner = config_map(cluster, "owner")
    held = config_map(
        cluster, "held", reference(owner, blockOwnerDeletion=True), finalizers=["example.com/hold"]
    )
    config_map(cluster, "free", reference(owner), finalizers=["example.com/hold"])
    hold = ["example.com/hold"]
    config_map(cluster, "leaf", reference(held, blockOwnerDeletion=True), finalizers=hold)
    settled(cluster)
    delete(cluster, "owner", "Foreground")
    cluster.until(
        lambda: "deletionTimestamp" in (find(cluster, "leaf") or {})["metadata"], "deletion of the leaf"
    )
    # A dependent that has dependents goes in the foreground too.
    assert "foregroundDeletion" in (find(cluster, "held") or {})["metadata"]["finalizers"]
    cluster.client.patch(*MAPS, "leaf", {"metadata": {"finalizers": None}}, "default")
    cluster.gone(*MAPS, "leaf", "default")
    cluster.until(
        lambda: (find(cluster, "held") or {})["metadata"]["finalizers"] == ["example.com/hold"],
        "end of the inner deletion",
    )
    settled(cluster)
    assert (find(cluster, "owner") or {})["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.client.patch(*MAPS, "held", {"metadata": {"finalizers": None}}, "default")
    cluster.gone(*MAPS, "owner", "default")
    # It did not block, so nobody waited for it.
    assert "deletionTimestamp" in (find(cluster, "free") or {})["metadata"]
    cluster.client.patch(*MAPS, "free", {"metadata": {"finalizers": None}}, "default")


def test_events_of_the_ways_to_delete_come_in_upstreams_order(cluster: Plane) -> None:
    for policy in ("Background", "Foreground", "Orphan"):
        own = config_map(cluster, f"own-{policy.lower()}")
        config_map(cluster, f"dep-{policy.lower()}", reference(own, blockOwnerDeletion=True))
    settled(cluster)
    expected = {
        "Background": ["DELETED own", "DELETED dep"],
        "Foreground": ["MODIFIED own", "DELETED dep", "DELETED own"],
        "Orphan": ["MODIFIED own", "MODIFIED dep", "DELETED own"],
    }
    for policy, sequence in expected.items():
        suffix = f"-{policy.lower()}"
        answer = cluster.client.request("GET", "/api/v1/namespaces/default/configmaps")
        events = cluster.client.watch(
            *MAPS, "default", timeout=10, resourceVersion=answer["metadata"]["resourceVersion"]
        )
        delete(cluster, f"own{suffix}", policy)
        seen: list[str] = []
        for event in events:
            name = event["object"]["metadata"]["name"]
            if name.endswith(suffix):
                seen.append(f"{event['type']} {name.removesuffix(suffix)}")
            if len(seen) == len(sequence):
                break
        events.close()  # type: ignore[attr-defined]
        assert seen == sequence


def test_orphaned_dependents_stay(cluster: Plane) -> None:
    owner = config_map(cluster, "owner")
    other = config_map(cluster, "other")
    config_map(cluster, "dependent", reference(owner), reference(other))
    delete(cluster, "owner", "Orphan")
    cluster.gone(*MAPS, "owner", "default")
    assert (find(cluster, "dependent") or {})["metadata"]["ownerReferences"] == [reference(other)]


def test_owners_in_a_circle_do_not_wait_for_each_other(cluster: Plane) -> None:
    first = config_map(cluster, "first")
    second = config_map(cluster, "second", reference(first, blockOwnerDeletion=True))
    owners = {"metadata": {"ownerReferences": [reference(second, blockOwnerDeletion=True)]}}
    cluster.client.patch(*MAPS, "first", owners, "default")
    settled(cluster)
    delete(cluster, "first", "Foreground")
    cluster.gone(*MAPS, "first", "default")
    cluster.gone(*MAPS, "second", "default")


def test_owner_in_another_namespace_counts_as_absent_and_is_told(cluster: Plane) -> None:
    owner = config_map(cluster, "owner", namespace="kube-public")
    settled(cluster)
    config_map(cluster, "dependent", reference(owner))
    cluster.gone(*MAPS, "dependent", "default")
    event = cluster.until(lambda: cluster.events("dependent"), "an event")[0]
    assert (event["type"], event["reason"]) == ("Warning", "OwnerRefInvalidNamespace")
    assert event["source"] == {"component": "garbage-collector-controller"}
    assert event["message"] == (
        f"ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {owner['metadata']['uid']}] "
        'does not exist in namespace "default"'
    )
    assert find(cluster, "owner", "kube-public")


def test_owner_of_a_kind_that_nobody_serves_keeps_the_object(cluster: Plane) -> None:
    """It might be served later."""
    owner = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "f", "uid": "f"}
    config_map(cluster, "dependent", owner)
    settled(cluster)
    assert find(cluster, "dependent")


def test_cluster_scoped_object_with_a_namespaced_owner_stays(cluster: Plane) -> None:
    owner = config_map(cluster, "owner")
    body = {"metadata": {"name": "n1", "ownerReferences": [reference(owner)]}}
    cluster.client.create("v1", "nodes", body)
    settled(cluster)
    assert cluster.client.find("v1", "nodes", "n1")


def test_owner_under_a_wrong_name_is_absent_for_that_dependent_only(cluster: Plane) -> None:
    owner = config_map(cluster, "owner")
    settled(cluster)
    config_map(cluster, "wrong", {**reference(owner), "name": "another"})
    config_map(cluster, "right", reference(owner))
    cluster.gone(*MAPS, "wrong", "default")
    settled(cluster)
    assert find(cluster, "right")


def test_wrong_name_seen_before_the_owner_is_found_out(cluster: Plane) -> None:
    cluster.host.stop(NAME)
    owner = config_map(cluster, "owner")
    config_map(cluster, "a-right", reference(owner))
    config_map(cluster, "a-wrong", {**reference(owner), "name": "another"})
    cluster.host.start(NAME)
    cluster.gone(*MAPS, "a-wrong", "default")
    settled(cluster)
    assert find(cluster, "a-right")


def test_what_happened_while_the_collector_was_down_is_made_up_for(cluster: Plane) -> None:
    for policy in ("background", "foreground", "orphan"):
        owner = config_map(cluster, f"own-{policy}")
        config_map(cluster, f"dep-{policy}", reference(owner, blockOwnerDeletion=True))
    settled(cluster)
    cluster.host.kill(NAME)
    for policy in ("Background", "Foreground", "Orphan"):
        delete(cluster, f"own-{policy.lower()}", policy)
    cluster.host.start(NAME)
    for name in ("dep-background", "dep-foreground", "own-foreground", "own-orphan"):
        cluster.gone(*MAPS, name, "default")
    assert not (find(cluster, "dep-orphan") or {})["metadata"].get("ownerReferences")


def test_orphan_finalizer_of_a_collected_object_is_honoured(cluster: Plane) -> None:
    owner = config_map(cluster, "owner")
    middle = config_map(cluster, "middle", reference(owner), finalizers=["orphan"])
    config_map(cluster, "leaf", reference(middle))
    settled(cluster)
    delete(cluster, "owner")
    cluster.gone(*MAPS, "middle", "default")
    assert not (find(cluster, "leaf") or {})["metadata"].get("ownerReferences")


def test_a_life_begins_fast(cluster: Plane) -> None:
    """Watching every kind may not cost the start of a cluster."""
    cluster.host.stop(NAME)
    start = time.process_time()
    cluster.host.start(NAME)
    cluster.until(lambda: "is filled" in "".join(cluster.host.logs(NAME)[-1:]), "a full graph")
    assert time.process_time() - start < 3.0
