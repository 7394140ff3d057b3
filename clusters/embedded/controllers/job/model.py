"""Jobs and their conditions. No input or output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clusters.clock import stamp
from clusters.embedded.components.client import Object
from clusters.embedded.controllers.controller import without_zeros

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a Pod until the Job has counted it."""

CONTROLLER_NAME: Final = "kubernetes.io/job-controller"
COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
_ALWAYS_WRITTEN: Final = ("ready", "terminating", "failedIndexes", "uncountedTerminatedPods")


def condition(kind: str, status: str, reason: str, message: str, now: float) -> Object:
    """A condition that begins now, seconds since the epoch."""
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": stamp(now),
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
    }


def find_condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A condition of the Job, whatever its status."""
    for one in (job.get("status") or {}).get("conditions") or []:
        if one["type"] == kind:
            found: Mapping[str, Any] = one
            return found
    return None


def true_condition(job: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A condition of the Job that is true."""
    found = find_condition(job, kind)
    return found if found is not None and found["status"] == "True" else None


def is_finished(job: Mapping[str, Any]) -> bool:
    """Whether the Job is complete or has failed."""
    return true_condition(job, COMPLETE) is not None or true_condition(job, FAILED) is not None


def set_condition(job: Object, new: Object) -> bool:
    """Take a condition into the Job's status, in place; a missing one that would be false is not added.

    Returns whether something changed.
    """
    known = find_condition(job, new["type"])
    conditions = list(job["status"].get("conditions") or [])
    if known is None:
        if new["status"] == "False":
            return False
        job["status"]["conditions"] = [*conditions, new]
        return True
    if all(known.get(field) == new[field] for field in ("status", "reason", "message")):
        return False
    job["status"]["conditions"] = [new if one["type"] == new["type"] else one for one in conditions]
    return True


def has_tracking(pod: Mapping[str, Any]) -> bool:
    """Whether the Pod waits for being counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or [])


def is_suspended(job: Mapping[str, Any]) -> bool:
    """Whether the Job is to have no Pods for now."""
    return bool(job["spec"].get("suspend"))


def is_foreign(job: Mapping[str, Any]) -> bool:
    """Whether another controller looks after the Job."""
    return job["spec"].get("managedBy") not in (None, CONTROLLER_NAME)


def tidy(status: Mapping[str, Any]) -> Object:
    """A status in the form in which it is stored."""
    result = without_zeros(dict(status), _ALWAYS_WRITTEN)
    uncounted = result.get("uncountedTerminatedPods") or {}
    result["uncountedTerminatedPods"] = {name: uids for name, uids in uncounted.items() if uids}
    return {name: value for name, value in result.items() if value is not None}
