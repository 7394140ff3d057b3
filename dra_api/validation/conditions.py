"""Rules for `metav1.Condition` lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .findings import Findings
from .names import byte_length, condition_reason_problems, label_key_problems, not_supported

REASON_MAX: Final = 1024
MESSAGE_MAX: Final = 32 * 1024
_STATUSES: Final = ("False", "True", "Unknown")


def check_conditions(found: Findings, conditions: Sequence[Mapping[str, Any]], path: str) -> None:
    """Check conditions: types unique, all but the message required. The caller limits their number."""
    seen = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        kind = condition.get("type") or ""
        if kind in seen:
            found.duplicate(where, kind)
        seen.add(kind)
        _check_condition(found, condition, where)


def _check_condition(found: Findings, condition: Mapping[str, Any], path: str) -> None:
    kind, status = condition.get("type") or "", condition.get("status") or ""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    if kind:
        found.invalid_each(f"{path}.type", kind, label_key_problems(kind))
    else:
        found.required(f"{path}.type", "is required")
    if not status:
        found.required(f"{path}.status")
    elif status not in _STATUSES:
        found.add(not_supported(f"{path}.status", status, _STATUSES))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        text = "must be greater than or equal to zero"
        found.invalid(f"{path}.observedGeneration", generation, text)
    if not condition.get("lastTransitionTime"):
        found.required(f"{path}.lastTransitionTime")
    if not reason:
        found.required(f"{path}.reason")
    else:
        found.invalid_each(f"{path}.reason", reason, condition_reason_problems(reason))
        if byte_length(reason) > REASON_MAX:
            found.longer(f"{path}.reason", REASON_MAX)
    if byte_length(message) > MESSAGE_MAX:
        found.longer(f"{path}.message", MESSAGE_MAX)
