"""Shared counters of a pool: what partitions of hardware take from it, and who may sit beside whom."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dra_api.quantity import Quantity

from .features import Features
from .model import CounterConsumption, Device
from .pools import Pool
from .state import AllocatedState

_ZERO: Final = Quantity(0)
_Counter = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Members:
    """The compatibility groups that all devices on a counter set share; `groups` is None while all have none."""

    groups: frozenset[str] | None

    def admits(self, groups: frozenset[str]) -> bool:
        """Devices without groups go together; devices with groups need one that all have."""
        if self.groups is None or not groups:
            return self.groups is None and not groups
        return bool(self.groups & groups)

    def joined_by(self, groups: frozenset[str]) -> Members:
        """The members with one more device."""
        if self.groups is None or not groups:
            return self
        return Members(self.groups & groups)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What allocated devices leave of a pool."""

    available: Mapping[_Counter, Quantity]
    """(counter set, counter) -> amount; below zero when more is in use than there is."""
    members: Mapping[str, Members]
    """Counter set -> devices on it."""
    overdrawn: bool
    """Any counter is below zero. Nothing more can be allocated from the pool then."""

    @classmethod
    def of(cls, pool: Pool, allocated: Iterable[Device]) -> Baseline:
        """Subtract what the allocated devices consume from the counters of the pool."""
        available = {
            (name, counter): value
            for name, counters in (pool.counter_sets or {}).items()
            for counter, value in counters.items()
        }
        members: dict[str, Members] = {}
        for device in allocated:
            for consumption in device.consumes:
                for counter, amount in consumption.counters.items():
                    key = (consumption.counter_set, counter)
                    if key in available:
                        available[key] = available[key] - amount
                _join(members, consumption)
        return cls(available, members, any(value.sign < 0 for value in available.values()))


def counted(pool: Pool, state: AllocatedState, features: Features) -> list[Device]:
    """The devices in use of a pool, whose counters are taken."""
    # The stable implementation is not told about shares.
    in_use = state.devices if features.stable else state.devices | state.shared_devices
    return [device for device in pool.all_devices() if device.id in in_use]


class PoolCounters:
    """Counters and groups of one pool during one search."""

    def __init__(self, baseline: Baseline, groups: bool) -> None:
        """`groups`: compatibility groups count."""
        self._baseline = baseline
        self._groups = groups
        self._taken: dict[_Counter, Quantity] = {}
        self._members = dict(baseline.members)
        self._undo: list[tuple[dict[_Counter, Quantity], dict[str, Members | None]]] = []

    def take(self, device: Device) -> bool:
        """Take what the device consumes; nothing changes when that is not possible."""
        members = self._admitted(device) if self._groups else {}
        if members is None or self._baseline.overdrawn:
            return False
        taken: dict[_Counter, Quantity] = {}
        for consumption in device.consumes:
            for counter, amount in consumption.counters.items():
                key = (consumption.counter_set, counter)
                taken[key] = taken.get(key, self._taken.get(key, _ZERO)) + amount
        # Counters that the device does not touch were checked when they were taken.
        if any(self._baseline.available[key] < amount for key, amount in taken.items()):
            return False
        self._undo.append(
            (
                {key: self._taken.get(key, _ZERO) for key in taken},
                {name: self._members.get(name) for name in members},
            )
        )
        self._taken.update(taken)
        self._members.update(members)
        return True

    def give_back(self) -> None:
        """Undo the last `take` that succeeded."""
        taken, members = self._undo.pop()
        self._taken.update(taken)
        for name, before in members.items():
            if before is None:
                del self._members[name]
            else:
                self._members[name] = before

    @property
    def used(self) -> bool:
        """Whether something is taken."""
        return bool(self._undo)

    def state(self) -> Hashable:
        """Equal states of the same pool admit the same devices."""
        taken = frozenset(entry for entry in self._taken.items() if not entry[1].is_zero())
        return taken, frozenset(self._members.items())

    def _admitted(self, device: Device) -> dict[str, Members] | None:
        """The members of the touched counter sets with the device, None if one does not admit it."""
        changed: dict[str, Members] = {}
        for consumption in device.consumes:
            name = consumption.counter_set
            current = changed.get(name) or self._members.get(name)
            if current is not None and not current.admits(consumption.groups):
                return None
            changed[name] = current.joined_by(consumption.groups) if current else _first(consumption)
        return changed


def _join(members: dict[str, Members], consumption: CounterConsumption) -> None:
    current = members.get(consumption.counter_set)
    members[consumption.counter_set] = (
        _first(consumption) if current is None else current.joined_by(consumption.groups)
    )


def _first(consumption: CounterConsumption) -> Members:
    return Members(consumption.groups or None)
