"""Claim controller and garbage collector are killed again and again while pods, claims and templates come and go."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from controller_harness import DRA, FINALIZER, Object, Plane, plane

from clusters.client import ClientError
from clusters.embedded.controllers.garbage_collector import GarbageCollector
from clusters.embedded.controllers.resource_claim import ResourceClaimController

CONTROLLERS = (ResourceClaimController, GarbageCollector)
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
PODS, CLAIMS, TEMPLATES = [f"pod-{i}" for i in range(6)], ["a", "b"], ["t", "u"]
STEPS = 120


class Users:
    """What people and the scheduler do; any step may be impossible just now."""

    def __init__(self, cluster: Plane, dice: random.Random) -> None:
        self.client, self.cluster, self.dice = cluster.client, cluster, dice

    def create_template(self) -> None:
        body = {"metadata": {"name": self.dice.choice(TEMPLATES)}, "spec": {"spec": REQUESTS}}
        self.client.create(DRA, "resourceclaimtemplates", body, "default")

    def delete_template(self) -> None:
        self.client.delete(DRA, "resourceclaimtemplates", self.dice.choice(TEMPLATES), "default")

    def create_claim(self) -> None:
        body = {"metadata": {"name": self.dice.choice(CLAIMS)}, "spec": REQUESTS}
        self.client.create(DRA, "resourceclaims", body, "default")

    def delete_claim(self) -> None:
        found = self.client.list(DRA, "resourceclaims", "default")
        if found:
            self.client.delete(DRA, "resourceclaims", self.dice.choice(found)["metadata"]["name"], "default")

    def create_pod(self) -> None:
        uses: list[Object] = [{"name": "x", "resourceClaimTemplateName": self.dice.choice(TEMPLATES)}]
        if self.dice.random() < 0.5:
            uses.append({"name": "y", "resourceClaimName": self.dice.choice(CLAIMS)})
        body = {
            "metadata": {"name": self.dice.choice(PODS)},
            "spec": {"containers": [{"name": "c", "image": "probe"}], "resourceClaims": uses},
        }
        self.client.create("v1", "pods", body, "default")

    def delete_pod(self) -> None:
        grace = {"gracePeriodSeconds": 0} if self.dice.random() < 0.7 else None
        self.client.delete("v1", "pods", self.dice.choice(PODS), "default", grace)

    def finish_pod(self) -> None:
        status = {"status": {"phase": self.dice.choice(["Succeeded", "Failed"])}}
        self.client.patch("v1", "pods", self.dice.choice(PODS), status, "default", "status")

    def schedule(self) -> None:
        """Finalizer, allocation and reservation of all claims of a pod, then its binding."""
        pod = self.client.get("v1", "pods", self.dice.choice(PODS), "default")
        names = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in pod["status"].get("resourceClaimStatuses", [])
        }
        for use in pod["spec"]["resourceClaims"]:
            name = use.get("resourceClaimName") or names.get(use["name"])
            if name is None:
                return
            claim = self.client.get(DRA, "resourceclaims", name, "default")
            if "deletionTimestamp" in claim["metadata"]:
                return
            claim["metadata"]["finalizers"] = [FINALIZER]
            claim = self.client.update(DRA, "resourceclaims", claim)
            if self.dice.random() < 0.1:
                return
            status = claim.setdefault("status", {})
            result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
            status.setdefault(
                "allocation",
                {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"},
            )
            consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            if all(one["uid"] != consumer["uid"] for one in status.setdefault("reservedFor", [])):
                status["reservedFor"].append(consumer)
            self.client.update(DRA, "resourceclaims", claim, "status")
        if self.dice.random() < 0.9:
            target = {
                "metadata": {"name": pod["metadata"]["name"]},
                "target": {"kind": "Node", "name": "n1"},
            }
            self.client.create("v1", "pods", target, "default", pod["metadata"]["name"], "binding")


def owner_uid(claim: Object) -> str:
    owners = claim["metadata"].get("ownerReferences") or [{"uid": ""}]
    return str(owners[0]["uid"])


def problems(cluster: Plane) -> list[str]:
    """What must not be left when everybody is gone or done."""
    pods = {pod["metadata"]["uid"]: pod for pod in cluster.client.list("v1", "pods", "default")}
    found = []
    for claim in cluster.client.list(DRA, "resourceclaims", "default"):
        name = claim["metadata"]["name"]
        consumers = (claim.get("status") or {}).get("reservedFor") or []
        if consumers:
            found.append(f"{name} is reserved for {consumers}")
        if "deletionTimestamp" in claim["metadata"]:
            found.append(f"{name} is being deleted")
        if owner_uid(claim):
            found.append(f"{name} belongs to {'a finished' if owner_uid(claim) in pods else 'no'} pod")
    return found


@pytest.mark.parametrize("round_", range(2))
def test_killed_controller_leaves_nothing_behind(tmp_path: Path, round_: int, fresh_seed: int) -> None:
    dice = random.Random(fresh_seed + round_)
    with plane(tmp_path) as cluster:
        for controller in CONTROLLERS:
            cluster.add(controller.name, controller)
        users = Users(cluster, dice)
        steps = [
            *(users.create_pod,) * 5,
            *(users.schedule,) * 6,
            *(users.delete_pod,) * 2,
            *(users.finish_pod,) * 2,
            *(users.create_template,) * 2,
            users.delete_template,
            *(users.create_claim,) * 2,
            users.delete_claim,
        ]
        for _ in range(STEPS):
            if dice.random() < 0.2:
                cluster.host.kill(dice.choice(CONTROLLERS).name)
            if dice.random() < 0.3:
                cluster.host.start(dice.choice(CONTROLLERS).name)
            try:
                dice.choice(steps)()
            except ClientError as error:
                assert error.code in (403, 404, 409, 422), error
        # Everybody ends while the controllers are down: half of the pods are deleted, half only done.
        names = [controller.name for controller in CONTROLLERS]
        cluster.host.kill(*names)
        for number, pod in enumerate(cluster.client.list("v1", "pods", "default")):
            name = pod["metadata"]["name"]
            if number % 2:
                cluster.client.delete("v1", "pods", name, "default", {"gracePeriodSeconds": 0})
            elif "deletionTimestamp" not in pod["metadata"]:
                cluster.client.patch("v1", "pods", name, {"status": {"phase": "Failed"}}, "default", "status")
            else:
                cluster.client.delete("v1", "pods", name, "default", {"gracePeriodSeconds": 0})
        cluster.host.start(*names)
        cluster.until(lambda: not problems(cluster), "a clean end")
        left = cluster.client.list(DRA, "resourceclaims", "default")
        for claim in left:
            # What the scheduler began and never reserved stays as it is (components section 3.3 item 4).
            if "allocation" not in (claim.get("status") or {}) and "finalizers" in claim["metadata"]:
                cluster.client.delete(DRA, "resourceclaims", claim["metadata"]["name"], "default")
                cluster.gone(DRA, "resourceclaims", claim["metadata"]["name"], "default")
