"""The status of a Deployment: numbers and conditions. No input or output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.clock import parse_stamp, stamp
from clusters.embedded.components.client import Object
from clusters.embedded.controllers.controller import without_zeros
from clusters.embedded.controllers.deployment.model import (
    count,
    has_deadline,
    max_unavailable,
    replicas_of,
    wanted,
)

PROGRESSING: Final = "Progressing"
AVAILABLE: Final = "Available"
REPLICA_FAILURE: Final = "ReplicaFailure"
NEW_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
_ALWAYS_WRITTEN: Final = ("terminatingReplicas", "collisionCount")


def condition(kind: str, status: str, reason: str, message: str, now: float) -> Object:
    """A condition that begins now, seconds since the epoch."""
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp(now),
        "lastTransitionTime": stamp(now),
        "reason": reason,
        "message": message,
    }


def find_condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """A condition of a status."""
    for one in status.get("conditions") or []:
        if one["type"] == kind:
            found: Mapping[str, Any] = one
            return found
    return None


def set_condition(status: Object, new: Object) -> None:
    """Take a condition into a status, in place, unless status and reason are as before."""
    known = find_condition(status, new["type"])
    if known is not None and known["status"] == new["status"]:
        if known.get("reason") == new["reason"]:
            return
        new = {**new, "lastTransitionTime": known["lastTransitionTime"]}
    remove_condition(status, new["type"])
    status["conditions"] = [*status["conditions"], new]


def remove_condition(status: Object, kind: str) -> None:
    """Take a condition out of a status, in place."""
    status["conditions"] = [one for one in status.get("conditions") or [] if one["type"] != kind]


def calculate(
    deployment: Mapping[str, Any],
    newest: Object | None,
    sets: Sequence[Object],
    now: float,
    *,
    terminating: bool,
) -> Object:
    """The status by the sets' numbers; of the conditions only Available is looked after.

    `sets` are all sets, `terminating` says whether terminating Pods are reported.
    """
    before = deployment.get("status") or {}
    replicas, available = replicas_of(deployment), count(sets, "availableReplicas")
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": count(sets, "replicas"),
        "updatedReplicas": count([newest] if newest is not None else [], "replicas"),
        "readyReplicas": count(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted(sets) - available, 0),
        "collisionCount": before.get("collisionCount"),
        "conditions": list(before.get("conditions") or []),
    }
    if terminating:
        status["terminatingReplicas"] = _terminating(sets)
    if available >= replicas - max_unavailable(deployment):
        text = "Deployment has minimum availability."
        set_condition(status, condition(AVAILABLE, "True", "MinimumReplicasAvailable", text, now))
    else:
        text = "Deployment does not have minimum availability."
        set_condition(status, condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now))
    return status


def _terminating(sets: Sequence[Object]) -> int | None:
    """The sum over the sets; None when one that was synced does not say."""
    total = 0
    for one in sets:
        status = one.get("status") or {}
        number = status.get("terminatingReplicas")
        if number is None and status.get("observedGeneration"):
            return None
        total += number or 0
    return total


def tidy(status: Mapping[str, Any]) -> Object:
    """A status in the form in which it is stored."""
    return {
        name: value
        for name, value in without_zeros(dict(status), _ALWAYS_WRITTEN).items()
        if value is not None
    }


def is_complete(deployment: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether all Pods are of the newest template and available, and no old ones exist."""
    replicas = replicas_of(deployment)
    return all(
        int(status.get(field, 0)) == replicas
        for field in ("updatedReplicas", "replicas", "availableReplicas")
    ) and int(status.get("observedGeneration", 0)) >= int(deployment["metadata"].get("generation", 0))


def _has_progressed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    def number(status: Mapping[str, Any], field: str) -> int:
        return int(status.get(field, 0))

    def outdated(status: Mapping[str, Any]) -> int:
        return number(status, "replicas") - number(status, "updatedReplicas")

    more = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(number(new, field) > number(old, field) for field in more)


def _has_timed_out(deployment: Mapping[str, Any], status: Mapping[str, Any], now: float) -> bool:
    known = find_condition(status, PROGRESSING)
    if known is None or known.get("reason") == NEW_SET_AVAILABLE:
        return False
    if known.get("reason") == TIMED_OUT:
        return True
    deadline = parse_stamp(known["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"])
    return deadline < now


def judge_progress(deployment: Mapping[str, Any], newest: Object | None, status: Object, now: float) -> None:
    """Set the condition Progressing of a new status, in place."""
    if not has_deadline(deployment):
        remove_condition(status, PROGRESSING)
        return
    before = deployment.get("status") or {}
    known = find_condition(before, PROGRESSING)
    rolled_out = known is not None and known.get("reason") == NEW_SET_AVAILABLE
    if rolled_out and status["replicas"] == status["updatedReplicas"]:
        return
    subject = (
        f'Deployment "{deployment["metadata"]["name"]}"'
        if newest is None
        else f'ReplicaSet "{newest["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        set_condition(status, condition(PROGRESSING, "True", NEW_SET_AVAILABLE, text, now))
    elif _has_progressed(before, status):
        new = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
        if known is not None:
            # Also with status and reason as before: the update time counts for the deadline.
            if known["status"] == "True":
                new["lastTransitionTime"] = known["lastTransitionTime"]
            remove_condition(status, PROGRESSING)
        set_condition(status, new)
    elif _has_timed_out(deployment, status, now):
        text = f"{subject} has timed out progressing."
        set_condition(status, condition(PROGRESSING, "False", TIMED_OUT, text, now))


def take_failures(newest: Object | None, sets: Sequence[Object], status: Object) -> None:
    """Report the failure of a set to make its Pods, of the newest before others, in place."""
    for one in ([newest] if newest is not None else []) + list(sets):
        failure = find_condition(one.get("status") or {}, REPLICA_FAILURE)
        if failure is not None:
            set_condition(status, {**failure, "lastUpdateTime": failure["lastTransitionTime"]})
            return
    remove_condition(status, REPLICA_FAILURE)


def next_check(deployment: Mapping[str, Any], status: Mapping[str, Any], now: float) -> float | None:
    """Seconds until the deadline of a rollout that stands still; None when there is nothing to wait for."""
    known = find_condition(deployment.get("status") or {}, PROGRESSING)
    if not has_deadline(deployment) or known is None or known.get("reason") == TIMED_OUT:
        return None
    if is_complete(deployment, status):
        return None
    return parse_stamp(known["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"]) - now
