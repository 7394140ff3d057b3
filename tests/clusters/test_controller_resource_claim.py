from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from controller_harness import DRA, Object, Plane, plane
from resource_claim_harness import (
    NAME,
    REQUESTS,
    allocate,
    claim,
    claims,
    end,
    generated,
    messages,
    named,
    pod,
    quiet,
    reservation,
    static_claim,
    statuses,
    template,
)

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


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path) as made:
        made.add(NAME, ResourceClaimController)
        yield made


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
