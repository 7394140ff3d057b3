"""Rules for ResourcePoolStatusRequests (all of them declarative)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .. import features
from ..equality import semantic_equal
from ..schema import Message, load
from . import limits
from .conditions import check_conditions
from .findings import Findings, check_list, check_set
from .formats import check_fully_qualified_name, check_pool
from .internal_form import pools_status
from .metadata import IMMUTABLE, validate_object_meta, validate_object_meta_update
from .names import BYTES, byte_length, caseless_subdomain_problems, dns_subdomain_problems, too_many

Object = Mapping[str, Any]

_LIMIT_MAX = 1000


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new request, after its limit was defaulted."""
    found.extend(validate_object_meta(obj, namespaced=False))
    spec = obj.get("spec") or {}
    _check_driver(found, spec.get("driver") or "", "spec.driver")
    if spec.get("poolName") is not None:
        _check_pool_name(found, spec["poolName"], "spec.poolName")
    limit = spec.get("limit")
    if limit is None:
        found.required("spec.limit", declared=True)
    elif limit > _LIMIT_MAX:
        found.invalid("spec.limit", limit, f"must be less than or equal to {_LIMIT_MAX}", declared=True)
    else:
        _check_minimum(found, limit, 1, "spec.limit")
    attribute = spec.get("defaultPartitionTypeAttribute")
    if attribute is not None:
        path = "spec.defaultPartitionTypeAttribute"
        if features.PARTITIONABLE_DEVICES_TYPE in gates:
            check_fully_qualified_name(found, path, attribute)
        else:
            found.forbidden(path, declared=True)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed request: the spec is immutable."""
    found.extend(validate_object_meta_update(new, old))
    if not semantic_equal(new.get("spec") or {}, old.get("spec") or {}, _message("Spec")):
        found.invalid("spec", None, IMMUTABLE, declared=True)


def update_status(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed status: once written it never changes."""
    found.extend(validate_object_meta_update(new, old))
    status, before = new.get("status"), old.get("status")
    if before is not None:
        if status is None or not semantic_equal(status, before, _message("Status")):
            found.invalid("status", pools_status(status), IMMUTABLE)
            with found.only_declared():
                if status is not None:
                    _check_status(found, status)
    elif status is not None:
        _check_status(found, status)


def _check_status(found: Findings, status: Object) -> None:
    conditions = status.get("conditions") or []
    check_conditions(found, conditions, "status.conditions")
    if len(conditions) > limits.POOL_CONDITIONS:
        found.add(too_many("status.conditions", len(conditions), limits.POOL_CONDITIONS), declared=True)
    _check_count(found, status.get("poolCount"), "status.poolCount")
    check_list(
        found,
        status.get("pools") or [],
        limits.POOLS,
        "status.pools",
        lambda pool, path: _check_pool(found, pool, path),
        declared=True,
    )


def _message(part: str) -> Message:
    return load().message(f"resource/v1alpha3.ResourcePoolStatusRequest{part}")


def _check_driver(found: Findings, name: str, path: str) -> None:
    if name:
        found.invalid_each(path, name, caseless_subdomain_problems(name), declared=True)
    else:
        found.required(path, declared=True)


def _check_pool_name(found: Findings, name: str, path: str) -> None:
    if name:
        check_pool(found, path, name, declared=True)
    else:
        found.invalid(path, name, "segment 0: must not be empty", declared=True)


def _check_minimum(found: Findings, value: int, least: int, path: str) -> None:
    if value < least:
        found.invalid(path, value, f"must be greater than or equal to {least}", declared=True)


def _check_count(found: Findings, value: int | None, path: str) -> None:
    """A required number, 0 or more."""
    if value is None:
        found.required(path, declared=True)
    else:
        _check_minimum(found, value, 0, path)


def _check_pool(found: Findings, pool: Object, path: str) -> None:
    _check_driver(found, pool.get("driver") or "", f"{path}.driver")
    check_pool(found, f"{path}.poolName", pool.get("poolName") or "", declared=True)
    # A generation of 0 counts as missing, as the declarative rule sees no difference.
    if not pool.get("generation"):
        found.required(f"{path}.generation", declared=True)
    else:
        _check_minimum(found, pool["generation"], 0, f"{path}.generation")
    if pool.get("resourceSliceCount") is not None:
        _check_minimum(found, pool["resourceSliceCount"], 1, f"{path}.resourceSliceCount")
    for field in ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"):
        if pool.get(field) is not None:
            _check_minimum(found, pool[field], 0, f"{path}.{field}")
    if pool.get("nodeName") is not None:
        name = pool["nodeName"]
        found.invalid_each(f"{path}.nodeName", name, dns_subdomain_problems(name, BYTES), declared=True)
    if byte_length(pool.get("validationError") or "") > limits.VALIDATION_ERROR:
        found.longer(f"{path}.validationError", limits.VALIDATION_ERROR, declared=True)
    partitions = pool.get("partitionSummary") or []
    check_set(
        found,
        partitions,
        limits.POOL_SUMMARIES,
        f"{path}.partitionSummary",
        lambda partition, where: _check_partition(found, partition, where),
        _partition_key,
        dict,
        declared=True,
    )
    if pool.get("shareableSummary") is not None:
        _check_shareable(found, pool["shareableSummary"], f"{path}.shareableSummary")


def _partition_key(partition: Object) -> tuple[str, str]:
    return partition.get("attribute") or "", partition.get("type") or ""


def _check_partition(found: Findings, partition: Object, path: str) -> None:
    for field in ("attribute", "type"):
        if not partition.get(field):
            found.required(f"{path}.{field}", declared=True)
    for field in ("total", "allocatable"):
        _check_count(found, partition.get(field), f"{path}.{field}")


def _check_shareable(found: Findings, summary: Object, path: str) -> None:
    for field in ("fullyAvailableDevices", "partiallyAvailableDevices"):
        _check_count(found, summary.get(field), f"{path}.{field}")

    def check(capacity: Object, where: str) -> None:
        if not capacity.get("name"):
            found.required(f"{where}.name", declared=True)
        for field in ("total", "consumed", "available"):
            if capacity.get(field) is None:
                found.required(f"{where}.{field}", declared=True)

    check_list(
        found, summary.get("capacity") or [], limits.POOL_SUMMARIES, f"{path}.capacity", check, declared=True
    )
