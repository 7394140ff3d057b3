"""What a driver's ResourceSlices say, read as pools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.contract.claims import Device

Slice = Mapping[str, Any]


def by_pool(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    """Slices by the name of their pool."""
    pools: dict[str, list[Slice]] = {}
    for item in slices:
        pools.setdefault(item["spec"]["pool"]["name"], []).append(item)
    return pools


def complete(slices: Sequence[Slice]) -> bool:
    """Whether there is a pool, and every pool has all slices of its newest generation."""
    pools = by_pool(slices)
    return bool(pools) and all(map(_complete, pools.values()))


def _complete(members: Sequence[Slice]) -> bool:
    pools = [item["spec"]["pool"] for item in members]
    newest = max(pool["generation"] for pool in pools)
    current = [pool for pool in pools if pool["generation"] == newest]
    return all(pool["resourceSliceCount"] == len(current) for pool in current)


def devices(slices: Sequence[Slice]) -> list[Device]:
    """The devices in the order of pools and slices, which is the allocator's."""
    ordered = sorted(slices, key=lambda item: (item["spec"]["pool"]["name"], item["metadata"]["name"]))
    return [
        Device(item["spec"]["pool"]["name"], device["name"])
        for item in ordered
        for device in item["spec"].get("devices") or []
    ]


def content(slices: Sequence[Slice]) -> list[str]:
    """What the slices say, in a form to compare: without their names, generation, and the time of taints.

    The API server sets the time of a taint that has none, so that it changes when a slice is made anew.
    """
    return sorted(_content(item["spec"]) for item in slices)


def _content(spec: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in spec.items() if key not in ("pool", "devices")}
    listed = [_untimed(device) for device in spec.get("devices") or []]
    return json.dumps([spec["pool"]["name"], rest, listed], sort_keys=True)


def _untimed(device: Mapping[str, Any]) -> dict[str, Any]:
    taints = [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        for taint in device.get("taints") or []
    ]
    return {**device, "taints": taints}


def versions(slices: Sequence[Slice]) -> dict[str, str]:
    """Resource version by UID: equal as long as nothing was written."""
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in slices}


def generations(slices: Sequence[Slice]) -> dict[str, int]:
    """The newest generation of each pool."""
    return {
        name: max(item["spec"]["pool"]["generation"] for item in members)
        for name, members in by_pool(slices).items()
    }


def describe_slices(slices: Sequence[Slice]) -> str:
    """Slices in a few words."""
    if not slices:
        return "no slice"
    return "; ".join(map(_describe_slice, slices))


def _describe_slice(item: Slice) -> str:
    pool, listed = item["spec"]["pool"], item["spec"].get("devices") or []
    return (
        f"{item['metadata']['name']}: pool {pool['name']} generation {pool['generation']}, {len(listed)} devices, "
        f"count {pool['resourceSliceCount']}"
    )
