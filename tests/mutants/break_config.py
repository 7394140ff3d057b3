"""Mutants of opaque configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.profiles import gpu_config
from driver.profiles.gpu import GpuProfile
from driver.sdk import preparer
from driver.sdk.allocation import OpaqueConfig
from driver.sdk.errors import ConfigError
from tests.mutants.registry import mutant

_DEFAULT = {"apiVersion": "gpu.drakit.dev/v1alpha1", "kind": "GpuConfig"}
PARSE = GpuProfile.parse_config


def _patch(parse: Any) -> None:
    GpuProfile.parse_config = parse  # type: ignore[method-assign]


@mutant("refuses-config")
def refuses_config() -> None:
    """No configuration is good enough."""

    def parse(self: GpuProfile, parameters: Mapping[str, Any]) -> Any:
        raise ConfigError("not supported")

    _patch(parse)


@mutant("lenient-config")
def lenient_config() -> None:
    """What it does not understand in a configuration it leaves out."""

    def parse(self: GpuProfile, parameters: Mapping[str, Any]) -> Any:
        try:
            return PARSE(self, parameters)
        except ConfigError:
            return gpu_config.parse(_DEFAULT)

    _patch(parse)


@mutant("nameless-config-error")
def nameless_config_error() -> None:
    """A wrong configuration is refused without a word about what is wrong."""

    def parse(self: GpuProfile, parameters: Mapping[str, Any]) -> Any:
        try:
            return PARSE(self, parameters)
        except ConfigError:
            raise ConfigError("invalid configuration") from None

    _patch(parse)


@mutant("any-kind")
def any_kind() -> None:
    """The kind of a configuration is not looked at."""
    _patch(lambda self, parameters: PARSE(self, {**parameters, **_DEFAULT}))


@mutant("reads-foreign-config")
def reads_foreign_config() -> None:
    """Configurations of other drivers are read as its own."""
    real = preparer.configs_for

    def configs(found: Mapping[str, Any], driver: str) -> Any:
        entries = [
            {**entry, "opaque": {**(entry.get("opaque") or {}), "driver": driver}}
            for entry in found["devices"].get("config") or []
        ]
        return real({"devices": {**found["devices"], "config": entries}}, driver)

    preparer.configs_for = configs


@mutant("unscoped-config")
def unscoped_config() -> None:
    """Every configuration is taken for every request."""
    OpaqueConfig.applies_to = lambda self, request: True  # type: ignore[method-assign]


@mutant("exact-config-scope")
def exact_config_scope() -> None:
    """A configuration for a request does not reach the sub-request that was chosen."""
    OpaqueConfig.applies_to = lambda self, request: not self.requests or request in self.requests  # type: ignore[method-assign]


@mutant("checks-config-only")
def checks_config_only() -> None:
    """Parameters are checked and then have no effect on containers."""
    real = GpuProfile.edits

    def edits(self: GpuProfile, address: str, name: str, settings: Any) -> dict[str, Any]:
        return real(self, address, name, None)

    GpuProfile.edits = edits  # type: ignore[method-assign]


@mutant("one-device-for-all")
def one_device_for_all() -> None:
    """Every container gets the first device, whatever was allocated."""
    real = GpuProfile.edits

    def edits(self: GpuProfile, address: str, name: str, settings: Any) -> dict[str, Any]:
        first = self.scan()[0]
        return real(self, first.address, "gpu-0", settings)

    GpuProfile.edits = edits  # type: ignore[method-assign]
