"""Pools of devices, put together from slices."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusters.doctor.cluster.snapshot import Object, Snapshot


@dataclass(frozen=True)
class Pool:
    """The slices of a driver's pool: those of its highest generation, and those that are older."""

    driver: str
    name: str
    generation: int
    current: Sequence[Object]
    older: Sequence[Object]

    @property
    def label(self) -> str:
        """For messages."""
        return f"pool {self.name} of {self.driver}"

    @property
    def wanted(self) -> int:
        """How many slices it says that it has."""
        return int(self.current[0]["spec"]["pool"].get("resourceSliceCount", 0))

    @property
    def devices(self) -> list[str]:
        """The names of its devices."""
        return [str(device["name"]) for item in self.current for device in item["spec"].get("devices") or []]


def device_content(device: Object) -> Object:
    """What a device says of itself; in v1beta1 it is one level deeper."""
    found: Object = device.get("basic") or device
    return found


def local_slices(snapshot: Snapshot) -> Iterator[Object]:
    """Current slices of single nodes."""
    for pool in pools(snapshot):
        yield from (item for item in pool.current if item["spec"].get("nodeName"))


def pools(snapshot: Snapshot) -> list[Pool]:
    """Every pool, by driver and name."""
    groups: dict[tuple[str, str], list[Object]] = collections.defaultdict(list)
    for item in snapshot.list("resourceslices"):
        spec = item["spec"]
        groups[str(spec["driver"]), str(spec["pool"]["name"])].append(item)
    result = []
    for (driver, name), items in sorted(groups.items()):
        newest = max(_generation(item) for item in items)
        current = [item for item in items if _generation(item) == newest]
        older = [item for item in items if _generation(item) < newest]
        result.append(Pool(driver, name, newest, current, older))
    return result


def _generation(item: Object) -> int:
    return int(item["spec"]["pool"].get("generation", 0))
