"""Which devices, shares and capacities are taken by allocated claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dra_api.quantity import Quantity

from .model import DeviceID


class SharedDeviceID(NamedTuple):
    """One share of a device that several claims use."""

    device: DeviceID
    share: str


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """What is in use in the cluster. Devices with admin access never count."""

    devices: frozenset[DeviceID] = frozenset()
    """Devices that belong to one claim alone."""
    shares: frozenset[SharedDeviceID] = frozenset()
    """Shares of devices that several claims use."""
    capacity: Mapping[DeviceID, Mapping[str, Quantity]] = field(default_factory=dict)
    """Device -> capacity name -> what all its shares consume together."""
    shared_devices: frozenset[DeviceID] = field(init=False)
    """Devices with at least one share or consumed capacity."""

    def __post_init__(self) -> None:
        shared = frozenset(share.device for share in self.shares) | self.capacity.keys()
        object.__setattr__(self, "shared_devices", shared)


class AllocatedDevices:
    """The allocated state, kept up to date claim by claim: an informer's handler.

    Not safe for use by several threads. Like upstream it keeps sets: when two claims hold the same device (which only
    a broken allocator brings about), the end of one of them frees it.
    """

    def __init__(self, consumable_capacity: bool = True) -> None:
        """`consumable_capacity` is the gate DRAConsumableCapacity; when off, shares count as whole devices."""
        self._consumable_capacity = consumable_capacity
        self._devices: set[DeviceID] = set()
        self._shares: set[SharedDeviceID] = set()
        self._capacity: dict[DeviceID, dict[str, Quantity]] = {}

    def update(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        """Take note of a claim that was added (no `old`), changed or deleted (no `new`).

        An allocation cannot change. When it seems to, as after a gap in a watch, it was taken back in between.
        """
        before = [] if old is None else list(_results(old))
        after = [] if new is None else list(_results(new))
        if before == after:
            return
        for result in before:
            self._remove(result)
        for result in after:
            self._add(result)

    def state(self, in_flight: Iterable[Mapping[str, Any]] = ()) -> AllocatedState:
        """A snapshot that also counts claims whose allocation is decided but not written yet."""
        extra = [result for claim in in_flight for result in _results(claim)]
        if not extra:
            return self._snapshot()
        union = AllocatedDevices(self._consumable_capacity)
        union._devices, union._shares = set(self._devices), set(self._shares)
        union._capacity = {device: dict(amounts) for device, amounts in self._capacity.items()}
        for result in extra:
            union._add(result)
        return union._snapshot()

    def _snapshot(self) -> AllocatedState:
        capacity = {device: dict(amounts) for device, amounts in self._capacity.items()}
        return AllocatedState(frozenset(self._devices), frozenset(self._shares), capacity)

    def _add(self, result: Mapping[str, Any]) -> None:
        device = _device(result)
        if not self._is_share(result):
            self._devices.add(device)
            return
        self._shares.add(SharedDeviceID(device, result["shareID"]))
        if result.get("consumedCapacity") is not None:
            add_amounts(self._capacity, device, _amounts(result))

    def _remove(self, result: Mapping[str, Any]) -> None:
        device = _device(result)
        if not self._is_share(result):
            self._devices.discard(device)
            return
        self._shares.discard(SharedDeviceID(device, result["shareID"]))
        if result.get("consumedCapacity") is not None:
            remove_amounts(self._capacity, device, _amounts(result))

    def _is_share(self, result: Mapping[str, Any]) -> bool:
        return self._consumable_capacity and result.get("shareID") is not None


def allocated(claims: Iterable[Mapping[str, Any]], consumable_capacity: bool = True) -> AllocatedState:
    """What the allocations of these claims take."""
    devices = AllocatedDevices(consumable_capacity)
    for claim in claims:
        devices.update(None, claim)
    return devices.state()


def add_amounts(
    total: dict[DeviceID, dict[str, Quantity]], device: DeviceID, amounts: Mapping[str, Quantity]
) -> None:
    """Add what a share consumes; the device has an entry afterwards, even for no amounts."""
    sums = total.setdefault(device, {})
    for name, amount in amounts.items():
        sums[name] = sums[name] + amount if name in sums else amount


def remove_amounts(
    total: dict[DeviceID, dict[str, Quantity]], device: DeviceID, amounts: Mapping[str, Quantity]
) -> None:
    """Subtract what a share consumed; the device loses its entry when nothing is left."""
    sums = total.get(device)
    if sums is None:
        return
    for name, amount in amounts.items():
        if name in sums:
            sums[name] = sums[name] - amount
    if all(amount.is_zero() for amount in sums.values()):
        del total[device]


def allocation_of(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The AllocationResult of a claim; None while it has none."""
    allocation: Mapping[str, Any] | None = (claim.get("status") or {}).get("allocation")
    return allocation


def _results(claim: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    devices = (allocation_of(claim) or {}).get("devices") or {}
    for result in devices.get("results") or ():
        if not result.get("adminAccess"):
            yield result


def _device(result: Mapping[str, Any]) -> DeviceID:
    return DeviceID(result["driver"], result["pool"], result["device"])


def _amounts(result: Mapping[str, Any]) -> dict[str, Quantity]:
    return {name: Quantity.parse(str(amount)) for name, amount in result["consumedCapacity"].items()}
