"""Devices as selectors see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..quantity import Quantity
from .errors import CelRuntimeError, EvalError
from .values import CelMap, DomainMap
from .versions import version

_LISTS = (("ints", False), ("bools", False), ("strings", False), ("versions", True))
_SCALARS = (("int", False), ("bool", False), ("string", False), ("version", True))


@dataclass(frozen=True)
class DeviceInput:
    """One device.

    `attributes` maps names (`NAME` or `DOMAIN/NAME`; names alone belong to the driver's domain) to
    DeviceAttributes of the API (`{"int": 1}`, `{"versions": ["1.0.0"]}`), `capacity` to DeviceCapacities
    (`{"value": "10Gi"}`).
    """

    driver: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    allow_multiple_allocations: bool | None = None

    @cached_property
    def value(self) -> CelMap:
        """The value of the variable `device`. Raises CelRuntimeError for an attribute without a usable value."""
        attributes: dict[str, CelMap] = {}
        for name, attribute in self.attributes.items():
            domain, _, id = name.partition("/") if "/" in name else (self.driver, "", name)
            try:
                value = _value(attribute)
            except EvalError as error:
                raise CelRuntimeError(f"attribute {name}: {error}") from None
            attributes.setdefault(domain, CelMap()).data[id] = value
        capacity: dict[str, CelMap] = {}
        for name, entry in self.capacity.items():
            domain, _, id = name.partition("/") if "/" in name else (self.driver, "", name)
            found = entry.get("value", "0")
            quantity = found if isinstance(found, Quantity) else Quantity.parse(str(found))
            capacity.setdefault(domain, CelMap()).data[id] = quantity
        return CelMap(
            {
                "driver": self.driver,
                "allowMultipleAllocations": bool(self.allow_multiple_allocations),
                "attributes": DomainMap(attributes),
                "capacity": DomainMap(capacity),
            }
        )


def _value(attribute: Mapping[str, Any]) -> Any:
    for name, versions in _LISTS:
        values = attribute.get(name)
        if values is not None:
            return [_version(each) for each in values] if versions else list(values)
    for name, is_version in _SCALARS:
        value = attribute.get(name)
        if value is not None:
            return _version(value) if is_version else value
    raise EvalError("unsupported attribute value")


def _version(text: str) -> Any:
    try:
        return version(text)
    except EvalError as error:
        raise EvalError(f"parse semantic version: {error}") from None
