"""Errors of an API server as Status objects (api-machinery section 12); the API proxy injects them too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dra_api.errors import FieldError, aggregate


class ApiError(Exception):
    """A request that failed: carries the HTTP code and everything a Status needs."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = dict(headers or {})
        self.metadata: dict[str, Any] = {}
        """ListMeta of the Status; only an expired list uses it, for a token to go on with."""

    def status(self) -> dict[str, Any]:
        """The Status object, in the key order of a real server."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = dict(self.details)
        body["code"] = self.code
        return body


def qualified(resource: str, group: str) -> str:
    """`pods` or `resourceslices.resource.k8s.io`."""
    return f"{resource}.{group}" if group else resource


def _details(resource: str, group: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def bad_request(message: str) -> ApiError:
    """400 BadRequest, no details."""
    return ApiError(400, "BadRequest", message)


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404 for an object."""
    return ApiError(
        404, "NotFound", f'{qualified(resource, group)} "{name}" not found', _details(resource, group, name)
    )


def forbidden(resource: str, group: str, name: str, why: str) -> ApiError:
    """403; `why` is the text after `is forbidden: `."""
    subject = qualified(resource, group) + (f' "{name}"' if name else "")
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(resource, group, name))


def conflict(resource: str, group: str, name: str, why: str) -> ApiError:
    """409 Conflict; `why` is the text after the object's name."""
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {why}',
        _details(resource, group, name),
    )


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422 with one cause per field error; details name the Kind, not the resource."""
    details = _details(kind, group, name)
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in errors
    ]
    return ApiError(
        422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {aggregate(errors)}', details
    )
