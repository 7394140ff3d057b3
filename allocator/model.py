"""ResourceSlices as the search needs them: parsed once, then only read."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from dra_api.cel import DeviceInput
from dra_api.quantity import Quantity

from .capacity import DeviceCapacity, capacities
from .node_match import NodeSelection

_BLOCKING_EFFECTS: Final = ("NoSchedule", "NoExecute")
_MAX_OUTCOMES: Final = 100  # a device; keeps expressions that each pod has for itself from eating memory


class PoolID(NamedTuple):
    """Pools of different drivers may have the same name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """The name of a device in the cluster, printed as `driver/pool/device`."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class CounterConsumption:
    """What a device takes from one counter set when it is allocated."""

    counter_set: str
    counters: Mapping[str, Quantity]
    groups: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class SliceHeader:
    """Everything of a slice that holds for all its devices."""

    name: str
    pool_id: PoolID
    generation: int
    slice_count: int
    nodes: NodeSelection
    node_name: str | None
    per_device_nodes: bool | None
    skip_node_operations: tuple[str, ...]


@dataclass(eq=False)
class Device:
    """One device. `spec` is the entry of the API object; `outcomes` remembers results of CEL (see `selectors`)."""

    id: DeviceID
    spec: Mapping[str, Any]
    slice: SliceHeader
    outcomes: dict[object, Any] = field(default_factory=dict)

    def remember(self, key: object, outcome: object) -> None:
        """Keep a result. Expressions that nobody uses any more are forgotten with all others."""
        if len(self.outcomes) >= _MAX_OUTCOMES:
            self.outcomes = {}
        self.outcomes[key] = outcome

    @cached_property
    def attributes(self) -> Mapping[str, Mapping[str, Any]]:
        """Attributes as published, by (possibly qualified) name."""
        return self.spec.get("attributes") or {}

    @cached_property
    def cel_input(self) -> DeviceInput:
        """The device as selectors see it."""
        return DeviceInput(
            driver=self.id.driver,
            attributes=self.attributes,
            capacity=self.spec.get("capacity") or {},
            allow_multiple_allocations=self.allows_multiple,
        )

    @cached_property
    def capacity(self) -> Mapping[str, DeviceCapacity]:
        """Capacities by name as published."""
        return capacities(self.spec.get("capacity") or {})

    @cached_property
    def allows_multiple(self) -> bool:
        """The device may be shared between claims (consumable capacity)."""
        return bool(self.spec.get("allowMultipleAllocations"))

    @cached_property
    def blocking_taints(self) -> tuple[Mapping[str, Any], ...]:
        """Taints that must be tolerated. Others, unknown effects included, do not matter here."""
        taints = self.spec.get("taints") or ()
        return tuple(taint for taint in taints if taint.get("effect") in _BLOCKING_EFFECTS)

    @cached_property
    def consumes(self) -> tuple[CounterConsumption, ...]:
        """Counters that an allocation of the device takes."""
        return tuple(
            CounterConsumption(
                counter_set=entry.get("counterSet") or "",
                counters=_counters(entry.get("counters")),
                groups=frozenset(entry.get("compatibilityGroups") or ()),
            )
            for entry in self.spec.get("consumesCounters") or ()
        )

    @cached_property
    def traits(self) -> str:
        """Everything but attributes that a search looks at in a device: equal texts, equal treatment."""
        spec = self.spec
        consumes = spec.get("consumesCounters")
        parts = (
            bool(spec.get("allowMultipleAllocations")),
            spec.get("capacity"),
            spec.get("taints"),
            self.slice.skip_node_operations,
            consumes and (self.slice.pool_id, consumes),
        )
        return sys.intern(repr(parts))

    @cached_property
    def nodes(self) -> NodeSelection:
        """The device's own node selection; counts only in slices with perDeviceNodeSelection."""
        return NodeSelection.of(self.spec)


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A ResourceSlice."""

    header: SliceHeader
    devices: tuple[Device, ...]
    counter_sets: tuple[tuple[str, Mapping[str, Quantity]], ...]
    has_shared_counters: bool
    has_binding_conditions: bool
    uses_groups: bool

    @classmethod
    def of(cls, slice: Mapping[str, Any]) -> Slice:
        """Read a ResourceSlice of resource.k8s.io/v1."""
        spec = slice["spec"]
        pool = spec["pool"]
        pool_id = PoolID(spec["driver"], pool["name"])
        header = SliceHeader(
            name=slice["metadata"]["name"],
            pool_id=pool_id,
            generation=pool.get("generation") or 0,
            slice_count=pool.get("resourceSliceCount") or 0,
            nodes=NodeSelection.of(spec),
            node_name=spec.get("nodeName"),
            per_device_nodes=spec.get("perDeviceNodeSelection"),
            skip_node_operations=tuple(spec.get("skipNodeOperations") or ()),
        )
        entries = spec.get("devices") or ()
        shared = spec.get("sharedCounters") or ()
        return cls(
            header=header,
            devices=tuple(Device(DeviceID(*pool_id, entry["name"]), entry, header) for entry in entries),
            counter_sets=tuple((entry["name"], _counters(entry.get("counters"))) for entry in shared),
            has_shared_counters=bool(shared),
            has_binding_conditions=any(entry.get("bindingConditions") is not None for entry in entries),
            uses_groups=any(
                consumption.get("compatibilityGroups")
                for entry in entries
                for consumption in entry.get("consumesCounters") or ()
            ),
        )


def _counters(entries: Mapping[str, Any] | None) -> Mapping[str, Quantity]:
    return {name: Quantity.parse(str(entry["value"])) for name, entry in (entries or {}).items()}
