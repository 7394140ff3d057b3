"""Defaults of resource.k8s.io kinds, in every version (api-validation section 2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

POOL_STATUS_LIMIT: Final = 100

_AFTER_COUNT: Final = ("adminAccess", "firstAvailable", "tolerations", "capacity", "derivedAttributes")
_AFTER_OPERATOR: Final = ("value", "effect", "tolerationSeconds")


def apply_defaults(obj: dict[str, Any], now: datetime | None = None) -> None:
    """Fill in defaults, in place.

    The object must be in the version in which the client sent it: v1beta1 defaults a request only when it
    names a device class. `now` becomes the time of taints without one (whole seconds); without it such
    taints stay as they are, which suits files that are read without a cluster. Objects of other groups are
    left alone.
    """
    if not str(obj.get("apiVersion", "")).startswith("resource.k8s.io/"):
        return
    defaulter = _DEFAULTERS.get(str(obj.get("kind", "")))
    if defaulter is not None:
        defaulter(obj, now)


def _claim(obj: dict[str, Any], now: datetime | None) -> None:
    _claim_spec(obj.get("spec") or {}, obj["apiVersion"].endswith("/v1beta1"))
    allocation = (obj.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or []:
        _tolerations(result)


def _template(obj: dict[str, Any], now: datetime | None) -> None:
    _claim_spec((obj.get("spec") or {}).get("spec") or {}, obj["apiVersion"].endswith("/v1beta1"))


def _slice(obj: dict[str, Any], now: datetime | None) -> None:
    for device in (obj.get("spec") or {}).get("devices") or []:
        for taint in device.get("taints") or (device.get("basic") or {}).get("taints") or []:
            _taint(taint, now)


def _taint_rule(obj: dict[str, Any], now: datetime | None) -> None:
    spec = obj.get("spec") or {}
    if "taint" in spec:
        _taint(spec["taint"], now)


def _pool_status_request(obj: dict[str, Any], now: datetime | None) -> None:
    obj.setdefault("spec", {}).setdefault("limit", POOL_STATUS_LIMIT)


def _claim_spec(spec: dict[str, Any], flat: bool) -> None:
    for request in (spec.get("devices") or {}).get("requests") or []:
        for sub_request in request.get("firstAvailable") or []:
            _request(sub_request)
        if not flat:
            if request.get("exactly") is not None:
                _request(request["exactly"])
        elif request.get("deviceClassName"):
            _request(request)
        else:
            _tolerations(request)


def _request(request: dict[str, Any]) -> None:
    if not request.get("allocationMode"):
        request["allocationMode"] = "ExactCount"
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1
    _to_the_end(request, _AFTER_COUNT)
    _tolerations(request)


def _tolerations(holder: dict[str, Any]) -> None:
    for toleration in holder.get("tolerations") or []:
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"
            _to_the_end(toleration, _AFTER_OPERATOR)


def _to_the_end(holder: dict[str, Any], fields: tuple[str, ...]) -> None:
    """Restore the order of the API type, in which servers print fields."""
    for field in fields:
        if field in holder:
            holder[field] = holder.pop(field)


def _taint(taint: dict[str, Any], now: datetime | None) -> None:
    if now is not None and not taint.get("timeAdded"):
        taint["timeAdded"] = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_DEFAULTERS: Final[dict[str, Callable[[dict[str, Any], datetime | None], None]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "ResourceSlice": _slice,
    "DeviceTaintRule": _taint_rule,
    "ResourcePoolStatusRequest": _pool_status_request,
}
