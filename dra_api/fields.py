"""Removes fields whose feature gate is off, as an API server does before it validates.

A field stays when the stored object already used the feature. Works on v1 (and v1alpha3) objects, in place.
Source: kubernetes v1.37.2 `pkg/registry/resource/*/strategy.go`, `pkg/api/resourceclaimspec`, `pkg/api/pod`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from . import features

Object = dict[str, Any]

LIST_VALUES: Final = ("ints", "bools", "strings", "versions")


class _Rule(NamedTuple):
    """Fields of one feature: they stay when all gates are on or the stored object uses one of them."""

    gates: tuple[str, ...]
    places: Callable[[Object], Iterable[tuple[Object, str]]]
    """Yields the holders with the field name in each."""
    empty_counts: bool = False
    """Whether an empty list or map of the stored object counts as use."""
    used_elsewhere: Callable[[Object], bool] = lambda obj: False
    """Further use by the stored object."""


def drop_disabled(obj: Object, old: Object | None, gates: Collection[str]) -> None:
    """Remove what the gates forbid from `obj`; `old` is the stored object, None on create."""
    for rule in _RULES.get(str(obj.get("kind", "")), ()):
        if all(gate in gates for gate in rule.gates):
            continue
        if old is not None and (
            rule.used_elsewhere(old) or any(_used(rule, *place) for place in rule.places(old))
        ):
            continue
        for holder, field in list(rule.places(obj)):
            holder.pop(field, None)


def drop_deallocated_devices(claim: Object, old: Object, gates: Collection[str]) -> None:
    """Remove statuses of devices that this status update deallocates; clients need not know of them."""
    status = claim.get("status") or {}
    if features.DEVICE_STATUS not in gates and not (old.get("status") or {}).get("devices"):
        return
    gone = _allocated(old) - _allocated(claim)
    kept = [device for device in status.get("devices") or [] if device_key(device) not in gone]
    if kept:
        status["devices"] = kept
    else:
        status.pop("devices", None)


def device_key(device: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Identity of an allocated device or device status: driver, pool, device, share id."""
    return (
        device.get("driver") or "",
        device.get("pool") or "",
        device.get("device") or "",
        device.get("shareID") or "",
    )


def _allocated(claim: Object) -> set[tuple[str, str, str, str]]:
    return {device_key(result) for result in _results(claim)}


def _used(rule: _Rule, holder: Object, field: str) -> bool:
    value = holder.get(field)
    return value is not None and (rule.empty_counts or value not in ([], {}))


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _claim_devices(obj: Object) -> Object:
    spec = _spec(obj)
    if obj.get("kind") == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    return spec.get("devices") or {}


def _requests(obj: Object) -> list[Object]:
    """Everything that asks for devices: `exactly` and sub-requests."""
    found = []
    for request in _claim_devices(obj).get("requests") or []:
        if request.get("exactly") is not None:
            found.append(request["exactly"])
        found += request.get("firstAvailable") or []
    return found


def _results(obj: Object) -> list[Object]:
    allocation = (obj.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _in_requests(*fields: str) -> Callable[[Object], Iterable[tuple[Object, str]]]:
    return lambda obj: [(request, field) for request in _requests(obj) for field in fields]


def _in_results(*fields: str) -> Callable[[Object], Iterable[tuple[Object, str]]]:
    return lambda obj: [(result, field) for result in _results(obj) for field in fields]


def _in_devices(*fields: str) -> Callable[[Object], Iterable[tuple[Object, str]]]:
    return lambda obj: [(device, field) for device in _spec(obj).get("devices") or [] for field in fields]


def _in_spec(*fields: str) -> Callable[[Object], Iterable[tuple[Object, str]]]:
    return lambda obj: [(_spec(obj), field) for field in fields]


def _in_status(*fields: str) -> Callable[[Object], Iterable[tuple[Object, str]]]:
    return lambda obj: [(obj.get("status") or {}, field) for field in fields]


def _first_available(obj: Object) -> Iterable[tuple[Object, str]]:
    return [(request, "firstAvailable") for request in _claim_devices(obj).get("requests") or []]


def _admin_access(obj: Object) -> Iterable[tuple[Object, str]]:
    # Sub-requests have no such field.
    return [
        (request["exactly"], "adminAccess")
        for request in _claim_devices(obj).get("requests") or []
        if request.get("exactly") is not None
    ]


def _claim_capacity(obj: Object) -> Iterable[tuple[Object, str]]:
    constraints = [(each, "distinctAttribute") for each in _claim_devices(obj).get("constraints") or []]
    return [*constraints, *_in_requests("capacity")(obj)]


def _status_capacity(obj: Object) -> Iterable[tuple[Object, str]]:
    devices = (obj.get("status") or {}).get("devices") or []
    return [*_in_results("shareID", "consumedCapacity")(obj), *((device, "shareID") for device in devices)]


def _partitions(obj: Object) -> Iterable[tuple[Object, str]]:
    return [
        *_in_spec("sharedCounters", "perDeviceNodeSelection")(obj),
        *_in_devices("consumesCounters", "nodeName", "nodeSelector", "allNodes")(obj),
    ]


def _shared_capacity(obj: Object) -> Iterable[tuple[Object, str]]:
    devices = _spec(obj).get("devices") or []
    policies = [
        (capacity, "requestPolicy")
        for device in devices
        for capacity in (device.get("capacity") or {}).values()
    ]
    return [*_in_devices("allowMultipleAllocations")(obj), *policies]


def _compatibility_groups(obj: Object) -> Iterable[tuple[Object, str]]:
    devices = _spec(obj).get("devices") or []
    return [
        (use, "compatibilityGroups") for device in devices for use in device.get("consumesCounters") or []
    ]


def _list_values(obj: Object) -> Iterable[tuple[Object, str]]:
    devices = _spec(obj).get("devices") or []
    attributes = [attribute for device in devices for attribute in (device.get("attributes") or {}).values()]
    return [(attribute, field) for attribute in attributes for field in LIST_VALUES]


def _uses_admin_access(obj: Object) -> bool:
    return any("adminAccess" in holder for holder, _ in _admin_access(obj))


def _uses_capacity(obj: Object) -> bool:
    return any(holder.get(field) is not None for holder, field in _claim_capacity(obj))


_CLAIM_SPEC: Final = (
    _Rule((features.PRIORITIZED_LIST,), _first_available),
    _Rule((features.DEVICE_TAINTS,), _in_requests("tolerations")),
    _Rule((features.ADMIN_ACCESS,), _admin_access),
    _Rule((features.CONSUMABLE_CAPACITY,), _claim_capacity, empty_counts=True),
    _Rule((features.DERIVED_ATTRIBUTES,), _in_requests("derivedAttributes")),
)
_RULES: Final[dict[str, tuple[_Rule, ...]]] = {
    "ResourceClaimTemplate": _CLAIM_SPEC,
    "ResourceClaim": (
        *_CLAIM_SPEC,
        _Rule((features.DEVICE_STATUS,), _in_status("devices")),
        _Rule((features.ADMIN_ACCESS,), _in_results("adminAccess"), used_elsewhere=_uses_admin_access),
        _Rule(
            (features.CONSUMABLE_CAPACITY,),
            _status_capacity,
            empty_counts=True,
            used_elsewhere=_uses_capacity,
        ),
        _Rule(
            (features.BINDING_CONDITIONS,),
            _in_results("bindingConditions", "bindingFailureConditions"),
            empty_counts=True,
        ),
        _Rule((features.OPTIONAL_NODE_OPERATIONS,), _in_results("skipNodeOperations")),
    ),
    "ResourceSlice": (
        _Rule((features.DEVICE_TAINTS,), _in_devices("taints")),
        _Rule((features.PARTITIONABLE_DEVICES,), _partitions),
        _Rule(
            (features.BINDING_CONDITIONS, features.DEVICE_STATUS),
            _in_devices("bindingConditions", "bindingFailureConditions", "bindsToNode"),
        ),
        _Rule((features.CONSUMABLE_CAPACITY,), _shared_capacity, empty_counts=True),
        _Rule((features.COMPATIBILITY_GROUPS,), _compatibility_groups),
        _Rule((features.NODE_ALLOCATABLE_RESOURCES,), _in_devices("nodeAllocatableResources")),
        _Rule((features.LIST_TYPE_ATTRIBUTES,), _list_values, empty_counts=True),
        _Rule((features.PARTITIONABLE_DEVICES_TYPE,), _in_spec("partitionTypeAttribute")),
        _Rule((features.OPTIONAL_NODE_OPERATIONS,), _in_spec("skipNodeOperations")),
    ),
    "DeviceClass": (_Rule((features.EXTENDED_RESOURCE,), _in_spec("extendedResourceName")),),
    "ResourcePoolStatusRequest": (
        _Rule((features.PARTITIONABLE_DEVICES_TYPE,), _in_spec("defaultPartitionTypeAttribute")),
    ),
    "Pod": (
        _Rule((features.EXTENDED_RESOURCE,), _in_status("extendedResourceClaimStatus")),
        _Rule((features.NODE_ALLOCATABLE_RESOURCES,), _in_status("nodeAllocatableResourceClaimStatuses")),
    ),
}
