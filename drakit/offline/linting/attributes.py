"""Attributes of devices: types that differ, or that change when a driver is upgraded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drakit.offline.linting.devices import Device, Devices
from drakit.offline.linting.model import Finding
from drakit.offline.linting.reading import Manifest

_Types = dict[tuple[str, str], dict[str, Device]]
"""(driver, qualified name) -> type -> the first device with it."""


def attribute_findings(manifests: Sequence[Manifest], old: Sequence[Manifest]) -> Iterator[Finding]:
    """Compare the devices with each other, and with those of the manifests that are replaced."""
    new_types = _types(Devices.of(manifests))
    for (driver, name), types in new_types.items():
        if len(types) > 1:
            (first, one), (second, other), *_ = types.items()
            yield other.manifest.finding(
                "attribute-mixed",
                _path(other, name),
                f"attribute {name} of {driver} has type {second} here and {first} on device {one.name}",
                "publish it with one type, for selectors can only compare one",
            )
    drivers = {driver for driver, _ in new_types}
    for (driver, name), types in _types(Devices.of(old)).items():
        now = new_types.get((driver, name))
        before, device = next(iter(types.items()))
        if now is None:
            if driver in drivers:
                yield device.manifest.finding(
                    "attribute-changed",
                    _path(device, name),
                    f"attribute {name} of {driver} (of type {before}) is not published any more",
                    "selectors that look it up fail; go on publishing it",
                )
        elif before not in now:
            after, changed = next(iter(now.items()))
            yield changed.manifest.finding(
                "attribute-changed",
                _path(changed, name),
                f"attribute {name} of {driver} changes its type from {before} to {after}: == in selectors of"
                " users is false from now on",
                "go on publishing the old type, and the new one under another name",
            )


def _types(devices: Devices) -> _Types:
    result: _Types = {}
    for device in devices:
        for name, value in (device.spec.get("attributes") or {}).items():
            qualified = name if "/" in name else f"{device.driver}/{name}"
            kind = next(iter(value), "")
            if kind:
                result.setdefault((device.driver, qualified), {}).setdefault(kind, device)
    return result


def _path(device: Device, qualified: str) -> str:
    bare = qualified.removeprefix(f"{device.driver}/")
    names = device.spec.get("attributes") or {}
    return f"{device.path}.attributes.{qualified if qualified in names else bare}"
