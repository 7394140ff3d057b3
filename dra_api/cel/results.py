"""Results as selectors and derived attributes need them, with upstream's texts for those that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..quantity import Quantity
from ..semver import Semver
from .device import DeviceInput
from .errors import CelRuntimeError
from .types import ANY, BOOL, DYN, INT, STRING, Kind, Type
from .values import (
    EMPTY_MAP,
    MISSING,
    SEMVER,
    CelMap,
    ComputedQuantity,
    DomainMap,
    Duration,
    JoinedList,
    OptionalValue,
    StringList,
    Timestamp,
    UInt,
    type_name,
)

_NO_BOOL: Final = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "string": "unsupported native conversion from string to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "optional_type": "optional.none() dereference",
}
_SHORT_NAMES: Final = {
    "google.protobuf.Duration": "Duration",
    "google.protobuf.Timestamp": "Timestamp",
    "kubernetes.Quantity": "Quantity",
    "kubernetes.Semver": "Semver",
    "kubernetes.URL": "URL",
    "kubernetes.NamedFormat": "Format",
    "net.IP": "IP",
    "net.CIDR": "CIDR",
}
_NATIVE: Final[dict[type, str]] = {
    bool: "bool",
    int: "int64",
    str: "string",
    Semver: "semver.Version",
    UInt: "uint64",
    float: "float64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
    CelMap: "map[ref.Val]ref.Val",
    DomainMap: "map[string]interface {}",
    list: "[]ref.Val",
    StringList: "[]string",
    JoinedList: "[]interface {}",
    Duration: "time.Duration",
    Timestamp: "time.Time",
    Quantity: "*resource.Quantity",
    ComputedQuantity: "*resource.Quantity",
}
_NATIVE_OF_LIBRARIES: Final = {
    "kubernetes.NamedFormat": "cel.Format",
    "kubernetes.URL": "*url.URL",
    "net.CIDR": "netip.Prefix",
    "net.IP": "netip.Addr",
}
_NATIVE_LISTS: Final = {
    "ints": "[]int64",
    "bools": "[]bool",
    "strings": "[]string",
    "versions": "[]cel.Semver",
}
_FIELDS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "version"}
_ELEMENTS: Final[dict[type, str]] = {bool: "bool", int: "int", str: "string", Semver: "semver"}


def as_bool(value: Any) -> bool:
    """The result of a selector. Raises CelRuntimeError when it is no bool."""
    if type(value) is bool:
        return value
    inner = value
    while type(inner) is OptionalValue and inner.value is not MISSING:
        # Upstream converts what is inside, and only the error names the type outside.
        inner = inner.value
    if type(inner) is bool:
        return inner
    name = type_name(inner)
    reason = _NO_BOOL.get(name) or f"type conversion error from '{_SHORT_NAMES.get(name, name)}' to 'bool'"
    raise CelRuntimeError(f"CEL result of type {type_name(value)} could not be converted to bool: {reason}")


def as_attribute(value: Any, device: DeviceInput) -> dict[str, Any]:
    """The result of a derived attribute, as a DeviceAttribute of the API; `device` is what it was derived from.

    Raises CelRuntimeError.
    """
    if isinstance(value, list):
        return _as_list(value, device)
    value = _inner(value)
    field = _FIELDS.get(type(value))
    if field is None:
        raise CelRuntimeError(f"unsupported CEL return type: {_native(value, device)}")
    return {field: _plain(value)}


def _as_list(values: Sequence[Any], device: DeviceInput) -> dict[str, Any]:
    if not values:
        return {"strings": []}
    values = [_inner(value) for value in values]
    kind = type(values[0])
    if kind not in _FIELDS:
        raise CelRuntimeError(f"unsupported list element type: {_native(values[0], device)}")
    for index, value in enumerate(values):
        if type(value) is not kind:
            raise CelRuntimeError(
                f"expected list element at index {index} to be {_ELEMENTS[kind]}, got {_native(value, device)}"
            )
    return {f"{_FIELDS[kind]}s": [_plain(value) for value in values]}


def _inner(value: Any) -> Any:
    """What upstream takes a value for: optionals are what is in them, and types their names."""
    while type(value) is OptionalValue and value.value is not MISSING:
        value = value.value
    return value.name if type(value) is Type else value


def _plain(value: Any) -> Any:
    return str(value) if type(value) is Semver else value


def _native(value: Any, device: DeviceInput) -> str:
    """The name of the Go type in which upstream holds the value."""
    if type(value) is OptionalValue:
        return "<nil>"
    return (
        _native_of_device(value, device)
        or _NATIVE.get(type(value))
        or _NATIVE_OF_LIBRARIES.get(type_name(value), type(value).__name__)
    )


def _native_of_device(value: Any, device: DeviceInput) -> str | None:
    """The same for lists and maps that are parts of the device, which is not made of CEL's values."""
    domains = device.value.data["attributes"].data
    if value is device.value or value is EMPTY_MAP or any(value is entry for entry in domains.values()):
        return "map[string]interface {}"
    if any(value is entry for entry in device.value.data["capacity"].data.values()):
        return "map[string]cel.Quantity"
    for name, attribute in device.attributes.items() if isinstance(value, list) else ():
        domain, _, id = name.partition("/") if "/" in name else (device.driver, "", name)
        if domains[domain].data.get(id) is value:
            return next(native for field, native in _NATIVE_LISTS.items() if attribute.get(field) is not None)
    return None


def selector_type_problem(output: Type, attribute: Type) -> str | None:
    """Why a type is none for a selector."""
    if output.same(BOOL) or output.same(attribute):
        return None
    return f"must evaluate to bool or the unknown type, not {output}"


def derived_type_problem(output: Type, *, lists: bool) -> str | None:
    """Why a type is none for a derived attribute; `lists` whether lists are allowed."""
    element = output.parameters[0] if lists and output.kind is Kind.LIST else output
    if any(element.same(each) for each in (BOOL, INT, STRING, ANY, DYN, SEMVER)):
        return None
    more = " or a list of these scalars" if lists else ""
    return f"must evaluate to a primitive scalar (string, integer, boolean, semver){more}, not {output}"
