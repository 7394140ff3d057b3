"""Which claims there are, which devices they hold, and which allocations are decided but not written yet.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from allocator import AllocatedDevices, AllocatedState, allocation_of
from allocator.ledger import same_devices
from clusters.embedded.scheduler.framework.events import Object

from .assume_cache import AssumeCache


class ClaimTracker:
    """The state of claims that all profiles of a scheduler share."""

    def __init__(self, consumable_capacity: bool) -> None:
        """`consumable_capacity` is the gate DRAConsumableCapacity."""
        self.cache = AssumeCache()
        self._devices = AllocatedDevices(consumable_capacity)
        self._in_flight: dict[str, Object] = {}
        self.cache.add_handler(self._devices.update)

    def get(self, namespace: str, name: str) -> Object | None:
        """The latest state of a claim."""
        return self.cache.get(namespace, name)

    def allocated_state(self, further: Iterable[Object] = ()) -> AllocatedState:
        """What is taken, with what is in flight, and by further claims."""
        return self._devices.state([*self._in_flight.values(), *further])

    def counts(self, claim: Mapping[str, Any]) -> bool:
        """Whether these devices of this claim are among those that `allocated_state` counts by itself."""
        metadata = claim["metadata"]
        flying = self._in_flight.get(metadata["uid"])
        if flying is not None and same_devices(flying, claim):
            return True
        latest = self.get(metadata["namespace"], metadata["name"])
        return (
            latest is not None
            and latest["metadata"]["uid"] == metadata["uid"]
            and same_devices(latest, claim)
        )

    def is_in_flight(self, uid: str) -> bool:
        """Whether the claim's allocation is being written."""
        return uid in self._in_flight

    def signal(self, claim: Object) -> None:
        """The allocation in this object is decided; its devices count as taken from now on."""
        metadata = claim["metadata"]
        latest = self.get(metadata["namespace"], metadata["name"])
        if latest is None:
            where = f"{metadata['namespace']}/{metadata['name']}"
            raise LookupError(f"look up assumed claim {where}, UID={metadata['uid']}: {not_found(where)}")
        if latest["metadata"]["uid"] == metadata["uid"] and allocation_of(latest) is not None:
            return
        self._in_flight[metadata["uid"]] = claim

    def end_flight(self, uid: str) -> bool:
        """The allocation is written or given up; whether it was in flight."""
        return self._in_flight.pop(uid, None) is not None


def results_of(allocation: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The devices of an allocation."""
    return list(((allocation or {}).get("devices") or {}).get("results") or ())


def not_found(name: str) -> str:
    """What the assume cache says about a claim that it does not have."""
    return f'could not find ResourceClaim "{name}"'
