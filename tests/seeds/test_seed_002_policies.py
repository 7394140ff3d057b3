"""Seed 002, admin access: the admission policies that restrict it, as written and corrected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from seeds_api import Object, only, refusal, request, send

from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec

BUILT_IN = "resource.kubernetes.io/admin-access"
OF_SEED = "admin-access.dra.example.com"
KINDS = {"claims": "ResourceClaim", "templates": "ResourceClaimTemplate"}


def serve(*versions: str) -> Iterator[Client]:
    wanted = tuple((f"resource.k8s.io/{version}", True) for version in versions)
    with EmbeddedCluster(ClusterSpec(control_plane=False, runtime_config=wanted)) as cluster:
        client = cluster.client()
        labels = {"none": (), "built-in": (BUILT_IN,), "seed": (OF_SEED,), "both": (BUILT_IN, OF_SEED)}
        for name, keys in labels.items():
            metadata = {"name": name, "labels": dict.fromkeys(keys, "true")}
            send(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        yield client


@pytest.fixture
def default() -> Iterator[Client]:
    yield from serve()


@pytest.fixture
def lab() -> Iterator[Client]:
    yield from serve("v1beta1")


def restrict(client: Client, what: str, *, corrected: bool) -> None:
    """The policy and its binding."""
    suffix = "" if corrected else ".as-written"
    send(client, only(f"admin-access-vap-{what}{suffix}"))
    send(client, only(f"admin-access-vap-binding-{what}"))


def admin(kind: str, version: str = "v1") -> Object:
    """A claim or template with admin access."""
    asked = {"deviceClassName": "resource.example.com", "adminAccess": True}
    entry: dict[str, Any] = {"name": "req-0", **({"exactly": asked} if version == "v1" else asked)}
    spec: dict[str, Any] = {"devices": {"requests": [entry]}}
    spec = spec if kind == "ResourceClaim" else {"spec": spec}
    metadata = {"generateName": "cat-"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def denied(what: str) -> str:
    name = KINDS[what].lower()
    return (
        f"ValidatingAdmissionPolicy '{name}-policy.dra.example.com' with binding '{name}-binding.dra.example.com' "
        "denied request: admin access to devices not enabled"
    )


def refused(client: Client, body: Object, namespace: str) -> tuple[int, str]:
    return refusal(lambda: send(client, body, namespace=namespace))


@pytest.mark.seed("M15", "M16", "M17", "M18", "S002-32")
@pytest.mark.parametrize("what", KINDS)
def test_the_policies_as_written_are_accepted_and_do_nothing(default: Client, what: str) -> None:
    """Differs: they are about versions that are not served."""
    restrict(default, what, corrected=False)
    assert send(default, admin(KINDS[what]), namespace="built-in")["metadata"]["name"].startswith("cat-")


@pytest.mark.seed("M15", "M16", "M17", "M18", "S002-32")
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("what", KINDS)
def test_the_policies_as_written_work_where_v1beta1_is_served(lab: Client, what: str, version: str) -> None:
    restrict(lab, what, corrected=False)
    code, text = refused(lab, admin(KINDS[what], version), "built-in")
    assert code == 403 and text.endswith(denied(what))


@pytest.mark.seed("M15", "M16", "M17", "M18", "S002-30", "S002-31")
@pytest.mark.parametrize("what", KINDS)
def test_the_corrected_policies_and_the_built_in_label_must_both_agree(default: Client, what: str) -> None:
    """Differs: the label of the policy alone is not enough."""
    kind = KINDS[what]
    restrict(default, what, corrected=True)
    for namespace in ("none", "seed"):
        code, text = refused(default, admin(kind), namespace)
        assert code == 422 and f"`{BUILT_IN}: true` label on the containing namespace" in text
    code, text = refused(default, admin(kind), "built-in")
    assert code == 403 and text.endswith(denied(what))
    send(default, admin(kind), namespace="both")


@pytest.mark.seed("S002-33")
def test_the_policy_is_asked_about_updates_the_built_in_label_only_about_creations(default: Client) -> None:
    """Differs: the spec cannot change, but any other update of the claim counts."""
    claim = send(default, admin("ResourceClaim"), namespace="both")["metadata"]["name"]
    path = f"/apis/resource.k8s.io/v1/namespaces/both/resourceclaims/{claim}"
    merge = "application/merge-patch+json"
    unlabelled = {"metadata": {"labels": {BUILT_IN: None, OF_SEED: None}}}
    request(default, "PATCH", "/api/v1/namespaces/both", unlabelled, None, merge)
    request(default, "PATCH", path, {"metadata": {"labels": {"a": "1"}}}, None, merge)
    restrict(default, "claims", corrected=True)
    change = {"metadata": {"labels": {"a": "2"}}}
    code, text = refusal(lambda: request(default, "PATCH", path, change, None, merge))
    assert code == 403 and text.endswith(denied("claims"))
