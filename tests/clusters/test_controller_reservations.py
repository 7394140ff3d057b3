from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from controller_harness import DRA, FINALIZER, Plane, plane
from resource_claim_harness import (
    NAME,
    allocate,
    claim,
    claims,
    end,
    generated,
    named,
    pod,
    quiet,
    reservation,
    static_claim,
    template,
)

from clusters.client import ClientError
from clusters.embedded.controllers.resource_claim import ResourceClaimController


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add(NAME, ResourceClaimController)
        yield made


def test_end_of_the_pod_empties_reserved_for(cluster: Plane) -> None:
    """SLC-3, CO 3.4."""
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"), nodeName="n1")
    allocate(cluster, "shared", reservation(consumer))
    end(cluster, "train")
    cluster.until(lambda: not claim(cluster, "shared").get("status"), "an unused claim")
    cluster.until(lambda: "finalizers" not in claim(cluster, "shared")["metadata"], "no finalizer")


def test_generated_claim_is_deleted_when_the_pod_completes(cluster: Plane) -> None:
    """SLC-4: although the pod object stays."""
    template(cluster)
    consumer = pod(cluster, "train", nodeName="n1")
    (name,) = generated(cluster, "train")
    allocate(cluster, name, reservation(consumer))
    end(cluster, "train", "Failed")
    cluster.gone(DRA, "resourceclaims", name, "default")
    # A later change of the finished pod does not make another.
    cluster.client.patch("v1", "pods", "train", {"metadata": {"labels": {"x": "1"}}}, "default")
    quiet(cluster)
    assert [c for c in claims(cluster) if c["metadata"]["name"].startswith("train")] == []


def test_deleted_pod_frees_the_claim_which_remains(cluster: Plane) -> None:
    """SN-13."""
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"))
    allocate(cluster, "shared", reservation(consumer))
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.until(lambda: not claim(cluster, "shared").get("status"), "an unused claim")


def test_deleted_pod_keeps_the_claim_while_it_runs(cluster: Plane) -> None:
    """Devices are free only after the kubelet let go; force deletion frees at once (field fault 39)."""
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"), nodeName="n1")
    allocate(cluster, "shared", reservation(consumer))
    cluster.client.delete("v1", "pods", "train", "default")
    quiet(cluster)
    assert claim(cluster, "shared")["status"]["reservedFor"] == [reservation(consumer)]
    cluster.client.delete("v1", "pods", "train", "default", {"gracePeriodSeconds": 0})
    cluster.until(lambda: not claim(cluster, "shared").get("status"), "an unused claim")


def test_consumer_that_was_replaced_under_its_name_is_removed(cluster: Plane) -> None:
    static_claim(cluster)
    now = pod(cluster, "train", named("shared"), nodeName="n1")
    allocate(cluster, "shared", {"resource": "pods", "name": "train", "uid": "another"}, reservation(now))
    cluster.until(
        lambda: claim(cluster, "shared")["status"]["reservedFor"] == [reservation(now)], "one consumer"
    )
    assert "allocation" in claim(cluster, "shared")["status"]


def test_consumer_of_another_kind_stays_and_does_not_hold_pods(cluster: Plane) -> None:
    """Field fault 38."""
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"))
    other = {"apiGroup": "example.com", "resource": "foos", "name": "x", "uid": "u"}
    allocate(cluster, "shared", reservation(consumer), other)
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.until(lambda: claim(cluster, "shared")["status"]["reservedFor"] == [other], "one consumer")
    assert "allocation" in claim(cluster, "shared")["status"]


def test_allocated_claim_that_was_never_reserved_stays_allocated(cluster: Plane) -> None:
    static_claim(cluster)
    allocate(cluster, "shared")
    quiet(cluster)
    assert "allocation" in claim(cluster, "shared")["status"]


def test_allocation_without_the_finalizer_stays(cluster: Plane) -> None:
    static_claim(cluster)
    allocate(cluster, "shared", {"resource": "pods", "name": "absent", "uid": "u"}, finalizer=False)
    cluster.until(lambda: "reservedFor" not in claim(cluster, "shared")["status"], "no consumers")
    quiet(cluster)
    assert "allocation" in claim(cluster, "shared")["status"]


def test_claim_deleted_in_use_goes_with_its_last_consumer(cluster: Plane) -> None:
    """S001-26."""
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"), nodeName="n1")
    allocate(cluster, "shared", reservation(consumer))
    cluster.client.delete(DRA, "resourceclaims", "shared", "default")
    quiet(cluster)
    assert "deletionTimestamp" in claim(cluster, "shared")["metadata"]
    assert claim(cluster, "shared")["status"]["reservedFor"] == [reservation(consumer)]
    end(cluster, "train")
    cluster.gone(DRA, "resourceclaims", "shared", "default")


@pytest.mark.parametrize("reserved", [True, False])
def test_claim_deleted_while_the_controller_was_down_is_finalised_at_its_start(
    cluster: Plane, reserved: bool
) -> None:
    """Field fault 37."""
    cluster.host.stop(NAME)
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"))
    allocate(cluster, "shared", *([reservation(consumer)] if reserved else []))
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.client.delete(DRA, "resourceclaims", "shared", "default")
    assert claim(cluster, "shared")["metadata"]["finalizers"] == [FINALIZER]
    cluster.host.start(NAME)
    cluster.gone(DRA, "resourceclaims", "shared", "default")


def test_pod_with_a_node_is_reserved_once_the_claim_is_allocated(cluster: Plane) -> None:
    """S000-19."""
    static_claim(cluster)
    preset = pod(cluster, "preset", named("shared"), nodeName="n1")
    scheduled = pod(cluster, "scheduled", named("shared"))
    quiet(cluster)
    assert "status" not in claim(cluster, "shared") or not claim(cluster, "shared")["status"]
    allocate(cluster, "shared", reservation(scheduled))
    cluster.until(
        lambda: (
            claim(cluster, "shared")["status"]["reservedFor"] == [reservation(scheduled), reservation(preset)]
        ),
        "two consumers",
    )


def test_template_claim_of_a_pod_with_a_node_is_made_and_waits(cluster: Plane) -> None:
    """S000-20."""
    template(cluster)
    pod(cluster, "preset", nodeName="n1")
    (name,) = generated(cluster, "preset")
    quiet(cluster)
    assert not claim(cluster, name).get("status")


def test_finished_pod_is_reserved_and_released_for_ever_while_another_runs(cluster: Plane) -> None:
    """Field fault 36: a fault of Kubernetes 1.37, kubernetes/kubernetes#141274."""
    static_claim(cluster)
    running = pod(cluster, "running", named("shared"), nodeName="n1")
    done = pod(cluster, "done", named("shared"), nodeName="n1")
    end(cluster, "done")
    allocate(cluster, "shared", reservation(running), reservation(done))
    both = [reservation(running), reservation(done)]
    for round_ in range(3):
        for consumers in ([reservation(running)], both):
            cluster.until(
                lambda wanted=consumers: claim(cluster, "shared")["status"]["reservedFor"] == wanted,
                f"{len(consumers)} consumers in round {round_}",
            )
    cluster.client.delete("v1", "pods", "done", "default")
    quiet(cluster)
    assert claim(cluster, "shared")["status"]["reservedFor"] == [reservation(running)]


def test_change_of_a_finished_pod_makes_a_template_claim_that_goes_at_once(cluster: Plane) -> None:
    template(cluster)
    pod(cluster, "train", nodeName="n1")
    (first,) = generated(cluster, "train")
    end(cluster, "train")
    cluster.gone(DRA, "resourceclaims", first, "default")
    cluster.client.patch("v1", "pods", "train", {"metadata": {"labels": {"touched": "yes"}}}, "default")
    cluster.until(lambda: generated(cluster, "train") not in ([], [first]), "another claim in the status")
    (second,) = generated(cluster, "train")
    cluster.gone(DRA, "resourceclaims", second, "default")


def test_unscheduled_deleted_pod_has_no_claim_left_behind(cluster: Plane) -> None:
    """A pod that is held by a finalizer of its own: it will not run, its claim goes."""
    template(cluster)
    pod(cluster, "train")
    (name,) = generated(cluster, "train")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    cluster.client.patch("v1", "pods", "train", held, "default")
    cluster.client.delete("v1", "pods", "train", "default")
    cluster.gone(DRA, "resourceclaims", name, "default")


def test_claim_for_extended_resources_is_released_with_its_pod(cluster: Plane) -> None:
    static_claim(cluster, "extended")
    limits = {"example.com/gpu": "1"}
    container = {"name": "c", "image": "probe", "resources": {"limits": limits}}
    consumer = pod(cluster, "train", nodeName="n1", resourceClaims=[], containers=[container])
    allocate(cluster, "extended", reservation(consumer))
    entry = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "extended",
            "requestMappings": [
                {"containerName": "c", "requestName": "gpu", "resourceName": "example.com/gpu"}
            ],
        }
    }
    cluster.client.patch("v1", "pods", "train", {"status": entry}, "default", "status")
    end(cluster, "train")
    cluster.until(lambda: not claim(cluster, "extended").get("status"), "an unused claim")


def test_deletion_needs_no_present_claim(cluster: Plane) -> None:
    """A claim that its pod names but that never existed does no harm to the controller."""
    pod(cluster, "train", named("absent"))
    cluster.client.delete("v1", "pods", "train", "default")
    quiet(cluster)
    with pytest.raises(ClientError):
        claim(cluster, "absent")
