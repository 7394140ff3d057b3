"""What a driver's ResourceSlices say, read as pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.contract.claims import Device


def complete(slices: Sequence[dict[str, Any]]) -> bool:
    """Whether there is a pool, and every pool has all slices of its newest generation."""
    pools: dict[str, list[dict[str, Any]]] = {}
    for item in slices:
        pools.setdefault(item["spec"]["pool"]["name"], []).append(item["spec"]["pool"])
    return bool(pools) and all(
        sum(pool["generation"] == max(other["generation"] for other in members) for pool in members)
        == members[-1]["resourceSliceCount"]
        for members in pools.values()
    )


def devices(slices: Sequence[dict[str, Any]]) -> list[Device]:
    """The devices in the order of pools and slices, which is the allocator's."""
    ordered = sorted(slices, key=lambda item: (item["spec"]["pool"]["name"], item["metadata"]["name"]))
    return [
        Device(item["spec"]["pool"]["name"], device["name"])
        for item in ordered
        for device in item["spec"].get("devices") or []
    ]


def describe_slices(slices: Sequence[dict[str, Any]]) -> str:
    """Slices in a few words."""
    if not slices:
        return "no slice"
    return "; ".join(map(_describe_slice, slices))


def _describe_slice(item: dict[str, Any]) -> str:
    pool, devices = item["spec"]["pool"], item["spec"].get("devices") or []
    return (
        f"{item['metadata']['name']}: pool {pool['name']} generation {pool['generation']}, {len(devices)} devices, "
        f"count {pool['resourceSliceCount']}"
    )
