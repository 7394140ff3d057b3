"""What an allocation takes, in names that a ledger compares. It knows nothing of devices beyond this.

What depends on what others have depends on it through these names alone:

- A device that one claim has alone is taken.
- A share is joined to its device, since what is left of the device's capacity depends on all its shares.
- A device that consumes counters is joined to its pool, since what is left of them depends on the other devices there.

Names hold no spaces, so the words of a name cannot run into each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from allocator.model import DeviceID
from allocator.state import allocation_of

from .records import ClaimKey, Fact, Holding

_COUNTING: Final = ("driver", "pool", "device", "shareID", "consumedCapacity")


def holding_of(
    allocation: Mapping[str, Any], consumes: Callable[[DeviceID], bool], *, shares: bool = True
) -> Holding:
    """What an AllocationResult takes. Admin access takes nothing.

    `consumes`: whether a device consumes counters. `shares` is the gate DRAConsumableCapacity; when off, shares count
    as whole devices.
    """
    takes: dict[str, None] = {}
    joins: dict[str, None] = {}
    counting = []
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("adminAccess"):
            continue
        device = DeviceID(result["driver"], result["pool"], result["device"])
        share = result.get("shareID")
        if shares and share is not None:
            takes[f"share {' '.join(device)} {share}"] = None
            joins[f"device {' '.join(device)}"] = None
        else:
            takes[f"device {' '.join(device)}"] = None
        if consumes(device):
            joins[f"pool {device.driver} {device.pool}"] = None
        counting.append({name: result[name] for name in _COUNTING if result.get(name) is not None})
    return Holding(tuple(takes), tuple(joins), json.dumps(counting, separators=(",", ":"), sort_keys=True))


def key_of(claim: Mapping[str, Any]) -> ClaimKey:
    """Which claim an object is."""
    metadata = claim["metadata"]
    return ClaimKey(metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def version_of(claim: Mapping[str, Any]) -> int:
    """The resourceVersion of an object."""
    return int(claim["metadata"].get("resourceVersion") or 0)


def same_devices(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two states of a claim are allocated, and have the same devices and shares."""
    mine, theirs = allocation_of(one), allocation_of(other)
    return mine is not None and theirs is not None and _identities(mine) == _identities(theirs)


def _identities(allocation: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    # Of quantities an API server may write the same amount in another way.
    return [
        (result["driver"], result["pool"], result["device"], result.get("shareID"))
        for result in (allocation.get("devices") or {}).get("results") or ()
        if not result.get("adminAccess")
    ]


def fact_of(claim: Mapping[str, Any], *, shares: bool = True, token: int = 0) -> Fact:
    """What the API says by this object. Whoever joins a pool of its devices has to know of it."""
    allocation = allocation_of(claim)
    holding = None if allocation is None else holding_of(allocation, lambda device: True, shares=shares)
    return Fact(key_of(claim), version_of(claim), holding, token=token)
