"""Whether the devices of a claim are ready to be used, by the conditions that their drivers set (components 2.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allocator import allocation_of
from clusters.clock import parse_stamp
from clusters.embedded.scheduler.framework.events import Object

from .claim_tracker import results_of


class BindingFailedError(Exception):
    """A device reports that it cannot be bound."""


class BindingTimeoutError(Exception):
    """A device did not become ready in time."""


def has_conditions(claim: Object) -> bool:
    """Whether any device of the claim has binding conditions."""
    return any(result.get("bindingConditions") for result in results_of(allocation_of(claim)))


def is_ready(claim: Object) -> bool:
    """Whether every condition of every device holds; looked at in order, up to the first that does not.

    Raises BindingFailedError for a failure condition before that place.
    """
    if allocation_of(claim) is None:
        return False
    for result in results_of(allocation_of(claim)):
        if not result.get("bindingConditions"):
            continue
        status = _device_status(claim, result)
        if status is None:
            return False
        conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            if (failed := conditions.get(name)) and failed["status"] == "True":
                raise BindingFailedError(
                    f"device binding failed: claim={claim['metadata']['name']}, "
                    f'reason={failed.get("reason", "")}, message="{failed.get("message", "")}"'
                )
        if any(conditions.get(name, {}).get("status") != "True" for name in result["bindingConditions"]):
            return False
    return True


def timed_out(claim: Object, now: float, timeout: float) -> bool:
    """Whether the allocation is older than the binding timeout (seconds)."""
    stamp = (allocation_of(claim) or {}).get("allocationTimestamp")
    waits = any(result.get("bindingConditions") is not None for result in results_of(allocation_of(claim)))
    return bool(stamp and waits and parse_stamp(stamp) + timeout < now)


def check(claim: Object, now: float, timeout: float) -> bool:
    """`is_ready`, but raises BindingTimeoutError for a claim that has waited too long."""
    if is_ready(claim):
        return True
    if timed_out(claim, now, timeout):
        raise BindingTimeoutError(f"device binding timeout: claim={claim['metadata']['name']}")
    return False


def _device_status(claim: Object, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for status in (claim.get("status") or {}).get("devices") or ():
        if all(status.get(part) == result[part] for part in ("driver", "pool", "device")):
            found: Mapping[str, Any] = status
            return found
    return None
