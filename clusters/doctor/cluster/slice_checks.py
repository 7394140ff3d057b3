"""Checks of what drivers publish."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Final

from clusters.doctor.cluster.model import ClusterCheck, Problem, doubt, fault
from clusters.doctor.cluster.pools import pools
from clusters.doctor.cluster.snapshot import Snapshot
from clusters.doctor.model import Wanted


def judge_stale(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """What drivers that are gone have left."""
    nodes = {
        str(node["metadata"]["name"]): str(node["metadata"].get("uid")) for node in snapshot.list("nodes")
    }
    for item in snapshot.list("resourceslices"):
        name, spec = item["metadata"]["name"], item["spec"]
        where, node = f"slice {name}", str(spec.get("nodeName") or "")
        remedy = f"kubectl delete resourceslice {name}, when its driver is gone"
        if node and node not in nodes:
            yield doubt(where, f"it is of node {node}, which there is not (driver {spec['driver']})", remedy)
            continue
        owners = item["metadata"].get("ownerReferences") or []
        other = [
            owner for owner in owners if owner.get("kind") == "Node" and owner.get("uid") != nodes.get(node)
        ]
        if node and other:
            yield doubt(where, f"it belongs to an earlier node {node} (driver {spec['driver']})", remedy)
    for pool in pools(snapshot):
        for item in pool.older:
            yield doubt(
                f"slice {item['metadata']['name']}",
                f"{pool.label} is at generation {pool.generation}, and this is of {item['spec']['pool']['generation']}",
                "its driver should remove it; look at the driver's log",
            )


def judge_complete(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """The scheduler takes nothing from a pool that is not complete, or not valid."""
    for pool in pools(snapshot):
        there, remedy = len(pool.current), "look at the driver's log for slices that the API server refused"
        counts = {int(item["spec"]["pool"].get("resourceSliceCount", 0)) for item in pool.current}
        if len(counts) > 1:
            numbers = ", ".join(map(str, sorted(counts)))
            yield fault(pool.label, f"its slices say different numbers of slices: {numbers}", remedy)
        elif there != pool.wanted:
            yield fault(
                pool.label, f"{there} of {pool.wanted} slices are there: none of its devices is used", remedy
            )
        twice = sorted(name for name, count in collections.Counter(pool.devices).items() if count > 1)
        if twice:
            yield fault(
                pool.label,
                f"{', '.join(twice)} is in it twice: none of its devices is used",
                "a mistake of the driver",
            )


def judge_empty(snapshot: Snapshot, wanted: Wanted) -> Iterator[Problem]:
    """A driver that finds no hardware says so nowhere else."""
    for pool in pools(snapshot):
        counters = any(item["spec"].get("sharedCounters") for item in pool.current)
        if not pool.devices and not counters:
            yield doubt(
                pool.label,
                "it has no devices",
                "look at the driver's log, and whether the node has the hardware",
            )


CHECKS: Final = (
    ClusterCheck(
        "stale-slices",
        "Slices are of nodes that there are, and none is old.",
        judge_stale,
        ("nodes", "resourceslices"),
    ),
    ClusterCheck(
        "pools-complete", "Pools are complete, with each device once.", judge_complete, ("resourceslices",)
    ),
    ClusterCheck("pools-empty", "Pools have devices.", judge_empty, ("resourceslices",)),
)
