"""Rules for the kinds of apps, batch and policy, and for Scale.

Metadata are not judged here (`dra_api.validation.metadata` does that). Source: kubernetes v1.37.2
`pkg/apis/*/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import FieldError
from . import apps, job_status, jobs
from .findings import Findings
from .label_selectors import (
    check_at_most_all,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
)
from .names import not_supported

Object = Mapping[str, Any]


def validate(obj: Object, old: Object | None) -> list[FieldError]:
    """All errors of a new object (`old` None) or a changed one."""
    found = Findings()
    kind = obj.get("kind")
    if kind == "Job":
        jobs.check_job(found, obj, old)
    elif kind == "CronJob":
        jobs.check_cron_job(found, obj, old)
    elif kind == "PodDisruptionBudget":
        _check_budget(found, obj.get("spec") or {})
    else:
        apps.check(found, obj, old)
    return found.errors()


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """All errors of a changed status."""
    found = Findings()
    kind = new.get("kind")
    if kind == "Job":
        job_status.check_job_status(found, new, old)
    elif kind == "PodDisruptionBudget":
        fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        check_not_negative(found, new.get("status") or {}, "status", *fields)
    elif kind != "CronJob":
        apps.check_status(found, new, old)
    return found.errors()


def validate_scale(scale: Object) -> list[FieldError]:
    """All errors of a Scale."""
    found = Findings()
    check_not_negative(found, scale.get("spec") or {}, "spec", "replicas")
    return found.errors()


def _check_budget(found: Findings, spec: Object) -> None:
    fields = ("minAvailable", "maxUnavailable")
    if all(spec.get(field) is not None for field in fields):
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        found.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field in fields:
        if spec.get(field) is not None:
            check_int_or_percent(found, spec[field], f"spec.{field}")
            check_at_most_all(found, spec[field], f"spec.{field}")
    check_label_selector(found, spec.get("selector"), "spec.selector")
    policy, allowed = spec.get("unhealthyPodEvictionPolicy"), ("AlwaysAllow", "IfHealthyBudget")
    if policy is not None and policy not in allowed:
        found.add(not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed))
