"""Devices as selectors see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..quantity import Quantity
from .errors import CelRuntimeError, EvalError
from .values import CelMap, DomainMap, StringList
from .versions import version

_LISTS = (("ints", False), ("bools", False), ("strings", False), ("versions", True))
_PLAIN = frozenset(("int", "bool", "string"))
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

    @property
    def value(self) -> CelMap:
        """The value of the variable `device`. Raises CelRuntimeError for an attribute without a usable value."""
        # Not a cached_property: the lock of that takes longer than some evaluations.
        known: CelMap | None = self.__dict__.get("_value")
        if known is None:
            known = self.__dict__["_value"] = self._bound()
        return known

    def _bound(self) -> CelMap:
        driver = self.driver
        attributes: dict[str, CelMap] = {}
        own: dict[Any, Any] = {}
        for name, attribute in self.attributes.items():
            kind, value = "", None
            if len(attribute) == 1:
                for kind, value in attribute.items():  # noqa: B007 - the fastest way to the only entry
                    break
            if kind not in _PLAIN or value is None:
                try:
                    value = _value(attribute)
                except EvalError as error:
                    raise CelRuntimeError(f"attribute {name}: {error}") from None
            if own and "/" not in name:
                own[name] = value
                continue
            domain, _, id = name.partition("/") if "/" in name else (driver, "", name)
            if domain in attributes:
                attributes[domain].data[id] = value
            else:
                attributes[domain] = CelMap({id: value})
                own = attributes[domain].data if domain == driver else own
        capacity: dict[str, CelMap] = {}
        for name, entry in self.capacity.items():
            domain, _, id = name.partition("/") if "/" in name else (driver, "", name)
            amount = _amount(entry.get("value", "0"))
            if domain in capacity:
                capacity[domain].data[id] = amount
            else:
                capacity[domain] = CelMap({id: amount})
        return CelMap(
            {
                "driver": driver,
                "allowMultipleAllocations": bool(self.allow_multiple_allocations),
                "attributes": DomainMap(attributes),
                "capacity": DomainMap(capacity),
            }
        )


def _amount(value: Any) -> Quantity:
    return value if isinstance(value, Quantity) else _quantity(str(value))


@lru_cache(maxsize=4096)
def _quantity(text: str) -> Quantity:
    return Quantity.parse(text)


def _value(attribute: Mapping[str, Any]) -> Any:
    if len(attribute) == 1 and attribute.get("version") is not None:
        return _version(attribute["version"])
    for name, versions in _LISTS:
        values = attribute.get(name)
        if values is not None:
            if versions:
                return [_version(each) for each in values]
            return StringList(values) if name == "strings" else list(values)
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
