"""Admin access to devices is for marked namespaces only (api-validation sections 3.1 and 3.3)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object, Reader
from dra_api.errors import FieldError

NAMESPACE_LABEL: Final = "resource.kubernetes.io/admin-access"
_REFUSAL: Final = (
    f"admin access to devices requires the `{NAMESPACE_LABEL}: true` label on the containing namespace"
)


def request_errors(obj: Object, devices: dict[str, Any], reader: Reader) -> list[FieldError]:
    """The first request of a claim or template that asks for admin access where it may not."""
    for index, request in enumerate(devices.get("requests") or []):
        if (request.get("exactly") or {}).get("adminAccess"):
            # The path is that of a claim, without `exactly`, for templates too.
            return _check(obj, f"spec.devices.requests[{index}].adminAccess", reader)
    return []


def status_errors(new: Object, old: Object, reader: Reader) -> list[FieldError]:
    """The first result of a new allocation that grants admin access where it may not."""
    if _granted(old) is not None:
        return []
    index = _granted(new)
    if index is None:
        return []
    return _check(new, f"status.allocation.devices.results[{index}].adminAccess", reader)


def _granted(claim: Object) -> int | None:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return next((index for index, result in enumerate(results) if result.get("adminAccess")), None)


def _check(obj: Object, path: str, reader: Reader) -> list[FieldError]:
    namespace = reader.get("", "namespaces", "", obj["metadata"].get("namespace", ""))
    labels = (namespace or {}).get("metadata", {}).get("labels") or {}
    return [] if labels.get(NAMESPACE_LABEL) == "true" else [FieldError("Forbidden", path, _REFUSAL)]
