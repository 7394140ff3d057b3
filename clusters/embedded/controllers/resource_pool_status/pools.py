"""What is known about the pools of a driver: sums over ResourceSlices, ResourceClaims and DeviceTaintRules.

Source: kubernetes v1.37.2 `pkg/controller/resourcepoolstatusrequest/controller.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.controllers.resource_pool_status import views
from clusters.embedded.controllers.resource_pool_status.views import Device, PoolDevices
from dra_api.quantity import Quantity

Object = dict[str, Any]

DEFAULT_LIMIT: Final = 100
_INCOMPLETE: Final = "PoolIncomplete:"
_LONGEST_ERROR: Final = 256
_UNAVAILABLE: Final = ("NoSchedule", "NoExecute")


@dataclass
class _Pool:
    """The slices of a pool's newest generation, added up."""

    generation: int
    slices: int
    nodes: set[str] = field(default_factory=set)
    observed: int = 0
    unavailable: int = 0
    devices: list[Device] = field(default_factory=list)
    counters: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass
class _Usage:
    """What claims use of a pool; each device counts once, however many share it."""

    devices: set[str] = field(default_factory=set)
    capacity: dict[str, Quantity] = field(default_factory=dict)


def pool_statuses(
    request: Mapping[str, Any],
    slices: Iterable[Mapping[str, Any]],
    claims: Iterable[Mapping[str, Any]],
    rules: Iterable[Mapping[str, Any]],
) -> list[Object]:
    """A PoolStatus for each pool that a request's spec asks about, ordered by name; not yet cut to its limit."""
    driver = request["driver"]
    found = _pools(driver, request.get("poolName"), list(slices), list(rules))
    used = _usage(driver, claims)
    attribute = request.get("defaultPartitionTypeAttribute")
    return [
        _status(driver, name, pool, used.get(name) or _Usage(), attribute)
        for name, pool in sorted(found.items())
    ]


def is_incomplete(pool: Mapping[str, Any]) -> bool:
    """Whether a PoolStatus is about a pool of which slices are missing."""
    return str(pool.get("validationError", "")).startswith(_INCOMPLETE)


def _pools(
    driver: str,
    wanted: str | None,
    slices: list[Mapping[str, Any]],
    rules: list[Mapping[str, Any]],
) -> dict[str, _Pool]:
    mine = [
        slice_["spec"]
        for slice_ in sorted(slices, key=lambda one: one["metadata"]["name"])
        if slice_["spec"]["driver"] == driver and wanted in (None, slice_["spec"]["pool"]["name"])
    ]
    newest: dict[str, int] = {}
    for spec in mine:
        name = spec["pool"]["name"]
        newest[name] = max(newest.get(name, _generation(spec)), _generation(spec))
    pools: dict[str, _Pool] = {}
    for spec in mine:
        name = spec["pool"]["name"]
        if _generation(spec) != newest[name]:
            continue
        pool = pools.setdefault(name, _Pool(newest[name], spec["pool"]["resourceSliceCount"]))
        devices = spec.get("devices") or []
        pool.nodes.add(spec.get("nodeName") or "")
        pool.observed += 1
        pool.unavailable += sum(_is_unavailable(driver, name, device, rules) for device in devices)
        pool.devices += [Device.of(device, spec.get("partitionTypeAttribute") or "") for device in devices]
        pool.counters += spec.get("sharedCounters") or []
    return pools


def _generation(spec: Mapping[str, Any]) -> int:
    return int(spec["pool"].get("generation") or 0)


def _is_unavailable(
    driver: str, pool: str, device: Mapping[str, Any], rules: list[Mapping[str, Any]]
) -> bool:
    if any(taint["effect"] in _UNAVAILABLE for taint in device.get("taints") or []):
        return True
    for rule in rules:
        selector = rule["spec"].get("deviceSelector")
        if selector is None or rule["spec"]["taint"]["effect"] not in _UNAVAILABLE:
            continue
        wanted = (
            (selector.get("driver"), driver),
            (selector.get("pool"), pool),
            (selector.get("device"), device["name"]),
        )
        if all(want is None or want == have for want, have in wanted):
            return True
    return False


def _usage(driver: str, claims: Iterable[Mapping[str, Any]]) -> dict[str, _Usage]:
    used: dict[str, _Usage] = {}
    for result in _results(claims):
        # Admin access looks at devices without taking them.
        if result["driver"] != driver or result.get("adminAccess"):
            continue
        usage = used.setdefault(result["pool"], _Usage())
        usage.devices.add(result["device"])
        for name, amount in (result.get("consumedCapacity") or {}).items():
            usage.capacity[name] = usage.capacity.get(name, Quantity(0)) + Quantity.parse(amount)
    return used


def _results(claims: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        yield from (allocation.get("devices") or {}).get("results") or []


def _status(driver: str, name: str, pool: _Pool, used: _Usage, attribute: str | None) -> Object:
    status: Object = {"driver": driver, "poolName": name, "generation": pool.generation}
    node = next(iter(pool.nodes)) if len(pool.nodes) == 1 else ""
    if node:
        status["nodeName"] = node
    if pool.observed < pool.slices:
        error = (
            f"{_INCOMPLETE} pool {driver}/{name} is incomplete: observed {pool.observed}/{pool.slices} slices "
            f"at generation {pool.generation}"
        )
        return {**status, "validationError": error[:_LONGEST_ERROR]}
    total, allocated = len(pool.devices), len(used.devices)
    status |= {
        "resourceSliceCount": pool.observed,
        "totalDevices": total,
        "allocatedDevices": allocated,
        "availableDevices": max(0, total - allocated - pool.unavailable),
        "unavailableDevices": pool.unavailable,
    }
    devices = PoolDevices(driver, name, pool.devices, pool.counters, used.devices, used.capacity)
    partitions, shareable, problem = views.summaries(devices, attribute)
    if partitions:
        status["partitionSummary"] = partitions
    if shareable is not None:
        status["shareableSummary"] = shareable
    if problem:
        status["validationError"] = problem[:_LONGEST_ERROR]
    return status
