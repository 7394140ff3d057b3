"""Which ResourceSlices a pool needs and which API calls lead there. Pure functions.

Names, owner, generation and order follow what the upstream helper publishes, so that consumers need not know
who published (kubelet-contract 16).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dra_api.quantity import Quantity, QuantityError

API_VERSION: Final = "resource.k8s.io/v1"
MAX_DEVICES: Final = 128
MAX_ADVANCED_DEVICES: Final = 64
"""Limit of a slice in which a device has taints, counters or lists as attributes."""

_LISTS: Final = ("bools", "ints", "strings", "versions")
# The API server cuts generateName so that name and suffix have 63 bytes.
_MAX_GENERATE_NAME: Final = 58

Device = Mapping[str, Any]
Slice = dict[str, Any]


@dataclass(frozen=True)
class Pool:
    """A pool of one node. `node_uid` is needed to create slices."""

    driver: str
    node: str
    node_uid: str
    name: str


@dataclass(frozen=True)
class Plan:
    """API calls in their order: deletes, updates, creates."""

    deletes: tuple[Slice, ...] = ()
    updates: tuple[Slice, ...] = ()
    creates: tuple[Slice, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether everything is as it should be."""
        return not (self.deletes or self.updates or self.creates)


@dataclass
class Accepted:
    """What the API server made of devices when it dropped fields, so that they are not written for ever."""

    stored: dict[str, Any] = field(default_factory=dict)

    def remember(self, wanted: Slice, stored: Slice) -> list[str]:
        """Compare what was sent with what is stored; the paths of the fields that were dropped or changed."""
        sent, kept = (
            canonical(wanted["spec"].get("devices", [])),
            canonical(stored["spec"].get("devices") or []),
        )
        if sent == kept:
            return []
        self.stored[_key(sent)] = kept
        return sorted(_differences(sent, kept, "spec.devices"))

    def equal(self, wanted: Any, stored: Any) -> bool:
        """Whether stored devices (both canonical) are the wanted ones, as far as the server takes them."""
        return bool(wanted == stored) or self.stored.get(_key(wanted)) == stored


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _differences(sent: Any, kept: Any, path: str) -> set[str]:
    if isinstance(sent, dict) and isinstance(kept, dict):
        found: set[str] = set()
        for key in {*sent, *kept}:
            found |= _differences(sent.get(key), kept.get(key), f"{path}.{key}")
        return found
    if isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        return {
            place
            for index, (one, other) in enumerate(zip(sent, kept, strict=True))
            for place in _differences(one, other, f"{path}[{index}]")
        }
    return set() if sent == kept else {path}


def canonical(value: Any) -> Any:
    """A value as it compares: without empty fields, with quantities in their canonical spelling."""
    if isinstance(value, Mapping):
        result = {}
        for key, item in value.items():
            if key == "capacity" and isinstance(item, Mapping):
                item = {name: _canonical_capacity(entry) for name, entry in item.items()}
            reduced = canonical(item)
            if reduced not in (None, {}, []):
                result[key] = reduced
        return result
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    return value


def _canonical_capacity(entry: Any) -> Any:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("value"), str):
        return entry
    try:
        return {**entry, "value": str(Quantity.parse(entry["value"]))}
    except QuantityError:
        return entry


def split(devices: Sequence[Device]) -> list[list[Device]]:
    """The devices of each slice, in order; one empty list for no devices."""
    limit = MAX_ADVANCED_DEVICES if any(map(_advanced, devices)) else MAX_DEVICES
    return [list(devices[start : start + limit]) for start in range(0, len(devices), limit)] or [[]]


def _advanced(device: Device) -> bool:
    values = (device.get("attributes") or {}).values()
    lists = any(name in value for value in values for name in _LISTS)
    return bool(lists or device.get("taints") or device.get("consumesCounters"))


def generate_name(index: int, count: int, pool: Pool) -> str:
    """The generateName of a slice: its position in hex, driver and owner."""
    return f"{index:0{_width(count)}x}-{pool.driver}-{pool.node}-"


def _width(count: int) -> int:
    return max(5, len(f"{count - 1:x}"))


def _index(name: str, count: int, pool: Pool) -> int | None:
    """The position that a slice's name stands for, None if it is not a name of this pool."""
    match = re.match(r"([0-9a-f]+)-", name)
    if not match or len(match[1]) != _width(count):
        return None
    index = int(match[1], 16)
    fits = index < count and name.startswith(generate_name(index, count, pool)[:_MAX_GENERATE_NAME])
    return index if fits else None


def _generation(item: Slice) -> int:
    return int(item["spec"]["pool"].get("generation") or 0)


def plan(pool: Pool, devices: Sequence[Device], existing: Sequence[Slice], accepted: Accepted) -> Plan:
    """The calls that turn the existing slices of driver and node into one pool with these devices."""
    chunks = split(devices)
    mine = [item for item in existing if item["spec"]["pool"]["name"] == pool.name]
    current = max(map(_generation, mine), default=0)
    slots: dict[int, Slice] = {}
    for item in sorted(mine, key=lambda item: str(item["metadata"]["name"])):
        index = _index(item["metadata"]["name"], len(chunks), pool)
        if index is not None and _generation(item) == current:
            slots.setdefault(index, item)
    kept = {item["metadata"]["name"] for item in slots.values()}
    deletes = [item for item in existing if item["metadata"]["name"] not in kept]
    changed = [
        index for index, item in slots.items() if not _same(item, pool, chunks[index], len(chunks), accepted)
    ]
    missing = [index for index in range(len(chunks)) if index not in slots]
    generation = current
    if missing or len(changed) > 1:
        generation, changed = current + 1, list(slots)
    return Plan(
        deletes=tuple(deletes),
        updates=tuple(
            _updated(slots[index], pool, chunks[index], len(chunks), generation) for index in sorted(changed)
        ),
        creates=tuple(_created(pool, index, chunks, generation) for index in missing),
    )


def _spec(pool: Pool, devices: Sequence[Device], count: int, generation: int) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "driver": pool.driver,
        "nodeName": pool.node,
        "pool": {"name": pool.name, "generation": generation, "resourceSliceCount": count},
    }
    if devices:
        spec["devices"] = [dict(device) for device in devices]
    return spec


def _owners(pool: Pool) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Node", "name": pool.node, "uid": pool.node_uid, "controller": True}]


def _same(item: Slice, pool: Pool, devices: Sequence[Device], count: int, accepted: Accepted) -> bool:
    wanted = canonical(_spec(pool, devices, count, _generation(item)))
    stored = canonical(item["spec"])
    devices_equal = accepted.equal(wanted.pop("devices", []), stored.pop("devices", []))
    owners = item["metadata"].get("ownerReferences") or []
    return devices_equal and wanted == stored and canonical(owners) == canonical(_owners(pool))


def _updated(item: Slice, pool: Pool, devices: Sequence[Device], count: int, generation: int) -> Slice:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {**metadata, "ownerReferences": _owners(pool)},
        "spec": _spec(pool, devices, count, generation),
    }


def _created(pool: Pool, index: int, chunks: Sequence[Sequence[Device]], generation: int) -> Slice:
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {
            "generateName": generate_name(index, len(chunks), pool),
            "ownerReferences": _owners(pool),
        },
        "spec": _spec(pool, chunks[index], len(chunks), generation),
    }
