"""Small builders of the objects that the allocator reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allocator import AllocatedState, Allocator, CelCache, DeviceID

DRIVER = "gpu.example.com"
NODE = {"metadata": {"name": "worker", "labels": {"zone": "east", "rack": "7"}}}


def device(name: str, **fields: Any) -> dict[str, Any]:
    """A device; `model="a"` and other plain values are attributes, lower camel case fields of the API are kept."""
    known = {
        "capacity",
        "taints",
        "consumesCounters",
        "allowMultipleAllocations",
        "bindingConditions",
        "bindingFailureConditions",
        "bindsToNode",
        "nodeName",
        "allNodes",
        "nodeSelector",
        "attributes",
    }
    result: dict[str, Any] = {"name": name}
    attributes = {}
    for key, value in fields.items():
        if key in known:
            result[key] = value
        else:
            attributes[key] = attribute(value)
    if attributes:
        result["attributes"] = attributes
    return result


def attribute(value: Any) -> dict[str, Any]:
    """A DeviceAttribute for a Python value."""
    kind = {bool: "bool", int: "int", str: "string"}
    if isinstance(value, list):
        return {kind[type(value[0])] + "s": value}
    return {kind[type(value)]: value}


def resource_slice(
    name: str,
    devices: Sequence[Mapping[str, Any]] = (),
    *,
    pool: str = "pool",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **where: Any,
) -> dict[str, Any]:
    """A ResourceSlice, for all nodes unless told otherwise."""
    spec: dict[str, Any] = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **(where or {"allNodes": True}),
    }
    if devices:
        spec["devices"] = list(devices)
    return {"metadata": {"name": name}, "spec": spec}


def exact(name: str = "r", count: int = 1, **fields: Any) -> dict[str, Any]:
    """A request for a number of devices."""
    return {"name": name, "exactly": wanted(count=count, **fields)}


def every(name: str = "r", **fields: Any) -> dict[str, Any]:
    """A request for all devices."""
    return {"name": name, "exactly": {"deviceClassName": "any", "allocationMode": "All", **fields}}


def wanted(**fields: Any) -> dict[str, Any]:
    """What an exact request or an alternative says."""
    return {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, **fields}


def first_of(name: str, *alternatives: Mapping[str, Any]) -> dict[str, Any]:
    """A prioritised list; alternatives are called s0, s1 and so on."""
    subrequests = [{"name": f"s{index}", **entry} for index, entry in enumerate(alternatives)]
    return {"name": name, "firstAvailable": subrequests}


def cel(*expressions: str) -> list[dict[str, Any]]:
    """Selectors."""
    return [{"cel": {"expression": expression}} for expression in expressions]


def claim(*requests: Mapping[str, Any], name: str = "c", **devices: Any) -> dict[str, Any]:
    """A claim in namespace `ns`."""
    spec = {"devices": {"requests": list(requests), **devices}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def device_class(name: str, **spec: Any) -> dict[str, Any]:
    """A DeviceClass."""
    return {"metadata": {"name": name}, "spec": spec}


def make(
    slices: Sequence[Mapping[str, Any]],
    *claims: Mapping[str, Any],
    gates: Mapping[str, bool] | None = None,
    state: AllocatedState | None = None,
    classes: Sequence[Mapping[str, Any]] = (),
) -> Allocator:
    """An allocator; the class `any` exists and shares are called share-1, share-2 and so on."""
    known = {entry["metadata"]["name"]: entry for entry in (device_class("any"), *classes)}
    return Allocator(
        gates or {},
        claims,
        state or AllocatedState(),
        known.get,
        slices,
        CelCache(),
        new_share_id=counted("share"),
    )


def counted(prefix: str) -> Callable[[], str]:
    """A source of names."""
    count = 0

    def following() -> str:
        nonlocal count
        count += 1
        return f"{prefix}-{count}"

    return following


def allocate(
    slices: Sequence[Mapping[str, Any]],
    *claims: Mapping[str, Any],
    node: Mapping[str, Any] = NODE,
    gates: Mapping[str, bool] | None = None,
    state: AllocatedState | None = None,
    classes: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """The results on a node."""
    return make(slices, *claims, gates=gates, state=state, classes=classes).allocate(node)


def picked(results: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """For each claim `request: pool/device` in order."""
    return [
        [
            f"{entry['request']}: {entry['pool']}/{entry['device']}"
            for entry in result["devices"].get("results", [])
        ]
        for result in results
    ]


def in_use(*devices: str, pool: str = "pool") -> AllocatedState:
    """A state in which these devices belong to claims."""
    return AllocatedState(devices=frozenset(DeviceID(DRIVER, pool, name) for name in devices))
