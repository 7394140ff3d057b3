"""Rules for events, stored in their core/v1 form (kubernetes v1.37.2 `pkg/apis/core/validation/events.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..equality import semantic_equal
from ..schema import GVK, load
from .findings import Findings
from .metadata import IMMUTABLE
from .names import byte_length, label_key_problems

Object = Mapping[str, Any]

NOTE_MAX: Final = 1024
WORD_MAX: Final = 128
_MISMATCH: Final = "does not match event.namespace"
_UNSET: Final = "needs to be unset"
# Core name -> the name in messages; only `series` of a new event may change.
_FIXED: Final = {
    "involvedObject": "involvedObject",
    "reason": "reason",
    "message": "message",
    "source": "source",
    "firstTimestamp": "firstTimestamp",
    "lastTimestamp": "lastTimestamp",
    "count": "count",
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingComponent": "reportingController",
    "reportingInstance": "reportingInstance",
}


def create(found: Findings, event: Object, *, strict: bool) -> None:
    """Rules for a new event, beside its metadata; `strict` for writes through events.k8s.io."""
    _check_always(found, event, strict)
    if not strict:
        return
    _check_series(found, event)
    if not event.get("eventTime"):
        found.required("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        found.invalid("type", "", f"has invalid value: {event.get('type') or ''}")
    for field in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(field):
            found.invalid(field, "", _UNSET)
    source = event.get("source") or {}
    if source.get("component") or source.get("host"):
        found.invalid("source", "", _UNSET)


def update(found: Findings, new: Object, old: Object, *, strict: bool) -> None:
    """Rules for a changed event: through events.k8s.io only the series may change."""
    _check_always(found, new, strict)
    if not strict:
        return
    if new.get("series") != old.get("series"):
        _check_series(found, new)
    message = load().kind(GVK("", "v1", "Event"))
    for field, shown in _FIXED.items():
        if message is not None and not semantic_equal(
            {field: new.get(field)}, {field: old.get(field)}, message
        ):
            found.invalid(shown, new.get(field), IMMUTABLE)


def _check_always(found: Findings, event: Object, strict: bool) -> None:
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    namespace = (event.get("metadata") or {}).get("namespace") or ""
    if not event.get("eventTime"):
        # Old-style events are hardly judged.
        allowed = (involved,) if involved else ("", "default")
        if namespace not in allowed:
            found.invalid("involvedObject.namespace", involved, _MISMATCH)
        return
    if not involved and namespace not in ("default", "kube-system"):
        found.invalid("involvedObject.namespace", involved, _MISMATCH)
    reporter = "reportingController" if strict else "reportingComponent"
    controller = event.get("reportingComponent") or ""
    if not controller:
        found.required(reporter)
    found.invalid_each(reporter, controller, label_key_problems(controller))
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field) or ""
        if not value:
            found.required(field)
        if byte_length(value) > WORD_MAX:
            found.invalid(field, "", f"can have at most {WORD_MAX} characters")
    if byte_length(event.get("message") or "") > NOTE_MAX:
        found.invalid("message", "", f"can have at most {NOTE_MAX} characters")


def _check_series(found: Findings, event: Object) -> None:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        found.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        found.required("series.lastObservedTime")
