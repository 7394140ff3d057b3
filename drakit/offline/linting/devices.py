"""The devices of the slices among manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra_api.cel import CelRuntimeError, CompileError, DeviceInput, Program, compile_selector
from drakit.offline.linting.reading import Manifest


@dataclass(frozen=True, eq=False)
class Device:
    """One device, the slice that publishes it, and its path there."""

    manifest: Manifest
    path: str
    driver: str
    spec: Mapping[str, Any]
    input: DeviceInput

    @property
    def name(self) -> str:
        """`driver/pool/device`."""
        pool = self.manifest.canonical["spec"]["pool"]["name"] if self.manifest.canonical else ""
        return f"{self.driver}/{pool}/{self.spec['name']}"

    def attribute(self, domain: str, name: str) -> Mapping[str, Any] | None:
        """An attribute as selectors find it."""
        attributes: Mapping[str, Mapping[str, Any]] = self.spec.get("attributes") or {}
        found = attributes.get(f"{domain}/{name}")
        return attributes.get(name) if found is None and domain == self.driver else found


class Devices(Sequence[Device]):
    """All devices."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self._all = list(devices)

    @classmethod
    def of(cls, manifests: Iterable[Manifest]) -> Devices:
        """Those of the slices among manifests."""
        return cls(_devices(manifests))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: Any) -> Any:
        return self._all[index]

    @property
    def drivers(self) -> list[str]:
        """The drivers that publish them."""
        return sorted({device.driver for device in self._all})

    def matching(self, *owners: Mapping[str, Any]) -> Iterator[Device]:
        """The devices that all selectors of the owners admit; one for which a selector fails is not."""
        expressions = [
            (selector.get("cel") or {}).get("expression") or ""
            for owner in owners
            for selector in owner.get("selectors") or ()
        ]
        for device in self._all:
            if all(_matches(expression, device.input) for expression in expressions):
                yield device


def program(expression: str) -> Program | None:
    """The compiled expression; None for one that does not compile."""
    try:
        return _compiled(expression)
    except CompileError:
        return None


@lru_cache(maxsize=1000)
def _compiled(expression: str) -> Program:
    return compile_selector(expression)


def _matches(expression: str, device: DeviceInput) -> bool:
    compiled = program(expression)
    try:
        return compiled is not None and compiled.matches(device)
    except CelRuntimeError:
        return False


def _devices(manifests: Iterable[Manifest]) -> Iterator[Device]:
    for manifest in manifests:
        if manifest.kind != "ResourceSlice" or manifest.canonical is None:
            continue
        spec = manifest.canonical.get("spec") or {}
        driver = spec.get("driver") or ""
        for index, entry in enumerate(spec.get("devices") or ()):
            given = DeviceInput(
                driver,
                entry.get("attributes") or {},
                entry.get("capacity") or {},
                entry.get("allowMultipleAllocations"),
            )
            yield Device(manifest, f"spec.devices[{index}]", driver, entry, given)
