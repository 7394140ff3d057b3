"""How a patch fails (api-machinery section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusters.api_status import ApiError


class PatchError(ApiError):
    """A patch that cannot be applied; carries the Status of the answer."""


def bad_patch(message: str) -> PatchError:
    """400: the patch itself is malformed."""
    return PatchError(400, "BadRequest", message)


def rejected() -> PatchError:
    """422: a well-formed patch that does not fit the object; a real server does not say why."""
    message = "the server rejected our request due to an error in our request"
    return PatchError(422, "Invalid", message, {})


def failed(message: str) -> PatchError:
    """500 without a reason: what a real server answers where it foresaw no class of error."""
    return PatchError(500, "", message)


def too_many_operations(limit: int, count: int) -> PatchError:
    """413 for a JSON patch of more than `limit` operations."""
    message = f"The allowed maximum operations in a JSON patch is {limit}, got {count}"
    return PatchError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def apply_conflict(causes: Sequence[dict[str, Any]], message: str) -> PatchError:
    """409 with one cause per field that another manager owns."""
    return PatchError(409, "Conflict", message, {"causes": list(causes)})
