"""The same answers as upstream's allocator on random clusters.

`data/upstream.json` holds clusters (gates that are on, devices in use, classes, slices, claims) and for each of the
three nodes what `structured.NewAllocator(...).Allocate` of k8s.io/dynamic-resource-allocation v0.37.2 answers: the
results, or the error and whether it concerns the node only. Share ids are random and stand as `share`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from allocator import AllocatedState, AllocationError, Allocator, CelCache, NodeError, allocated
from dra_api.features import DEFAULTS_1_37

DATA = json.loads((Path(__file__).parent / "data" / "upstream.json").read_text())
RENAMED = {"consumed": "consumedCapacity"}


def state(case: dict[str, Any]) -> AllocatedState:
    names = {
        "driver": "driver",
        "pool": "pool",
        "device": "device",
        "shareID": "shareID",
        "consumed": "consumedCapacity",
    }
    results = [{names[key]: value for key, value in entry.items()} for entry in case["allocated"]]
    holder = {
        "metadata": {"name": "x"},
        "spec": {},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    return allocated([holder], "DRAConsumableCapacity" in case["gates"])


def answer(allocator: Allocator, node: dict[str, Any]) -> dict[str, Any]:
    try:
        results = allocator.allocate(node)
    except NodeError as error:
        return {"error": str(error), "node": True}
    except AllocationError as error:
        return {"error": str(error)}
    return {"results": results} if results else {}


@pytest.mark.parametrize("number", range(len(DATA["cases"])))
def test_upstream_answers_the_same(number: int) -> None:
    case = DATA["cases"][number]
    gates = {name: name in case["gates"] for name in DEFAULTS_1_37}
    gates["DRAResourceClaimDeviceStatus"] = True
    classes = {entry["metadata"]["name"]: entry for entry in case["classes"]}
    allocator = Allocator(
        gates,
        case["claims"],
        state(case),
        classes.get,
        case["slices"],
        CelCache(),
        new_share_id=lambda: "share",
    )
    assert [answer(allocator, node) for node in DATA["nodes"]] == case["expected"]
