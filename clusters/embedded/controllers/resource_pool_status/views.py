"""Summaries of a pool with partitions or with devices that can be shared.

Source: kubernetes v1.37.2 `pkg/controller/resourcepoolstatusrequest/views.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from dra_api.quantity import Quantity

Object = dict[str, Any]
Counters = dict[tuple[str, str], Quantity]
"""Counter set and counter to a value."""

_MOST: Final = 32
"""What the lists of a status may hold; beyond that the pool gets an error instead of a list that was cut."""


@dataclass(frozen=True)
class Device:
    """A device as far as the summaries look at it.

    `grouping` names the attribute that its slice declares as partition type, else it is empty.
    """

    name: str
    grouping: str
    cost: tuple[tuple[str, str, Quantity], ...]
    """Counter set, counter and amount."""
    shareable: bool
    capacity: Mapping[str, Any]
    attributes: Mapping[str, Any]

    @classmethod
    def of(cls, device: Mapping[str, Any], grouping: str) -> Self:
        """From a device of a slice."""
        cost = [
            (consumption["counterSet"], name, Quantity.parse(counter["value"]))
            for consumption in device.get("consumesCounters") or []
            for name, counter in (consumption.get("counters") or {}).items()
        ]
        return cls(
            device["name"],
            grouping,
            tuple(cost),
            bool(device.get("allowMultipleAllocations")),
            device.get("capacity") or {},
            device.get("attributes") or {},
        )


@dataclass(frozen=True)
class PoolDevices:
    """A complete pool and what claims use of it (admin access aside)."""

    driver: str
    name: str
    devices: Sequence[Device]
    counters: Sequence[Mapping[str, Any]]
    used: Set[str]
    consumed: Mapping[str, Quantity]


@dataclass
class _Group:
    """The devices of one partition type."""

    cost: str
    total: int = 0
    unused: list[Device] = field(default_factory=list)


class _PoolError(Exception):
    """What makes a summary impossible."""


def summaries(pool: PoolDevices, attribute: str | None) -> tuple[list[Object], Object | None, str]:
    """partitionSummary, shareableSummary and the first problem, or nothing, of each.

    `attribute` is the request's partition type for a pool of which no slice declares one.
    """
    problem = ""
    partitions: list[Object] = []
    shareable: Object | None = None
    if attribute and not any(device.grouping for device in pool.devices):
        pool = replace(pool, devices=[replace(device, grouping=attribute) for device in pool.devices])
    try:
        partitions = _partitions(pool)
    except _PoolError as error:
        problem = str(error)
    try:
        shareable = _shareable(pool)
    except _PoolError as error:
        problem = problem or str(error)
    return [] if problem else partitions, shareable, problem


def _partitions(pool: PoolDevices) -> list[Object]:
    where = f"pool {pool.driver}/{pool.name}"
    if not any(device.grouping for device in pool.devices):
        return []
    if not pool.counters:
        raise _PoolError(
            f"PartitionTypeMissing: {where} declares partitionTypeAttribute but publishes no sharedCounters"
        )
    left = _counters(pool)
    result: list[Object] = [
        {
            "attribute": attribute,
            "type": kind,
            "total": group.total,
            "allocatable": _fitting(group.unused, left),
        }
        for (attribute, kind), group in sorted(_groups(pool, where).items())
    ]
    if len(result) > _MOST:
        raise _PoolError(
            f"PartitionSummaryOverCap: {where} has {len(result)} partition types, exceeding the maximum of {_MOST}"
        )
    return result


def _groups(pool: PoolDevices, where: str) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for device in pool.devices:
        if not device.cost or not device.grouping:
            continue
        kind = _partition_type(pool.driver, device)
        if kind is None:
            raise _PoolError(
                f'PartitionTypeMissing: device "{device.name}" in {where} does not carry '
                f'partition type attribute "{device.grouping}"'
            )
        cost = ",".join(sorted(f"{counters}/{name}={amount}" for counters, name, amount in device.cost))
        group = groups.setdefault((device.grouping, kind), _Group(cost))
        if group.cost != cost:
            raise _PoolError(
                f'PartitionCostMismatch: devices of partition type "{kind}" in {where} consume different counters'
            )
        group.total += 1
        if device.name not in pool.used:
            group.unused.append(device)
    return groups


def _partition_type(driver: str, device: Device) -> str | None:
    """The text of the grouping attribute, whose domain may be left out when it is the driver's name."""
    attribute = device.attributes.get(device.grouping)
    if attribute is None and device.grouping.startswith(f"{driver}/"):
        attribute = device.attributes.get(device.grouping.removeprefix(f"{driver}/"))
    text = (attribute or {}).get("string")
    return None if text is None else str(text)


def _counters(pool: PoolDevices) -> Counters:
    """What the devices in use leave of the counters; a shared device costs once."""
    left = {
        (counters["name"], name): Quantity.parse(counter["value"])
        for counters in pool.counters
        for name, counter in (counters.get("counters") or {}).items()
    }
    for device in pool.devices:
        if device.name in pool.used:
            _deduct(device, left)
    return left


def _fitting(devices: Sequence[Device], left: Counters) -> int:
    """How many more of the devices the counters allow, other types aside."""
    left = dict(left)
    count = 0
    for device in devices:
        if all(
            (counters, name) in left and left[counters, name] >= amount
            for counters, name, amount in device.cost
        ):
            _deduct(device, left)
            count += 1
    return count


def _deduct(device: Device, left: Counters) -> None:
    for counters, name, amount in device.cost:
        if (counters, name) in left:
            left[counters, name] -= amount


def _shareable(pool: PoolDevices) -> Object | None:
    devices = [device for device in pool.devices if device.shareable]
    if not devices:
        return None
    total: dict[str, Quantity] = {}
    for device in devices:
        for name, capacity in device.capacity.items():
            total[name] = total.get(name, Quantity(0)) + Quantity.parse(capacity["value"])
    if len(total) > _MOST:
        raise _PoolError(
            f"ShareableSummaryOverCap: pool {pool.driver}/{pool.name} has {len(total)} shareable capacity keys, "
            f"exceeding the maximum of {_MOST}"
        )
    partly = sum(device.name in pool.used for device in devices)
    summary: Object = {
        "fullyAvailableDevices": len(devices) - partly,
        "partiallyAvailableDevices": partly,
    }
    if total:
        summary["capacity"] = [
            _capacity(name, total[name], pool.consumed.get(name)) for name in sorted(total)
        ]
    return summary


def _capacity(name: str, total: Quantity, consumed: Quantity | None) -> Object:
    consumed = consumed or Quantity(0)
    left = total - consumed
    return {
        "name": name,
        "total": str(total),
        "consumed": str(consumed),
        "available": str(left if left.sign >= 0 else Quantity(0)),
    }
