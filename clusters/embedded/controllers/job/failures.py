"""Failed Pods of Jobs: what counts as failure, the policy's verdict, delays before the next try. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.controllers.pods import annotations_of, created_at, is_deleted, phase_of, pod_condition

FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_FIRST_DELAY, _LONGEST_DELAY = 10.0, 600.0
_MAX_INT32: Final = 2**31 - 1


def only_replaces_failed(job: Mapping[str, Any]) -> bool:
    """Whether a Pod that is being deleted is replaced only after its end."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(pod: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Whether the Pod counts as failed; one that is being deleted may never get to that phase by itself."""
    if phase_of(pod) == "Failed":
        return True
    if only_replaces_failed(job):
        return False
    return is_deleted(pod) and phase_of(pod) != "Succeeded"


@dataclass(frozen=True)
class Verdict:
    """What the failure policy says: whether the failure counts, its action or nothing, a text when the Job fails."""

    counts: bool = True
    action: str = ""
    message: str = ""


def judge(job: Mapping[str, Any], pod: Mapping[str, Any]) -> Verdict:
    """The verdict of the first rule that matches a failed Pod."""
    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for position, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or []):
        action = rule["action"]
        if rule.get("onExitCodes"):
            container = _container_with_code(pod, rule["onExitCodes"])
            if container is None:
                continue
            code = container["state"]["terminated"]["exitCode"]
            text = (
                f"Container {container['name']} for pod {where} failed with exit code {code} "
                f"matching {action} rule at index {position}"
            )
        else:
            found = _matching_condition(pod, rule.get("onPodConditions") or [])
            if found is None:
                continue
            text = f"Pod {where} has condition {found} matching {action} rule at index {position}"
        return Verdict(action != "Ignore", action, text if action == "FailJob" else "")
    return Verdict()


def _container_with_code(pod: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    status = pod.get("status") or {}
    name = wanted.get("containerName")
    for one in [*(status.get("containerStatuses") or []), *(status.get("initContainerStatuses") or [])]:
        terminated = (one.get("state") or {}).get("terminated")
        if terminated is None or (name is not None and name != one["name"]):
            continue
        code = terminated.get("exitCode", 0)
        if code != 0 and (code in wanted["values"]) == (wanted["operator"] == "In"):
            found: Mapping[str, Any] = one
            return found
    return None


def _matching_condition(pod: Mapping[str, Any], patterns: Sequence[Mapping[str, Any]]) -> str | None:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        for pattern in patterns:
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status")):
                return str(condition["type"])
    return None


def restarts_exceed_limit(job: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> bool:
    """Whether containers that are restarted in their Pods used up the Job's tries."""
    if job["spec"]["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = 0
    for pod in pods:
        if phase_of(pod) in ("Running", "Pending"):
            status = pod["status"]
            for field in ("initContainerStatuses", "containerStatuses"):
                restarts += sum(int(one.get("restartCount", 0)) for one in status.get(field) or [])
    limit = int(job["spec"]["backoffLimit"])
    return restarts > 0 if limit == 0 else restarts >= limit


def finished_at(pod: Mapping[str, Any]) -> float:
    """When the Pod ended: by its containers, else by its readiness, its deletion, its creation."""
    moments = _container_ends(pod)
    if moments:
        return max(moments)
    condition = pod_condition(pod, "Ready")
    if condition is not None and condition.get("status") == "False" and condition.get("lastTransitionTime"):
        return parse_stamp(condition["lastTransitionTime"])
    if is_deleted(pod):
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        return parse_stamp(pod["metadata"]["deletionTimestamp"]) - float(grace)
    return created_at(pod)


def _container_ends(pod: Mapping[str, Any]) -> list[float]:
    """The ends of containers and sidecars; empty when one of them has not ended."""
    sidecars = {
        one["name"] for one in pod["spec"].get("initContainers") or [] if one.get("restartPolicy") == "Always"
    }
    status = pod.get("status") or {}
    statuses = list(status.get("containerStatuses") or [])
    statuses += [one for one in status.get("initContainerStatuses") or [] if one["name"] in sidecars]
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    return [parse_stamp(end) for end in ends if end] if all(ends) else []


@dataclass(frozen=True)
class Backoff:
    """Failures since the last success, and when the last of them was (seconds since the epoch)."""

    failures: int = 0
    last_failure: float | None = None

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> Backoff:
        """With Pods that have ended since."""
        failures = sorted(map(finished_at, failed))
        if succeeded:
            last_success = max(map(finished_at, succeeded))
            later = [moment for moment in failures if moment > last_success]
            return Backoff(len(later), later[-1] if later else None)
        if failures:
            return Backoff(self.failures + len(failures), failures[-1])
        return self

    def remaining(self, now: float) -> float:
        """Seconds to wait before the next Pod: 10 after the first failure, twice as many after each, at most 600."""
        if not self.failures or self.last_failure is None:
            return 0.0
        # More doublings than these exceed the longest delay anyway.
        delay = min(_FIRST_DELAY * 2 ** min(self.failures - 1, 10), _LONGEST_DELAY)
        return float(max(delay - (now - self.last_failure), 0.0))


def index_failures(pod: Mapping[str, Any], annotation: str = FAILURES) -> int:
    """How many Pods of this index failed before, by an annotation of the Pod."""
    text = annotations_of(pod).get(annotation, "")
    return int(text) if text.isdecimal() and int(text) <= _MAX_INT32 else 0


def all_index_failures(pod: Mapping[str, Any]) -> int:
    """Those that counted and those that the policy ignored."""
    return index_failures(pod) + index_failures(pod, IGNORED_FAILURES)


def index_backoff(replaced: Mapping[str, Any] | None) -> Backoff:
    """The delay of an index, by the failed Pod that is to be replaced."""
    if replaced is None:
        return Backoff()
    return Backoff(all_index_failures(replaced) + 1, finished_at(replaced))


def index_has_failed(job: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    """Whether the Pod's failure is the last that its index may have."""
    if not has_failed(pod, job):
        return False
    verdict = judge(job, pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and index_failures(pod) >= job["spec"]["backoffLimitPerIndex"]


def failure_annotations(job: Mapping[str, Any], replaced: Mapping[str, Any] | None) -> dict[str, str]:
    """The counts of failures that the next Pod of an index begins with."""
    if replaced is None:
        return {FAILURES: "0"}
    counts = judge(job, replaced).counts
    ignored = index_failures(replaced, IGNORED_FAILURES) + (not counts)
    found = {FAILURES: str(index_failures(replaced) + counts)}
    return {**found, IGNORED_FAILURES: str(ignored)} if ignored else found
