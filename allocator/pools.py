"""The resource pools that a node can use.

Source: dynamic-resource-allocation v0.37.2 `structured/internal/experimental/pools_experimental.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from dra_api.quantity import Quantity

from .errors import AllocationError
from .features import Features
from .model import Device, DeviceID, PoolID, Slice
from .node_match import NodeSelectorError


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool as one node sees it.

    An incomplete pool lacks slices of its newest generation; an invalid one contradicts itself, as
    `invalid_reason` says. Neither gives away devices.
    """

    id: PoolID
    incomplete: bool = False
    invalid_reason: str = ""
    slices: tuple[Slice, ...] = ()
    """Slices with devices for this node, by name."""
    other_slices: tuple[Slice, ...] = ()
    """Slices with devices for other nodes, as far as they were needed to complete the pool."""
    counter_sets: Mapping[str, Mapping[str, Quantity]] | None = None

    @property
    def usable(self) -> bool:
        """Whether devices of the pool may be allocated."""
        return not self.incomplete and not self.invalid_reason

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Devices for this node in the order in which they are tried."""
        return tuple(chain.from_iterable(entry.devices for entry in self.slices))

    def all_devices(self) -> Iterator[Device]:
        """Also the devices for other nodes: they draw from the same counters."""
        return chain(self.devices, *(entry.devices for entry in self.other_slices))


@dataclass(frozen=True, eq=False)
class NodePools:
    """The pools of a node, and what follows from them."""

    node: Mapping[str, Any]
    pools: Sequence[Pool]
    """In the order in which they are tried."""

    @cached_property
    def candidates(self) -> tuple[Device, ...]:
        """Devices of usable pools in the order in which they are tried."""
        return tuple(chain.from_iterable(pool.devices for pool in self.pools if pool.usable))

    @cached_property
    def device_ids(self) -> frozenset[DeviceID]:
        """The ids of the candidates."""
        return frozenset(device.id for device in self.candidates)

    @cached_property
    def plain(self) -> bool:
        """Whether each candidate is either in use or not: none is shared, or draws from counters of its pool."""
        return not any(
            device.spec.get("allowMultipleAllocations") or device.spec.get("consumesCounters")
            for device in self.candidates
        )

    @cached_property
    def invalid(self) -> int:
        """How many pools are invalid."""
        return sum(1 for pool in self.pools if pool.invalid_reason)

    @cached_property
    def by_id(self) -> Mapping[PoolID, Pool]:
        """The pools by their ids."""
        return {pool.id: pool for pool in self.pools}


class SliceIndex:
    """The slices of a cluster, sorted by what a node needs to look at, with the pools of nodes that were looked at."""

    def __init__(self, slices: Sequence[Slice], features: Features, before: SliceIndex | None = None) -> None:
        """`before`: the index of a moment ago for the same features; what it knows of nodes is taken over."""
        self._on_node: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        for entry in slices:
            if entry.header.node_name and not _for_all_nodes(entry, features):
                self._on_node.setdefault(entry.header.node_name, []).append(entry)
            else:
                self._shared.append(entry)
        self._slices = slices
        # The stable implementation looks at all slices as they come; the order decides which one speaks for a pool.
        self._places = {entry: place for place, entry in enumerate(slices)} if features.stable else None
        self.gathered: dict[str, NodePools] = {}
        """Node name -> its pools, right as long as the node is the same object."""
        if before is not None and not features.stable:
            self.gathered = self._still_right(before)

    def for_node(self, name: str) -> list[Slice]:
        """Slices that may concern the node."""
        found = self._on_node.get(name, []) + self._shared
        if self._places is not None:
            found.sort(key=self._places.__getitem__)
        return found

    def of_pool(self, pool: PoolID) -> Sequence[Slice]:
        """All slices of a pool, whatever node and generation."""
        return self._by_pool.get(pool, ())

    def _still_right(self, before: SliceIndex) -> dict[str, NodePools]:
        """What an earlier index has gathered, but for nodes that have slices of a pool that changed."""
        if self._shared != before._shared:
            return {}
        changed = {entry.header.pool_id for entry in {*self._slices} ^ {*before._slices}}
        concerned = {
            entry.header.node_name
            for index in (self, before)
            for pool in changed
            for entry in index.of_pool(pool)
        }
        if None in concerned or "" in concerned:
            return {}
        return {
            name: pools
            for name, pools in before.gathered.copy().items()  # others may add to it meanwhile
            if name in self._on_node
            and name not in concerned
            and self._on_node[name] == before._on_node.get(name)
        }

    @cached_property
    def _by_pool(self) -> dict[PoolID, list[Slice]]:
        result: dict[PoolID, list[Slice]] = {}
        for entry in self._slices:
            result.setdefault(entry.header.pool_id, []).append(entry)
        return result


def gather(index: SliceIndex, node: Mapping[str, Any], features: Features) -> list[Pool]:
    """The pools of a node in the order in which they are tried.

    Pools with binding conditions come last; otherwise driver and pool names decide. Raises AllocationError for a
    node selector that cannot be read.
    """
    newest: dict[PoolID, list[Slice]] = {}
    for entry in index.for_node(node["metadata"]["name"]):
        if not _understood(entry, features) or not _relevant(entry, node, features):
            continue
        kept = newest.setdefault(entry.header.pool_id, [])
        if kept and entry.header.generation > kept[0].header.generation:
            kept.clear()
        if not kept or entry.header.generation == kept[0].header.generation:
            kept.append(entry)
    first: list[Pool] = []
    last: list[Pool] = []
    for pool_id, slices in newest.items():
        pool = _complete(pool_id, slices, index, features)
        if pool is None:
            continue
        late = any(entry.has_binding_conditions for entry in pool.slices)
        (last if late and not features.stable else first).append(pool)
    for part in (first, last):
        part.sort(key=lambda pool: (pool.id.driver.encode(), pool.id.pool.encode()))
    return first + last


def _understood(entry: Slice, features: Features) -> bool:
    """Slices that use a feature which is off are left out, so their pool is incomplete."""
    if not features.partitionable_devices and (
        entry.header.per_device_nodes is not None or entry.has_shared_counters
    ):
        return False
    return features.compatibility_groups or not entry.uses_groups


def _for_all_nodes(entry: Slice, features: Features) -> bool:
    """The stable implementation takes counters from everywhere; the others only to complete a pool."""
    return features.stable and entry.has_shared_counters


def _relevant(entry: Slice, node: Mapping[str, Any], features: Features) -> bool:
    if _for_all_nodes(entry, features):
        return True
    header = entry.header
    what = f"slice {header.name}"
    try:
        if header.nodes.is_set:
            return header.nodes.matches(node)
        if not header.per_device_nodes:
            return False  # a way to name nodes that a newer Kubernetes may add
        for device in entry.devices:
            what = f"device {device.id.device} in slice {header.name}"
            if device.nodes.matches(node):
                return True
    except NodeSelectorError as error:
        text = f"gather pool information: failed to perform node selection for {what}: {error}"
        raise AllocationError(text) from None
    return False


def _complete(pool_id: PoolID, slices: list[Slice], index: SliceIndex, features: Features) -> Pool | None:
    """The pool, with slices for other nodes where they are needed; None if a newer generation replaces it."""
    wanted = slices[0].header.slice_count
    if len(slices) == wanted:
        return _build(pool_id, slices, (), features)
    # Slices for other nodes were left out above, so they must be looked at before the pool counts as incomplete.
    generation = slices[0].header.generation
    same = []
    for entry in index.of_pool(pool_id):
        if entry.header.generation > generation:
            return None
        if entry.header.generation == generation and (features.compatibility_groups or not entry.uses_groups):
            same.append(entry)
    if len(same) != wanted:
        return Pool(pool_id, incomplete=True)
    names = {entry.header.name for entry in slices}
    return _build(pool_id, slices, [entry for entry in same if entry.header.name not in names], features)


def _build(pool_id: PoolID, slices: list[Slice], others: Sequence[Slice], features: Features) -> Pool:
    slices = sorted(slices, key=lambda entry: entry.header.name.encode())
    counters_count = features.partitionable_devices
    counter_slices = [entry for entry in (*slices, *others) if counters_count and entry.has_shared_counters]
    own = tuple(entry for entry in slices if entry not in counter_slices)
    other = tuple(entry for entry in others if entry not in counter_slices)
    reason = _duplicate_device(own)
    sets: dict[str, Mapping[str, Quantity]] = {}
    if not reason and counters_count:
        for entry in counter_slices:
            for name, counters in entry.counter_sets:
                if name in sets and not reason:
                    reason = f"duplicate counter set name {name}"
                sets[name] = counters
        reason = reason or _unknown_counter((*own, *other), sets)
    if reason:
        return Pool(pool_id, invalid_reason=reason)
    return Pool(pool_id, slices=own, other_slices=other, counter_sets=sets)


def _duplicate_device(slices: Iterable[Slice]) -> str:
    seen = set()
    for entry in slices:
        for device in entry.devices:
            if device.id.device in seen:
                return f"duplicate device name {device.id.device}"
            seen.add(device.id.device)
    return ""


def _unknown_counter(slices: Iterable[Slice], sets: Mapping[str, Mapping[str, Quantity]]) -> str:
    for entry in slices:
        for device in entry.devices:
            # Most devices consume none, and need not keep that in a record of their own.
            for consumption in device.consumes if device.spec.get("consumesCounters") else ():
                known = sets.get(consumption.counter_set)
                if known is None:
                    return f"counter set {consumption.counter_set} not found"
                for name in consumption.counters:
                    if name not in known:
                        return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""
