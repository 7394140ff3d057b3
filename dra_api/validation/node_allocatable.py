"""Rules for `nodeAllocatableResources` of a device (shape of 1.37)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..quantity import Quantity
from .findings import Findings

Object = Mapping[str, Any]


def is_node_allocatable(name: str) -> bool:
    """Whether a resource counts against a node's allocatable: cpu, memory, huge pages."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def check_node_allocatable(
    found: Findings, resources: Mapping[str, Object], capacities: Object, path: str
) -> None:
    """Check the resources by name; mappings may name only keys of `capacities`."""
    for name, resource in resources.items():
        where = f"{path}[{name}]"
        if not is_node_allocatable(name):
            found.invalid(where, name, "must be a node allocatable resource name")
        mapping, overhead = resource.get("mapping"), resource.get("overhead")
        if mapping is None and overhead is None:
            found.required(where, "at least one of mapping or overhead must be set")
        if mapping is not None:
            _check_mapping(found, mapping, capacities, f"{where}.mapping")
        if overhead is not None:
            _check_overhead(found, overhead, f"{where}.overhead")


def _check_mapping(found: Findings, mapping: Object, capacities: Object, path: str) -> None:
    key = mapping.get("capacityKey")
    by_capacity, by_device = mapping.get("capacityMultiplier"), mapping.get("deviceMultiplier")
    if key == "":
        found.invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacities:
        found.not_found(f"{path}.capacityKey", key)
    if key is not None:
        if by_capacity is None:
            text = "capacityMultiplier is required when capacityKey is set"
            found.required(f"{path}.capacityMultiplier", text)
        else:
            _check_multiplier(found, by_capacity, f"{path}.capacityMultiplier")
    if by_device is not None:
        _check_multiplier(found, by_device, f"{path}.deviceMultiplier")
    if by_capacity is not None and key is None:
        found.required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")
    chosen = [
        field for field, value in (("capacityKey", key), ("deviceMultiplier", by_device)) if value is not None
    ]
    if not chosen:
        text = "must specify one of: `capacityKey`, `deviceMultiplier`"
        found.invalid(path, "", text, declared=True)
    elif len(chosen) > 1:
        text = "must specify exactly one of: `capacityKey`, `deviceMultiplier`"
        found.invalid(path, "{capacityKey, deviceMultiplier}", text, declared=True)


def _check_multiplier(found: Findings, value: Any, path: str) -> None:
    quantity = Quantity.parse(str(value))
    if quantity.sign <= 0:
        found.invalid(path, str(quantity), "must be positive")


def _check_overhead(found: Findings, overhead: Object, path: str) -> None:
    fields = [
        (field, overhead[field]) for field in ("perPod", "perContainer") if overhead.get(field) is not None
    ]
    if not fields:
        found.invalid(path, "", "at least one of perPod or perContainer must be set")
    for field, value in fields:
        quantity = Quantity.parse(str(value))
        if quantity.sign < 0:
            found.invalid(f"{path}.{field}", str(quantity), "must be non-negative")
