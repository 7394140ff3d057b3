"""Checks of claims and of the Pods that use them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.doctor.cluster.model import ClusterCheck, Problem, doubt, fault
from clusters.doctor.cluster.pools import pools
from clusters.doctor.cluster.snapshot import Object, Snapshot
from clusters.doctor.model import Wanted

_MOMENT: Final = 60.0
"""What components take in good order, in seconds."""
_LONG: Final = 300.0
_ENDED: Final = ("Succeeded", "Failed")
_KINDS: Final[Mapping[str, str]] = {
    "resourceclaims": "claim",
    "resourceclaimtemplates": "claim template",
    "resourceslices": "slice",
    "deviceclasses": "class",
    "pods": "Pod",
}


def _name(obj: Object) -> str:
    meta = obj["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _age(snapshot: Snapshot, timestamp: Any) -> float:
    if not timestamp:
        return 0.0
    return snapshot.now - datetime.datetime.fromisoformat(str(timestamp)).timestamp()


def _results(claim: Object) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or [])


def judge_devices(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A driver must go on publishing what is in use."""
    there = {(pool.driver, pool.name): set(pool.devices) for pool in pools(snapshot)}
    for claim in snapshot.list("resourceclaims"):
        for result in _results(claim):
            driver, pool, device = (str(result.get(key, "")) for key in ("driver", "pool", "device"))
            if device not in there.get((driver, pool), set()):
                what = "its pool is" if (driver, pool) not in there else "it is"
                yield fault(
                    f"claim {_name(claim)}",
                    f"it has {device} in pool {pool} of {driver}, and {what} published no more",
                    f"see whether {driver} runs; without the device, delete the Pods that use the claim",
                )


def judge_reserved(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """The claim controller takes out who is gone, and with the last one the devices are free."""
    pods = {str(pod["metadata"].get("uid")): pod for pod in snapshot.list("pods")}
    for claim in snapshot.list("resourceclaims"):
        for consumer in (claim.get("status") or {}).get("reservedFor") or []:
            if consumer.get("resource") != "pods":
                continue
            pod = pods.get(str(consumer.get("uid")))
            if pod is None or (pod.get("status") or {}).get("phase") in _ENDED:
                how = "there is no such Pod" if pod is None else "it has ended"
                yield doubt(
                    f"claim {_name(claim)}",
                    f"it is reserved for Pod {consumer.get('name')}, and {how}",
                    "if it stays so: does the resourceclaim controller of the controller manager run?",
                )


def judge_pending(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A Pod that waits for its devices for minutes."""
    for pod in snapshot.list("pods"):
        status, meta = pod.get("status") or {}, pod["metadata"]
        waits = status.get("phase") == "Pending" and not meta.get("deletionTimestamp")
        if not waits or not pod["spec"].get("resourceClaims"):
            continue
        age = _age(snapshot, meta.get("creationTimestamp"))
        if age < _LONG:
            continue
        made = {str(entry["name"]) for entry in status.get("resourceClaimStatuses") or []}
        lacking = [
            str(entry["name"])
            for entry in pod["spec"]["resourceClaims"]
            if entry.get("resourceClaimTemplateName") and entry["name"] not in made
        ]
        scheduled: Object = next(
            (item for item in status.get("conditions") or [] if item["type"] == "PodScheduled"), {}
        )
        where = f"Pod {_name(pod)}"
        minutes = f"it has been Pending for {age / 60:.0f} minutes"
        if lacking:
            yield fault(
                where,
                f"{minutes}, and there is no claim for {', '.join(lacking)}",
                "is there such a claim template in its namespace, and does the controller manager run?",
            )
        elif pod["spec"].get("nodeName"):
            yield doubt(
                where,
                f"{minutes} on node {pod['spec']['nodeName']}",
                f"kubectl describe pod {meta['name']} -n {meta['namespace']} says what the driver answers",
            )
        else:
            reason = str(scheduled.get("message") or "the scheduler says nothing")
            yield doubt(
                where, f"{minutes}: {reason}", "see which devices are free, and what the claim asks for"
            )


def judge_deletion(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """What is deleted and does not go: finalizers that nobody takes away, or a node that does not let go."""
    for resource, kind in _KINDS.items():
        for obj in snapshot.list(resource):
            meta = obj["metadata"]
            deleted = meta.get("deletionTimestamp")
            late = _age(snapshot, deleted)
            if not deleted or late < _MOMENT:
                continue
            if resource == "pods" and not (obj["spec"].get("resourceClaims") or meta.get("finalizers")):
                continue
            where = f"{kind} {_name(obj)}"
            since = f"it should be gone for {late / 60:.0f} minutes"
            finalizers = ", ".join(meta.get("finalizers") or [])
            users = [str(entry.get("name")) for entry in (obj.get("status") or {}).get("reservedFor") or []]
            if users:
                yield fault(
                    where, f"{since}; it is reserved for {', '.join(users)} ({finalizers})", "end those Pods"
                )
            elif finalizers:
                yield fault(where, f"{since}; finalizers hold it: {finalizers}", "does who set them run?")
            else:
                node = obj.get("spec", {}).get("nodeName")
                yield fault(
                    where,
                    f"{since}; the kubelet of node {node} does not let it go",
                    "does its driver run and unprepare the claim? See the kubelet's log",
                )


CHECKS: Final = (
    ClusterCheck(
        "claim-devices",
        "Devices of claims are published.",
        judge_devices,
        ("resourceclaims", "resourceslices"),
    ),
    ClusterCheck(
        "claim-reserved",
        "Claims are reserved for Pods that there are.",
        judge_reserved,
        ("resourceclaims", "pods"),
    ),
    ClusterCheck("pod-pending", "No Pod waits for its devices for minutes.", judge_pending, ("pods",)),
    ClusterCheck(
        "deletion-blocked",
        "What is deleted goes.",
        judge_deletion,
        ("pods", "resourceclaims", "resourceslices"),
    ),
)
