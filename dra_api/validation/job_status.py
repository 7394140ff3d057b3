"""Rules for changes of a Job's status: only what changes is judged, so that old faults do not block a write.

Source: kubernetes v1.37.2 `pkg/apis/batch/validation`, `pkg/registry/batch/job` (JobManagedBy is on).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import OMIT
from .findings import Findings
from .job_policies import count_indexes
from .jobs import INDEXED
from .label_selectors import check_not_negative
from .metadata import IMMUTABLE

Object = Mapping[str, Any]

_COMPLETE, _FAILED = "Complete", "Failed"
_TARGET, _MET, _SUSPENDED = "FailureTarget", "SuccessCriteriaMet", "Suspended"
_PATH: Final = "status.conditions"


class _View:
    """A Job's status and what its conditions say."""

    def __init__(self, job: Object) -> None:
        self.spec: Object = job.get("spec") or {}
        self.status: Object = job.get("status") or {}
        self._states = {each.get("type"): each.get("status") for each in self.status.get("conditions") or []}

    def has(self, condition: str, state: str = "True") -> bool:
        return self._states.get(condition) == state

    @property
    def finished(self) -> bool:
        return self.has(_COMPLETE) or self.has(_FAILED)

    def get(self, field: str) -> Any:
        return self.status.get(field)

    def number(self, field: str) -> int:
        return self.status.get(field) or 0


def check_job_status(found: Findings, new: Object, old: Object) -> None:
    """A changed status of a Job."""
    job, before = _View(new), _View(old)
    check_not_negative(found, job.status, "status", "active", "succeeded", "failed", "ready", "terminating")
    _check_uncounted(found, job.get("uncountedTerminatedPods") or {})
    _check_combinations(found, job, before)
    _check_times(found, job, before)
    _check_finished(found, job, before)
    _check_indexes(found, job, before)
    _check_counts(found, job, before)
    _check_success(found, job)
    _check_transitions(found, job, before)


def _changed(job: _View, before: _View, *fields: str) -> bool:
    return any((job.get(field) or None) != (before.get(field) or None) for field in fields)


def _turned(job: _View, before: _View, *conditions: str) -> bool:
    return any(job.has(condition) != before.has(condition) for condition in conditions)


def _contradiction(found: Findings, text: str) -> None:
    found.invalid(_PATH, OMIT, text)


def _check_uncounted(found: Findings, uncounted: Object) -> None:
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(field) or []):
            path = f"status.uncountedTerminatedPods.{field}[{index}]"
            if not uid:
                found.invalid(path, uid, "must not be empty")
            elif uid in seen:
                found.duplicate(path, uid)
            seen.add(uid)


def _check_combinations(found: Findings, job: _View, before: _View) -> None:
    if _turned(job, before, _COMPLETE, _FAILED) and job.has(_COMPLETE) and job.has(_FAILED):
        _contradiction(found, "cannot set Complete=True and Failed=true conditions")
    if _turned(job, before, _COMPLETE, _TARGET) and job.has(_COMPLETE) and job.has(_TARGET):
        _contradiction(found, "cannot set Complete=True and FailureTarget=true conditions")


def _check_times(found: Findings, job: _View, before: _View) -> None:
    end, start = job.get("completionTime"), job.get("startTime")
    path = "status.completionTime"
    if _turned(job, before, _COMPLETE) or _changed(job, before, "completionTime"):
        if end is not None and not job.has(_COMPLETE):
            found.invalid(path, end, "cannot set completionTime when there is no Complete=True condition")
        if end is None and job.has(_COMPLETE):
            found.required(path, "completionTime is required for Complete jobs")
    if _changed(job, before, "startTime", "completionTime") and start and end and end < start:
        found.invalid(path, end, "must be equal to or after `startTime`")


def _check_finished(found: Findings, job: _View, before: _View) -> None:
    ended = job.finished != before.finished
    failure = _turned(job, before, _FAILED) or _changed(job, before, "failedIndexes")
    if failure and job.has(_FAILED) and not job.has(_TARGET):
        _contradiction(found, "cannot set Failed=True condition without the FailureTarget=true condition")
    if _turned(job, before, _COMPLETE, _MET) and job.has(_COMPLETE) and not job.has(_MET):
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        _contradiction(found, text)
    if not job.finished:
        return
    if (ended or _changed(job, before, "active")) and job.number("active") > 0:
        found.invalid("status.active", job.number("active"), "active>0 is invalid for finished job")
    nothing_to_do = job.spec.get("suspend") and job.spec.get("completions") == 0
    if (ended or _changed(job, before, "startTime")) and not nothing_to_do and job.get("startTime") is None:
        found.required("status.startTime", "startTime is required for finished job")
    uncounted = job.get("uncountedTerminatedPods") or {}
    shown = {"Succeeded": uncounted.get("succeeded"), "Failed": uncounted.get("failed")}
    if any(shown.values()) and (ended or _changed(job, before, "uncountedTerminatedPods")):
        found.invalid("status.uncountedTerminatedPods", shown, "must be empty for finished job")


def _check_indexes(found: Findings, job: _View, before: _View) -> None:
    completions, per_index = job.spec.get("completions"), job.spec.get("backoffLimitPerIndex")
    completed, failed = job.get("completedIndexes") or "", job.get("failedIndexes")
    changed = _changed(job, before, "completedIndexes")
    if changed and completions is not None:
        _check_format(found, completed, completions, "completedIndexes")
    judged = per_index is not None and failed is not None and _changed(job, before, "failedIndexes")
    if judged and completions is not None:
        _check_format(found, str(failed), completions, "failedIndexes")
    if changed and completed and job.spec.get("completionMode") != INDEXED:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        found.invalid("status.completedIndexes", completed, text)
    if _changed(job, before, "failedIndexes") and failed is not None and per_index is None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.invalid("status.failedIndexes", failed, text)
    if _changed(job, before, "failedIndexes", "completedIndexes") and completed and failed:
        both = sorted(_numbers(completed) & _numbers(failed))
        if both:
            text = f"failedIndexes and completedIndexes overlap at index: {both[0]}"
            found.invalid("status.failedIndexes", failed, text)


def _check_format(found: Findings, text: str, completions: int, field: str) -> None:
    try:
        count_indexes(text, completions)
    except ValueError as error:
        found.invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def _numbers(text: str) -> set[int]:
    """The indexes of `1,3-5`; what is no number is left out."""
    result: set[int] = set()
    for interval in text.split(","):
        limits = interval.split("-")
        if all(limit.isdecimal() for limit in limits):
            result.update(range(int(limits[0]), int(limits[-1]) + 1))
    return result


def _check_counts(found: Findings, job: _View, before: _View) -> None:
    terminating, ready = job.number("terminating"), job.number("ready")
    news = job.finished != before.finished or _changed(job, before, "terminating")
    if news and terminating > 0 and job.finished:
        found.invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")
    if _changed(job, before, "ready", "active") and ready > job.number("active"):
        found.invalid("status.ready", ready, "cannot set more ready pods than active")


def _check_success(found: Findings, job: _View) -> None:
    if job.has(_MET) and job.has(_FAILED):
        _contradiction(found, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if job.has(_MET) and job.has(_TARGET):
        _contradiction(found, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if job.spec.get("successPolicy") is not None and not job.has(_MET) and job.has(_COMPLETE):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        _contradiction(found, text)


def _check_transitions(found: Findings, job: _View, before: _View) -> None:
    for condition in (_FAILED, _COMPLETE, _TARGET):
        if before.has(condition) and not job.has(condition):
            _contradiction(found, f"cannot disable the terminal {condition}=True condition")
    if job.number("failed") < before.number("failed"):
        found.invalid("status.failed", job.number("failed"), "cannot decrease the failed counter")
    elastic = job.spec.get("completionMode") == INDEXED and (
        job.spec.get("completions") == job.spec.get("parallelism")
    )
    if not elastic and job.number("succeeded") < before.number("succeeded"):
        found.invalid("status.succeeded", job.number("succeeded"), "cannot decrease the succeeded counter")
    end, start = job.get("completionTime"), job.get("startTime")
    if end is not None and before.get("completionTime") is not None and end != before.get("completionTime"):
        found.invalid("status.completionTime", end, IMMUTABLE)
    resuming = before.has(_SUSPENDED) and job.has(_SUSPENDED, "False")
    moved = before.get("startTime") is not None and start != before.get("startTime")
    if moved and not resuming and not job.spec.get("suspend"):
        found.invalid("status.startTime", start, "field is immutable for unsuspended job once set")
    if before.has(_MET) and not job.has(_MET):
        _contradiction(found, "cannot disable the SuccessCriteriaMet=True condition")
    if before.has(_COMPLETE) and not before.has(_MET) and job.has(_MET):
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        _contradiction(found, text)
