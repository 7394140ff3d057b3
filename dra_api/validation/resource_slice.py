"""Rules for ResourceSlices; nothing is checked across slices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from .. import features
from ..fields import LIST_VALUES
from . import limits
from .devices import check_skipped_operations
from .findings import Findings, check_set
from .formats import (
    check_driver,
    check_fully_qualified_name,
    check_pool,
    check_required_label,
    is_fully_qualified,
)
from .metadata import IMMUTABLE, validate_object_meta, validate_object_meta_update
from .names import dns_subdomain_problems
from .node_selector import check_node_selector
from .slice_device import check_counters, check_device, go_attribute

Object = Mapping[str, Any]

_ONE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def create(found: Findings, obj: Object, gates: Collection[str]) -> None:
    """Rules for a new slice."""
    found.extend(validate_object_meta(obj, namespaced=False))
    _check_spec(found, obj.get("spec") or {}, None, gates)


def update(found: Findings, new: Object, old: Object, gates: Collection[str]) -> None:
    """Rules for a changed slice: pool name, driver and node name are immutable."""
    found.extend(validate_object_meta_update(new, old))
    _check_spec(found, new.get("spec") or {}, old.get("spec") or {}, gates)


def warnings(obj: Object) -> list[str]:
    """Texts of Warning headers for a slice that is accepted."""
    driver = (obj.get("spec") or {}).get("driver") or ""
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def _check_spec(found: Findings, spec: Object, old: Object | None, gates: Collection[str]) -> None:
    pool = spec.get("pool") or {}
    check_driver(found, "spec.driver", spec.get("driver") or "")
    _check_pool(found, pool)
    if old is not None:
        for path, value, before in (
            ("spec.pool.name", pool.get("name") or "", (old.get("pool") or {}).get("name") or ""),
            ("spec.driver", spec.get("driver") or "", old.get("driver") or ""),
            ("spec.nodeName", spec.get("nodeName"), old.get("nodeName")),
        ):
            if value != before:
                found.invalid(path, value, IMMUTABLE)
    _check_nodes(found, spec)
    # Present but empty lists count here.
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        found.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    _check_devices(found, spec, old, gates)
    sets = spec.get("sharedCounters") or []
    check_set(
        found,
        sets,
        limits.COUNTER_SETS,
        "spec.sharedCounters",
        lambda counters, path: _check_counter_set(found, counters, path),
        _name,
        dict,
        declared=True,
    )
    if spec.get("partitionTypeAttribute") is not None:
        _check_partition_type(found, spec, spec["partitionTypeAttribute"], gates)
    check_skipped_operations(found, spec.get("skipNodeOperations") or [], "spec.skipNodeOperations")


def _check_pool(found: Findings, pool: Object) -> None:
    check_pool(found, "spec.pool.name", pool.get("name") or "")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        found.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        found.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")


def _check_nodes(found: Findings, spec: Object) -> None:
    chosen = []
    name = spec.get("nodeName")
    if name:
        chosen.append("`nodeName`")
        found.invalid_each("spec.nodeName", name, dns_subdomain_problems(name))
    elif name is not None:
        found.invalid("spec.nodeName", name, "must be either unset or set to a non-empty string")
    selector = spec.get("nodeSelector")
    if selector is not None:
        chosen.append("`nodeSelector`")
        check_node_selector(found, selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms")
        if len(terms or []) != 1:
            text = "must have exactly one node selector term"
            found.invalid("spec.nodeSelector.nodeSelectorTerms", _go_terms(terms), text)
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field):
            chosen.append(f"`{field}`")
        elif spec.get(field) is not None:
            found.invalid(f"spec.{field}", False, "must be either unset or set to true")
    if not chosen:
        found.required("spec", _ONE_NODE_FIELD)
    elif len(chosen) > 1:
        found.invalid("spec", f"{{{', '.join(chosen)}}}", f"{_ONE_NODE_FIELD}, but multiple fields are set")


def _go_terms(terms: Sequence[Object] | None) -> list[dict[str, Any]] | None:
    """Terms as the server prints them: its internal type has no JSON names."""

    def requirements(term: Object, field: str) -> list[dict[str, Any]] | None:
        if term.get(field) is None:
            return None
        return [
            {
                "Key": each.get("key") or "",
                "Operator": each.get("operator") or "",
                "Values": each.get("values"),
            }
            for each in term[field]
        ]

    return (
        None
        if terms is None
        else [
            {
                "MatchExpressions": requirements(term, "matchExpressions"),
                "MatchFields": requirements(term, "matchFields"),
            }
            for term in terms
        ]
    )


def _check_devices(found: Findings, spec: Object, old: Object | None, gates: Collection[str]) -> None:
    devices: Sequence[Object] = spec.get("devices") or []
    before = {_name(device): device for device in (old or {}).get("devices") or []}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    limit = limits.DEVICES_ADVANCED if any(map(_is_advanced, devices)) else limits.DEVICES
    check_set(
        found,
        devices,
        limit,
        "spec.devices",
        lambda device, path: check_device(found, device, before.get(_name(device)), path, per_device, gates),
        _name,
        _name,
        declared=False,
    )


def _is_advanced(device: Object) -> bool:
    """Whether one such device lowers the limit of devices in its slice."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    attributes = (device.get("attributes") or {}).values()
    return any(attribute.get(field) is not None for attribute in attributes for field in LIST_VALUES)


def _check_counter_set(found: Findings, counter_set: Object, path: str) -> None:
    check_required_label(found, f"{path}.name", counter_set.get("name") or "")
    check_counters(found, counter_set.get("counters") or {}, f"{path}.counters")


def _check_partition_type(found: Findings, spec: Object, name: str, gates: Collection[str]) -> None:
    path = "spec.partitionTypeAttribute"
    if features.PARTITIONABLE_DEVICES_TYPE in gates:
        check_fully_qualified_name(found, path, name)
    else:
        found.forbidden(path, declared=True)
    devices = spec.get("devices") or []
    if not any(device.get("consumesCounters") for device in devices):
        found.invalid(path, name, "may only be set on a slice which declares devices that consume counters")
        return
    if not is_fully_qualified(name):
        return
    # An attribute in the driver's own domain may also be written without the domain.
    bare = name.removeprefix(f"{spec.get('driver') or ''}/")
    for index, device in enumerate(devices):
        if not device.get("consumesCounters"):
            continue
        where = f"spec.devices[{index}].attributes[{name}]"
        attributes = device.get("attributes") or {}
        attribute = attributes.get(name, attributes.get(bare))
        if attribute is None:
            found.required(
                where,
                "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set",
            )
        elif attribute.get("string") is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            found.invalid(where, go_attribute(attribute), text)


def _name(item: Object) -> str:
    return item.get("name") or ""
