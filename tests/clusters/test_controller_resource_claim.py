from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from controller_harness import DRA, FINALIZER, Object, Plane, plane

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.resource_claim import ResourceClaimController
from clusters.embedded.controllers.resource_claim.claim_sync import ClaimSync
from clusters.embedded.controllers.resource_claim.created import (
    OWNER_INDEX,
    CreatedClaims,
    SeenDeleted,
    owner_keys,
)
from clusters.embedded.controllers.resource_claim.references import generate_name
from clusters.tls import client_context

NAME = ResourceClaimController.name
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add(NAME, ResourceClaimController)
        yield made


def template(cluster: Plane, name: str = "single", **metadata: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": REQUESTS}}
    cluster.client.create(DRA, "resourceclaimtemplates", body, "default")


def pod(cluster: Plane, name: str, *claims: Object, **spec: Any) -> Object:
    claims = claims or ({"name": "gpu", "resourceClaimTemplateName": "single"},)
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "probe"}], "resourceClaims": list(claims), **spec},
    }
    return cluster.client.create("v1", "pods", body, "default")


def named(claim: str, name: str = "gpu") -> Object:
    return {"name": name, "resourceClaimName": claim}


def statuses(cluster: Plane, name: str) -> list[Object]:
    return cluster.client.get("v1", "pods", name, "default")["status"].get("resourceClaimStatuses") or []


def generated(cluster: Plane, name: str, count: int = 1) -> list[str]:
    found = cluster.until(lambda: len(statuses(cluster, name)) == count and statuses(cluster, name), "names")
    return [status["resourceClaimName"] for status in found]


def claim(cluster: Plane, name: str) -> Object:
    return cluster.client.get(DRA, "resourceclaims", name, "default")


def claims(cluster: Plane) -> list[Object]:
    return cluster.client.list(DRA, "resourceclaims", "default")


def reservation(pod_object: Object) -> Object:
    metadata = pod_object["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}


def allocate(cluster: Plane, name: str, *consumers: Object, finalizer: bool = True) -> Object:
    """What the scheduler writes: finalizer, then allocation and consumers."""
    if finalizer:
        cluster.changed(
            DRA,
            "resourceclaims",
            name,
            lambda obj: obj["metadata"].update(finalizers=[FINALIZER]),
            namespace="default",
        )
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}

    def change(obj: Object) -> None:
        obj["status"] = {
            "allocation": {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"},
            **({"reservedFor": list(consumers)} if consumers else {}),
        }

    return cluster.changed(DRA, "resourceclaims", name, change, namespace="default", subresource="status")


def static_claim(cluster: Plane, name: str = "shared") -> None:
    cluster.client.create(DRA, "resourceclaims", {"metadata": {"name": name}, "spec": REQUESTS}, "default")


def end(cluster: Plane, name: str, phase: str = "Succeeded") -> None:
    cluster.client.patch("v1", "pods", name, {"status": {"phase": phase}}, "default", "status")


def messages(cluster: Plane, name: str) -> list[str]:
    return [event["message"] for event in cluster.events(name)]


def quiet(cluster: Plane) -> None:
    """Wait until everything that was written before has been handled: the controller answers a fresh pod."""
    template(cluster, "quiet")
    pod(cluster, "quiet", {"name": "q", "resourceClaimTemplateName": "quiet"})
    generated(cluster, "quiet")
    cluster.client.delete("v1", "pods", "quiet", "default")


def test_claim_of_a_template_has_name_owner_labels_and_annotations(cluster: Plane) -> None:
    """S000-05."""
    template(cluster, labels={"a": "b"}, annotations={"c": "d"})
    owner = pod(cluster, "train")
    (name,) = generated(cluster, "train")
    made = claim(cluster, name)
    assert name.startswith("train-gpu-")
    assert len(name) == len("train-gpu-") + 5
    metadata = made["metadata"]
    assert metadata["generateName"] == "train-gpu-"
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "train",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert made["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.example.com"
    assert statuses(cluster, "train") == [{"name": "gpu", "resourceClaimName": name}]


def test_names_of_two_claims_are_applied_in_order_by_the_controllers_manager(cluster: Plane) -> None:
    template(cluster)
    both = [{"name": name, "resourceClaimTemplateName": "single"} for name in ("zz", "aa")]
    pod(cluster, "train", *both)
    generated(cluster, "train", 2)
    assert [status["name"] for status in statuses(cluster, "train")] == ["aa", "zz"]
    managers = cluster.client.get("v1", "pods", "train", "default")["metadata"]["managedFields"]
    (applied,) = [entry for entry in managers if entry["manager"] == "ResourceClaimController"]
    assert (applied["operation"], applied["subresource"]) == ("Apply", "status")


@pytest.mark.parametrize(
    ("pod_name", "claim_name", "expected"),
    [
        ("p", "c", "p-c-"),
        # 52 + 1 + 3 + 1 = 57 characters are not too many.
        ("p" * 52, "c" * 3, "p" * 52 + "-ccc-"),
        # 53 + 3 + 2 = 58: 53 * 57 / 58 = 52.08, 3 * 57 / 58 = 2.9.
        ("p" * 53, "c" * 3, "p" * 52 + "-cc"),
        # 63 + 63 + 2 = 128: 63 * 57 / 128 = 28.05 of both.
        ("p" * 63, "c" * 63, "p" * 28 + "-" + "c" * 28),
    ],
)
def test_long_names_are_cut_in_both_parts(pod_name: str, claim_name: str, expected: str) -> None:
    """CP-3."""
    assert generate_name(pod_name, claim_name) == expected


def test_pod_and_claim_with_longest_names_get_a_claim(cluster: Plane) -> None:
    """CP-3."""
    template(cluster)
    pod(cluster, "p" * 63, {"name": "c" * 63, "resourceClaimTemplateName": "single"})
    (name,) = generated(cluster, "p" * 63)
    assert name[:-5] == "p" * 28 + "-" + "c" * 28


def test_missing_template_is_told_and_its_creation_wakes_the_pod(cluster: Plane) -> None:
    """S000-06, field fault 42."""
    pod(cluster, "train")
    event = cluster.until(lambda: cluster.events("train"), "an event")[0]
    assert (event["type"], event["reason"]) == ("Warning", "FailedResourceClaimCreation")
    assert event["source"] == {"component": "resource_claim"}
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "single": '
        'resourceclaimtemplate.resource.k8s.io "single" not found'
    )
    # 12 failures: the next try is 5 ms * 2^11 = 10 s away.
    cluster.until(
        lambda: cluster.clock.advance(1) or cluster.events("train")[0]["count"] >= 12, "retries as one event"
    )
    template(cluster)
    start = time.monotonic()
    generated(cluster, "train")
    assert time.monotonic() - start < 8.0


def test_late_second_template_does_not_duplicate_the_first_claim(cluster: Plane) -> None:
    """Field fault 42."""
    template(cluster, "first")
    pod(
        cluster,
        "train",
        {"name": "a", "resourceClaimTemplateName": "first"},
        {"name": "b", "resourceClaimTemplateName": "second"},
    )
    cluster.until(lambda: any(event["count"] >= 5 for event in cluster.events("train")), "retries")
    template(cluster, "second")
    generated(cluster, "train", 2)
    assert len(claims(cluster)) == 2


def test_refused_creation_is_told_with_the_servers_text(cluster: Plane) -> None:
    requests = {
        "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}]}
    }
    # A template with admin access needs the label too: it is taken away after the creation.
    cluster.client.patch(
        "v1",
        "namespaces",
        "default",
        {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
    )
    cluster.client.create(
        DRA, "resourceclaimtemplates", {"metadata": {"name": "single"}, "spec": {"spec": requests}}, "default"
    )
    cluster.client.patch(
        "v1", "namespaces", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": None}}}
    )
    pod(cluster, "adm")
    message = cluster.until(
        lambda: [text for text in messages(cluster, "adm") if "create ResourceClaim" in text], "an event"
    )[0]
    assert message.startswith(
        'PodResourceClaim gpu: create ResourceClaim : ResourceClaim.resource.k8s.io "adm-gpu-'
    )
    assert "spec.devices.requests[0].adminAccess: Forbidden: " in message


@pytest.mark.parametrize(
    ("gate", "request_body", "text"),
    [
        (
            "DRAAdminAccess",
            {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}},
            "admin access is requested, but the feature is disabled",
        ),
        (
            "DRAPrioritizedList",
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "c"}]},
            "template includes a prioritized list of subrequests, but the feature is disabled",
        ),
    ],
)
def test_gate_that_is_off_refuses_a_template(
    tmp_path: Path, gate: str, request_body: Object, text: str
) -> None:
    with plane(tmp_path) as cluster:
        cluster.gates[gate] = False
        cluster.add(NAME, ResourceClaimController)
        labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        cluster.client.patch("v1", "namespaces", "default", labels)
        spec = {"spec": {"devices": {"requests": [request_body]}}}
        cluster.client.create(
            DRA, "resourceclaimtemplates", {"metadata": {"name": "single"}, "spec": spec}, "default"
        )
        pod(cluster, "train")
        # The watch of templates may be behind that of pods: the first event may tell that there is none.
        cluster.until(lambda: f"PodResourceClaim gpu: {text}" in messages(cluster, "train"), "an event")
        assert not claims(cluster)


def test_claim_that_no_status_names_is_found_again(cluster: Plane) -> None:
    """A crash between the creation of a claim and the write of its name leaves one claim, not two."""
    cluster.host.stop(NAME)
    template(cluster)
    owner = pod(cluster, "train")
    metadata = owner["metadata"]
    orphan = {
        "metadata": {
            "name": "train-gpu-x",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "train",
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": REQUESTS,
    }
    cluster.client.create(DRA, "resourceclaims", orphan, "default")
    cluster.host.start(NAME)
    assert generated(cluster, "train") == ["train-gpu-x"]
    assert len(claims(cluster)) == 1


def test_deleted_claim_is_made_again_at_the_next_change_of_the_pod(cluster: Plane) -> None:
    template(cluster)
    pod(cluster, "train")
    (first,) = generated(cluster, "train")
    quiet(cluster)
    cluster.client.delete(DRA, "resourceclaims", first, "default")
    cluster.client.patch("v1", "pods", "train", {"metadata": {"labels": {"x": "1"}}}, "default")
    cluster.client.patch("v1", "pods", "train", {"metadata": {"labels": {"x": "2"}}}, "default")
    second = cluster.until(lambda: [n for n in generated(cluster, "train") if n != first], "a new claim")[0]
    assert claim(cluster, second)["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"


def test_name_of_somebody_elses_claim_in_the_status_blocks_the_pod(cluster: Plane) -> None:
    template(cluster)
    static_claim(cluster, "foreign")
    pod(cluster, "train")
    (mine,) = generated(cluster, "train")
    entry = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "foreign"}]}}
    cluster.client.patch("v1", "pods", "train", entry, "default", "status")
    quiet(cluster)
    assert [c["metadata"]["name"] for c in claims(cluster) if not c["metadata"]["name"].startswith("q")] == [
        "foreign",
        mine,
    ]
    assert not [text for text in messages(cluster, "train") if "not found" not in text]
    # The foreign claim goes: the earlier one is found by its owner and annotation.
    cluster.client.delete(DRA, "resourceclaims", "foreign", "default")
    cluster.until(lambda: generated(cluster, "train") == [mine], "the own claim again")


def test_claim_that_is_not_needed_stays_unmade(cluster: Plane) -> None:
    """SN-6."""
    cluster.host.stop(NAME)
    template(cluster)
    pod(cluster, "train")
    entry = {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}
    cluster.client.patch("v1", "pods", "train", entry, "default", "status")
    cluster.host.start(NAME)
    quiet(cluster)
    assert statuses(cluster, "train") == [{"name": "gpu"}]
    assert [c for c in claims(cluster) if c["metadata"]["name"].startswith("train")] == []


def test_pod_with_a_missing_named_claim_waits_without_an_event(cluster: Plane) -> None:
    """S000-07."""
    pod(cluster, "train", named("absent"))
    quiet(cluster)
    assert not cluster.events("train")
    status = cluster.client.get("v1", "pods", "train", "default")["status"]
    assert (status["phase"], "conditions" in status) == ("Pending", False)


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


def test_controller_outlives_a_restart_of_the_server(cluster: Plane) -> None:
    template(cluster)
    pod(cluster, "before")
    (first,) = generated(cluster, "before")
    cluster.server.stop()
    cluster.server.start()
    cluster.client.close()
    pod(cluster, "after")
    generated(cluster, "after")
    cluster.client.delete("v1", "pods", "before", "default")
    end(cluster, "after")
    names = cluster.until(
        lambda: [c["metadata"]["name"] for c in claims(cluster)] == [first],
        "only the claim of the deleted pod",
    )
    assert names


def test_consumer_that_only_the_server_knows_keeps_its_reservation(cluster: Plane) -> None:
    """The cache of pods may be behind a scheduler that works for a new pod."""
    cluster.host.stop(NAME)
    static_claim(cluster)
    consumer = pod(cluster, "train", named("shared"))
    gone = {"resource": "pods", "name": "absent", "uid": "u"}
    replaced = {"resource": "pods", "name": "train", "uid": "u2"}
    allocate(cluster, "shared", reservation(consumer), gone, replaced)

    async def run() -> None:
        tls = client_context(cluster.server.ca_pem)
        async with ApiClient(cluster.server.url, tls, "admin", "test") as client:
            context = Context(client, cluster.clock, {}, logging.getLogger("test"))
            claims_cache = Informer(client, DRA, "resourceclaims")
            empty = Informer(client, "v1", "pods")
            task = asyncio.create_task(claims_cache.run())
            await claims_cache.wait_synced()
            await ClaimSync(context, empty, claims_cache, SeenDeleted()).sync("default", "shared")
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert claim(cluster, "shared")["status"]["reservedFor"] == [reservation(consumer)]
    assert "allocation" in claim(cluster, "shared")["status"]


def test_own_claim_is_known_before_the_cache_shows_it() -> None:
    cache = Informer(cast("ApiClient", None), DRA, "resourceclaims")
    cache.index(OWNER_INDEX, owner_keys)
    created = CreatedClaims(cache)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    mine = {"metadata": {"namespace": "ns", "name": "p-c-x", "ownerReferences": [owner]}}
    created.add(mine)
    assert created.owned_by("ns", "u") == [mine]
    assert created.owned_by("other", "u") == []
    # One look by name, as upstream's cache of own writes has it: then the claim may have been deleted meanwhile.
    assert created.get("ns", "p-c-x") is mine
    assert created.get("ns", "p-c-x") is None
    assert created.owned_by("ns", "u") == []


def test_uids_of_deleted_pods_are_remembered_up_to_a_limit() -> None:
    seen = SeenDeleted()
    for number in range(501):
        seen.add(str(number))
    assert "0" not in seen
    assert "1" in seen
    assert "500" in seen
