"""Pods, claims and templates for tests of the ResourceClaim controller."""

from __future__ import annotations

from typing import Any

from controller_harness import DRA, FINALIZER, Object, Plane

from clusters.embedded.controllers.resource_claim import ResourceClaimController

NAME = ResourceClaimController.name
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


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
