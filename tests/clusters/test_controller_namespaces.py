"""Namespaces: their content goes with them, and each has its service account and certificate authority."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import DRA, Object, Plane, plane

from clusters.client import ClientError
from clusters.embedded.controllers.namespace import NamespaceController
from clusters.embedded.controllers.namespace_conditions import merged, problems
from clusters.embedded.controllers.root_ca import RootCaPublisher
from clusters.embedded.controllers.service_account import ServiceAccountController

MAP = "kube-root-ca.crt"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        yield made


def namespace(cluster: Plane, name: str) -> None:
    cluster.client.create("v1", "namespaces", {"metadata": {"name": name}})


def config_map(cluster: Plane, name: str, place: str, **metadata: Any) -> None:
    cluster.client.create("v1", "configmaps", {"metadata": {"name": name, **metadata}}, place)


def pod(cluster: Plane, name: str, place: str, **spec: Any) -> Object:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "probe"}], "serviceAccountName": "", **spec},
    }
    return cluster.client.create("v1", "pods", body, place)


def conditions(cluster: Plane, name: str) -> dict[str, tuple[str, str, str]]:
    status = cluster.client.get("v1", "namespaces", name)["status"]
    return {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in status.get("conditions") or []
    }


def test_content_goes_with_its_namespace(cluster: Plane) -> None:
    cluster.add(NamespaceController.name, lambda: NamespaceController(grace_seconds=0))
    namespace(cluster, "team")
    config_map(cluster, "settings", "team")
    cluster.client.create(DRA, "resourceclaims", {"metadata": {"name": "c"}, "spec": {}}, "team")
    cluster.client.create("v1", "events", event("team"), "team")
    cluster.client.delete("v1", "namespaces", "team")
    cluster.gone("v1", "namespaces", "team")
    for api_version, resource in (("v1", "configmaps"), (DRA, "resourceclaims"), ("v1", "events")):
        assert cluster.client.list(api_version, resource, "team") == []


def event(place: str) -> Object:
    regarding = {"kind": "ConfigMap", "namespace": place, "name": "settings"}
    return {"metadata": {"name": "e"}, "involvedObject": regarding, "reason": "r", "type": "Normal"}


def test_deletion_is_acted_on_after_five_seconds(cluster: Plane) -> None:
    cluster.add(NamespaceController.name, NamespaceController)
    namespace(cluster, "team")
    cluster.client.delete("v1", "namespaces", "team")
    namespace(cluster, "other")
    cluster.clock.advance(4)
    assert cluster.client.find("v1", "namespaces", "team")
    # The five seconds count from when the controller heard of the deletion.
    cluster.until(
        lambda: cluster.clock.advance(1) or cluster.client.find("v1", "namespaces", "team") is None,
        "end of the namespace",
    )
    assert cluster.client.find("v1", "namespaces", "other")


def test_finalizers_of_content_hold_the_namespace_and_are_told(cluster: Plane) -> None:
    cluster.add(NamespaceController.name, lambda: NamespaceController(grace_seconds=0))
    namespace(cluster, "team")
    config_map(cluster, "a", "team", finalizers=["example.com/hold"])
    config_map(cluster, "b", "team", finalizers=["example.com/hold"])
    cluster.client.delete("v1", "namespaces", "team")
    found = cluster.until(lambda: conditions(cluster, "team"), "conditions")
    assert found == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances",
        ),
    }
    for name in ("a", "b"):
        cluster.client.patch("v1", "configmaps", name, {"metadata": {"finalizers": None}}, "team")
    # Looked at again after 15 // 2 + 1 = 8 s.
    cluster.clock.advance(8)
    cluster.gone("v1", "namespaces", "team")


def test_pods_end_before_anything_else_is_deleted(cluster: Plane) -> None:
    cluster.add(NamespaceController.name, lambda: NamespaceController(grace_seconds=0))
    namespace(cluster, "team")
    cluster.client.create("v1", "serviceaccounts", {"metadata": {"name": "default"}}, "team")
    config_map(cluster, "settings", "team")
    pod(cluster, "train", "team", nodeName="n1", terminationGracePeriodSeconds=10)
    cluster.client.delete("v1", "namespaces", "team")
    deleted = cluster.until(
        lambda: (
            "deletionTimestamp" in cluster.client.get("v1", "pods", "train", "team")["metadata"]
            and conditions(cluster, "team")
        ),
        "deletion of the pod",
    )
    assert deleted["NamespaceContentRemaining"][0] == "False"
    assert cluster.client.find("v1", "configmaps", "settings", "team")
    cluster.client.delete("v1", "pods", "train", "team", {"gracePeriodSeconds": 0})
    # Looked at again after 10 // 2 + 1 = 6 s.
    cluster.clock.advance(6)
    cluster.gone("v1", "namespaces", "team")


def test_namespace_deleted_while_the_controller_was_down_goes_at_its_start(cluster: Plane) -> None:
    namespace(cluster, "team")
    config_map(cluster, "settings", "team")
    cluster.client.delete("v1", "namespaces", "team")
    with pytest.raises(ClientError, match="is being terminated"):
        config_map(cluster, "late", "team")
    cluster.add(NamespaceController.name, lambda: NamespaceController(grace_seconds=0))
    cluster.gone("v1", "namespaces", "team")


def test_conditions_keep_their_time_until_their_status_changes() -> None:
    first = merged([], problems(["b", "a"], {}, {}), "T1")
    assert first is not None
    failure = first[2]
    assert failure == {
        "type": "NamespaceDeletionContentFailure",
        "lastTransitionTime": "T1",
        "status": "True",
        "reason": "ContentDeletionFailed",
        "message": "Failed to delete all resource types, 2 remaining: a, b",
    }
    assert merged(first, problems(["b", "a"], {}, {}), "T2") is None
    second = merged(first, problems(["a"], {}, {}), "T2")
    assert second is not None
    assert (second[2]["lastTransitionTime"], second[2]["message"][-1]) == ("T1", "a")
    third = merged(second, {}, "T3")
    assert third is not None
    assert (third[2]["lastTransitionTime"], third[2]["status"]) == ("T3", "False")


def test_every_namespace_has_its_service_account(cluster: Plane) -> None:
    cluster.add(ServiceAccountController.name, ServiceAccountController)
    namespace(cluster, "team")
    account = cluster.until(
        lambda: cluster.client.find("v1", "serviceaccounts", "default", "team"), "account"
    )
    cluster.client.delete("v1", "serviceaccounts", "default", "team")
    again = cluster.until(lambda: cluster.client.find("v1", "serviceaccounts", "default", "team"), "account")
    assert again["metadata"]["uid"] != account["metadata"]["uid"]
    pod(cluster, "train", "team", serviceAccountName="default")


def test_certificate_authority_is_published_and_repaired(cluster: Plane) -> None:
    cluster.add(RootCaPublisher.name, lambda: RootCaPublisher("PEM"))
    namespace(cluster, "team")
    found = cluster.until(lambda: cluster.client.find("v1", "configmaps", MAP, "team"), "config map")
    assert found["data"] == {"ca.crt": "PEM"}
    assert found["metadata"]["annotations"]["kubernetes.io/description"].startswith("Contains a CA bundle")
    cluster.client.patch("v1", "configmaps", MAP, {"data": {"ca.crt": "wrong", "more": "x"}}, "team")

    def repaired() -> bool:
        now = cluster.client.find("v1", "configmaps", MAP, "team")
        return now is not None and now["data"] == {"ca.crt": "PEM"}

    cluster.until(repaired, "repaired data")
    cluster.client.delete("v1", "configmaps", MAP, "team")
    cluster.until(repaired, "a new config map")
    for name in ("default", "kube-system"):
        cluster.until(
            lambda name=name: cluster.client.find("v1", "configmaps", MAP, name),  # type: ignore[misc]
            "config map",
        )


def test_terminating_namespace_gets_nothing_new(cluster: Plane) -> None:
    cluster.add(RootCaPublisher.name, lambda: RootCaPublisher("PEM"))
    cluster.add(ServiceAccountController.name, ServiceAccountController)
    namespace(cluster, "team")
    cluster.until(lambda: cluster.client.find("v1", "configmaps", MAP, "team"), "config map")
    cluster.until(lambda: cluster.client.find("v1", "serviceaccounts", "default", "team"), "account")
    cluster.client.delete("v1", "namespaces", "team")
    cluster.add(NamespaceController.name, lambda: NamespaceController(grace_seconds=0))
    cluster.gone("v1", "namespaces", "team")
    assert cluster.client.list("v1", "configmaps", "team") == []
    # A refusal for this reason is no failure to be tried again.
    assert "is being terminated" not in "".join(
        cluster.host.logs(RootCaPublisher.name) + cluster.host.logs(ServiceAccountController.name)
    )
