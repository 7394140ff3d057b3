"""Objects with the names of a server's internal Go fields, which some errors print (types of pkg/apis/resource)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_Form = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    return value


def _struct(fields: Mapping[str, tuple[str, _Form]], zero: Mapping[str, Any] | None = None) -> _Form:
    def form(value: Mapping[str, Any]) -> dict[str, Any]:
        shown = {}
        for name, (key, inner) in fields.items():
            given = value.get(key)
            shown[name] = (zero or {}).get(name) if given is None else inner(given)
        return shown

    return form


def _list(item: _Form) -> _Form:
    return lambda values: [item(value) for value in values]


_SELECTOR: Final = _struct({"CEL": ("cel", _struct({"Expression": ("expression", _plain)}))})
_TOLERATION: Final = _struct(
    {
        "Key": ("key", _plain),
        "Operator": ("operator", _plain),
        "Value": ("value", _plain),
        "Effect": ("effect", _plain),
        "TolerationSeconds": ("tolerationSeconds", _plain),
    },
    {"Key": "", "Operator": "", "Value": "", "Effect": ""},
)
_DERIVED: Final = _struct({"Name": ("name", _plain), "Expression": ("expression", _plain)})
_CHOICE: Final[dict[str, tuple[str, _Form]]] = {
    "DeviceClassName": ("deviceClassName", _plain),
    "Selectors": ("selectors", _list(_SELECTOR)),
    "AllocationMode": ("allocationMode", _plain),
    "Count": ("count", _plain),
}
_REST: Final[dict[str, tuple[str, _Form]]] = {
    "Tolerations": ("tolerations", _list(_TOLERATION)),
    "Capacity": ("capacity", _struct({"Requests": ("requests", dict)})),
    "DerivedAttributes": ("derivedAttributes", _list(_DERIVED)),
}
_ZERO: Final = {"Name": "", "DeviceClassName": "", "AllocationMode": "", "Count": 0}
_EXACT: Final = _struct({**_CHOICE, "AdminAccess": ("adminAccess", _plain), **_REST}, _ZERO)
_SUB_REQUEST: Final = _struct({"Name": ("name", _plain), **_CHOICE, **_REST}, _ZERO)
_REQUEST: Final = _struct(
    {
        "Name": ("name", _plain),
        "Exactly": ("exactly", _EXACT),
        "FirstAvailable": ("firstAvailable", _list(_SUB_REQUEST)),
    },
    {"Name": ""},
)
_CONSTRAINT: Final = _struct(
    {
        "Requests": ("requests", _list(_plain)),
        "MatchAttribute": ("matchAttribute", _plain),
        "DistinctAttribute": ("distinctAttribute", _plain),
    }
)
_OPAQUE: Final = _struct({"Driver": ("driver", _plain), "Parameters": ("parameters", _plain)}, {"Driver": ""})
_CONFIG: Final = _struct({"Requests": ("requests", _list(_plain)), "Opaque": ("opaque", _OPAQUE)})
_DEVICES: Final = _struct(
    {
        "Requests": ("requests", _list(_REQUEST)),
        "Constraints": ("constraints", _list(_CONSTRAINT)),
        "Config": ("config", _list(_CONFIG)),
    }
)

_POOL_STATUS: Final = _struct(
    {
        "Driver": ("driver", _plain),
        "PoolName": ("poolName", _plain),
        "Generation": ("generation", _plain),
        "ResourceSliceCount": ("resourceSliceCount", _plain),
        "TotalDevices": ("totalDevices", _plain),
        "AllocatedDevices": ("allocatedDevices", _plain),
        "AvailableDevices": ("availableDevices", _plain),
        "UnavailableDevices": ("unavailableDevices", _plain),
        "NodeName": ("nodeName", _plain),
        "ValidationError": ("validationError", _plain),
        "PartitionSummary": (
            "partitionSummary",
            _list(
                _struct(
                    {
                        "Attribute": ("attribute", _plain),
                        "Type": ("type", _plain),
                        "Total": ("total", _plain),
                        "Allocatable": ("allocatable", _plain),
                    },
                    {"Attribute": "", "Type": ""},
                )
            ),
        ),
        "ShareableSummary": (
            "shareableSummary",
            _struct(
                {
                    "FullyAvailableDevices": ("fullyAvailableDevices", _plain),
                    "PartiallyAvailableDevices": ("partiallyAvailableDevices", _plain),
                    "Capacity": (
                        "capacity",
                        _list(
                            _struct(
                                {
                                    "Name": ("name", _plain),
                                    "Total": ("total", _plain),
                                    "Consumed": ("consumed", _plain),
                                    "Available": ("available", _plain),
                                },
                                {"Name": ""},
                            )
                        ),
                    ),
                }
            ),
        ),
    },
    {"Driver": "", "PoolName": "", "Generation": 0},
)
_POOLS_STATUS: Final = _struct(
    {
        "PoolCount": ("poolCount", _plain),
        "Pools": ("pools", _list(_POOL_STATUS)),
        # Conditions are of a type that has names for JSON.
        "Conditions": ("conditions", _list(dict)),
    }
)


def pools_status(status: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The status of a ResourcePoolStatusRequest."""
    return None if status is None else _POOLS_STATUS(status)


def claim_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a claim."""
    return {"Devices": _DEVICES(spec.get("devices") or {})}


def template_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a template: its metadata stands beside the spec of its claims."""
    metadata = {key: value for key, value in (spec.get("metadata") or {}).items() if value or value == 0}
    return {**metadata, "Spec": claim_spec(spec.get("spec") or {})}
