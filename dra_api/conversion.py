"""Conversion of resource.k8s.io objects between API versions, without loss.

v1 and v1beta2 have one shape. v1beta1 has the fields of `exactly` directly in the request and wraps a
device's fields in `basic`. DeviceTaintRule is the same in v1, v1beta2 and v1alpha3. Source: kubernetes
v1.37.2 `pkg/apis/resource/v1beta1`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any, Final

GROUP: Final = "resource.k8s.io"
_FOUR: Final = ("v1", "v1beta2", "v1beta1")
VERSIONS: Final[dict[str, tuple[str, ...]]] = {
    "DeviceClass": _FOUR,
    "ResourceClaim": _FOUR,
    "ResourceClaimTemplate": _FOUR,
    "ResourceSlice": _FOUR,
    "DeviceTaintRule": ("v1", "v1beta2", "v1alpha3"),
    "ResourcePoolStatusRequest": ("v1alpha3",),
}
"""Kind -> versions of the group that have it in 1.37."""

EXACT_FIELDS: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
_DEVICE_FIELDS: Final = (
    "attributes",
    "capacity",
    "consumesCounters",
    "nodeName",
    "nodeSelector",
    "allNodes",
    "taints",
    "bindsToNode",
    "bindingConditions",
    "bindingFailureConditions",
    "allowMultipleAllocations",
    "nodeAllocatableResources",
)


class ConversionError(ValueError):
    """The object is of a kind that the version does not have."""


def convert(obj: dict[str, Any], to_api_version: str) -> dict[str, Any]:
    """The object, or each item of a list, in another version of resource.k8s.io.

    The argument is not changed. An object that already has the version is returned itself, not a copy.
    Raises ConversionError when the kind or one of the versions is unknown.
    """
    kind = str(obj.get("kind", ""))
    source = _version(kind, str(obj.get("apiVersion", "")))
    target = _version(kind, to_api_version)
    if source == target:
        return obj
    result = copy.deepcopy(obj)
    item_kind = kind.removesuffix("List")
    for each in (result.get("items") or []) if kind.endswith("List") else [result]:
        _change(each, item_kind, source, target)
        if "apiVersion" in each:
            each["apiVersion"] = to_api_version
    result["apiVersion"] = to_api_version
    return result


def wrong_nesting(api_version: str, kind: str, path: str) -> str | None:
    """Why a field is unknown when it is only nested as in another version, else None.

    `path` is the path of the unknown field, such as `spec.devices.requests[0].deviceClassName`. The answer
    reads `unknown field deviceClassName; in v1 it is exactly.deviceClassName`.
    """
    version = api_version.rpartition("/")[2]
    if api_version.rpartition("/")[0] != GROUP:
        return None
    parent, _, field = path.rpartition(".")
    if kind in ("ResourceClaim", "ResourceClaimTemplate") and re.search(r"devices\.requests\[\d+\]$", parent):
        if version == "v1beta1" and field == "exactly":
            return f"unknown field exactly; in {version} its fields stand in the request itself"
        if version != "v1beta1" and field in EXACT_FIELDS:
            return f"unknown field {field}; in {version} it is exactly.{field}"
    if kind == "ResourceSlice" and re.search(r"^spec\.devices\[\d+\]$", parent):
        if version == "v1beta1" and field in _DEVICE_FIELDS:
            return f"unknown field {field}; in {version} it is basic.{field}"
        if version != "v1beta1" and field == "basic":
            return f"unknown field basic; in {version} its fields stand in the device itself"
    return None


def _version(kind: str, api_version: str) -> str:
    group, _, version = api_version.rpartition("/")
    versions = VERSIONS.get(kind.removesuffix("List"), ())
    if group != GROUP or version not in versions:
        allowed = ", ".join(f"{GROUP}/{each}" for each in versions)
        advice = f"it exists in {allowed}" if allowed else f"known kinds are {', '.join(VERSIONS)}"
        raise ConversionError(f'no kind "{kind}" in {api_version or "an empty apiVersion"}: {advice}')
    return version


def _change(obj: dict[str, Any], kind: str, source: str, target: str) -> None:
    old, new = source == "v1beta1", target == "v1beta1"
    if old == new:
        return
    spec = obj.get("spec") or {}
    if kind == "ResourceClaimTemplate":
        spec = spec.get("spec") or {}
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        for request in (spec.get("devices") or {}).get("requests") or []:
            flatten_request(request) if new else _nest_request(request)
    elif kind == "ResourceSlice":
        # In v1beta1 an empty node name and a false allNodes mean unset; v1 refuses both.
        for field in ("nodeName", "allNodes"):
            if not spec.get(field):
                spec.pop(field, None)
        for device in spec.get("devices") or []:
            _wrap_device(device) if new else _unwrap_device(device)


def _nest_request(request: dict[str, Any]) -> None:
    flat = _take(request, EXACT_FIELDS)
    if any(value not in (None, "", 0) or value is False for value in flat.values()):
        if not flat.get("tolerations"):
            # Alone among these lists, an empty one is taken for none.
            flat.pop("tolerations", None)
        first_available = _take(request, ("firstAvailable",))
        request["exactly"] = {"deviceClassName": "", **flat}
        request.update(first_available)


def flatten_request(request: dict[str, Any]) -> None:
    """Give one request of a claim the shape of v1beta1, in place."""
    alternatives = _take(request, ("firstAvailable",))
    flat = {"deviceClassName": "", **(request.pop("exactly", None) or {})}
    # In v1beta1 firstAvailable stands after the fields that existed before it.
    request.update(_take(flat, EXACT_FIELDS[:5]))
    request.update(alternatives)
    request.update(flat)


def _wrap_device(device: dict[str, Any]) -> None:
    device["basic"] = _take(device, [field for field in device if field != "name"])


def _unwrap_device(device: dict[str, Any]) -> None:
    device.update(device.pop("basic", None) or {})


def _take(source: dict[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: source.pop(field) for field in tuple(fields) if field in source}
