"""Random allocation cases: lines of `drakit allocate --jsonl` that combine the features of DRA.

A case first draws which features it plays with, so that every pair of them meets soon; `features_of` tells afterwards
what a case really has. Clusters are small: the search of upstream is exponential.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from case_claims import Claims
from case_clusters import Cluster
from case_parts import CLASSES, Dice

GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRADeviceTaints",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
)
PLAYED = (
    "admin",
    "all",
    "alternatives",
    "binding",
    "binds",
    "capacity",
    "class",
    "configs",
    "counters",
    "derived",
    "distinct",
    "errors",
    "generations",
    "groups",
    "hosts",
    "in-use",
    "limit",
    "lists",
    "match",
    "nodes",
    "odd",
    "per-device",
    "selectors",
    "shared",
    "skip",
    "taints",
)


def cases(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """The cases of a seed."""
    for number in range(count):
        yield case(seed, number)


def case(seed: int, number: int) -> dict[str, Any]:
    """One case of a seed."""
    dice = Dice(f"allocation {seed} {number}")
    playing = _playing(dice)
    node: dict[str, Any] = {
        "metadata": {"name": "n0", "labels": {"zone": "east", "rack": "7"}},
        "status": {"declaredFeatures": ["DRAOptionalNodeOperations"] if dice.chance(60) else ["Other"]},
    }
    cluster, claims = Cluster(dice, playing), Claims(dice, playing)
    slices = list(chain.from_iterable(cluster.pools()))
    dice.random.shuffle(slices)
    return {
        "node": node,
        "claims": [claims.claim(index) for index in range(dice.weighted({1: 6, 2: 3, 3: 1}))],
        "deviceClasses": [cluster.device_class(name) for name in CLASSES],
        "resourceSlices": slices,
        "allocated": cluster.in_use(),
        "featureGates": _gates(dice),
    }


def _playing(dice: Dice) -> set[str]:
    """The features that a case plays with."""
    playing = set(dice.random.sample(PLAYED, dice.number(2, 7)))
    if "errors" in playing and dice.chance(55):
        playing.discard("errors")
    if "odd" in playing and dice.chance(40):
        playing.discard("odd")
    if "limit" in playing and dice.chance(60):
        playing.discard("limit")
    if "limit" in playing:
        # Alternatives are what makes the limit a matter of the search, shares what lets it get that far.
        playing |= set(dice.some(("alternatives", "all", "shared"), 3))
        playing -= {"match", "distinct"} if dice.chance(80) else set()
    if "groups" in playing or "hosts" in playing:
        playing.add("counters")
    return playing


def _gates(dice: Dice) -> dict[str, bool]:
    style = dice.weighted({"all": 10, "toggled": 3, "default": 3, "random": 2})
    if style == "default":
        return {}
    if style == "random":
        return {name: dice.chance(50) for name in GATES}
    gates = dict.fromkeys(GATES, True)
    if style == "toggled":
        for name in dice.random.sample(GATES, dice.number(1, 2)):
            gates[name] = False
    return gates


_SIGNS: Mapping[str, str] = {
    "admin access": '"adminAccess": true',
    "all devices": '"allocationMode": "All"',
    "alternatives": '"firstAvailable"',
    "binding conditions": '"bindingConditions"',
    "binds to node": '"bindsToNode"',
    "capacity of requests": '"capacity": {"requests"',
    "compatibility groups": '"compatibilityGroups"',
    "configs": '"opaque"',
    "derived attributes": '"derivedAttributes"',
    "devices in use": '"allocated": {"devices"',
    "distinct": '"distinctAttribute"',
    "list attributes": '"strings"',
    "match": '"matchAttribute"',
    "node selectors": '"nodeSelector"',
    "per-device nodes": '"perDeviceNodeSelection"',
    "request policies": '"requestPolicy"',
    "several claims": '"name": "c1"',
    "shared counters": '"consumesCounters"',
    "shared devices": '"allowMultipleAllocations": true',
    "skipped operations": '"skipNodeOperations"',
    "taints": '"taints"',
    "tolerations": '"tolerations"',
}


def features_of(line: Mapping[str, Any]) -> set[str]:
    """The features that a case has."""
    text = json.dumps(line)
    return {name for name, sign in _SIGNS.items() if sign in text}


FEATURES = frozenset(_SIGNS)
