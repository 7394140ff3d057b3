"""Rules for Jobs and CronJobs.

Source: kubernetes v1.37.2 `pkg/apis/batch/validation`. The field `scheduling` (alpha) is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..label_selector import LabelSelectorError, matches
from .cron import schedule_problem, time_zone_problems
from .findings import Findings
from .job_policies import check_failure_policy, check_success_policy
from .label_selectors import check_label_selector, check_not_negative
from .metadata import IMMUTABLE
from .names import byte_length, dns_label_problems, dns_subdomain_problems, not_supported, pattern_text
from .pod_spec import check_template

Object = Mapping[str, Any]

UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
INDEXED: Final = "Indexed"
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_MANAGED_BY_MAX: Final = 63
_INDEXED_MAX: Final = 100_000
_LARGE_MAX: Final = 10_000
_CRON_NAME_MAX: Final = 52
_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_FROZEN: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def check_job(found: Findings, job: Object, old: Object | None) -> None:
    """A new or changed Job, beside its metadata."""
    spec = job.get("spec") or {}
    if old is None:
        _check_generated_selector(found, job, spec)
    _check_spec(found, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
    check_label_selector(found, selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    try:
        fits = matches(selector, labels)
    except LabelSelectorError:
        fits = True
    if not fits:
        found.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if old is not None:
        _check_changes(found, spec, old)
    _check_host_names(found, job["metadata"].get("name") or "", spec)


def _check_generated_selector(found: Findings, job: Object, spec: Object) -> None:
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    metadata = job["metadata"]
    path = "spec.template.metadata.labels"
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    # Old and new label of each, in the order of the server.
    expected = {
        UID_LABELS[0]: metadata.get("uid"),
        NAME_LABELS[0]: metadata.get("name"),
        UID_LABELS[1]: metadata.get("uid"),
        NAME_LABELS[1]: metadata.get("name"),
    }
    for key, value in expected.items():
        if key not in labels:
            found.required(f"{path}[{key}]", f"must be '{value}'")
        elif labels[key] != value:
            found.invalid(f"{path}[{key}]", labels, f"must be '{value}'")
    try:
        fits = matches(spec["selector"], expected)
    except LabelSelectorError:
        return
    if not fits:
        found.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _check_host_names(found: Findings, name: str, spec: Object) -> None:
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != INDEXED or completions <= 0:
        return
    last = f"{name}-{completions - 1}"
    if dns_label_problems(last):
        text = f"will not able to create pod with invalid DNS label: {last}"
        found.invalid("metadata.name", name, text)


def _check_spec(found: Findings, spec: Object, path: str) -> None:
    """What the specs of Jobs and of CronJobs' templates have in common."""
    check_not_negative(found, spec, path, *_COUNTS)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        found.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("managedBy") is not None:
        _check_manager(found, spec["managedBy"], f"{path}.managedBy")
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", INDEXED):
        found.add(not_supported(f"{path}.completionMode", mode, ("NonIndexed", INDEXED)))
    if mode == INDEXED:
        _check_indexed(found, spec, path)
    elif mode in (None, "NonIndexed"):
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(field) is not None:
                found.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    if spec.get("podFailurePolicy") is not None:
        check_failure_policy(found, spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        check_success_policy(found, spec, f"{path}.successPolicy", indexed=mode == INDEXED)
    _check_replacement(found, spec, f"{path}.podReplacementPolicy")
    template = spec.get("template") or {}
    check_template(found, template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy") or ""
    where = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        found.required(where, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        found.add(not_supported(where, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        found.invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _check_manager(found: Findings, value: str, path: str) -> None:
    """The name of the controller in charge: a path below a domain."""
    domain, slash, rest = value.partition("/")
    if not value:
        found.required(path)
    elif not slash or not rest or not domain:
        found.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        found.invalid_each(path, domain, dns_subdomain_problems(domain))
        if not re.fullmatch(_PATH, rest):
            found.invalid(path, rest, pattern_text("Invalid path", _PATH))
    if byte_length(value) > _MANAGED_BY_MAX:
        found.longer(path, _MANAGED_BY_MAX)


def _check_indexed(found: Findings, spec: Object, path: str) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        found.required(f"{path}.completions", f"when completion mode is {INDEXED}")
    if parallelism is not None and parallelism > _INDEXED_MAX:
        text = f"must be less than or equal to {_INDEXED_MAX} when completion mode is {INDEXED}"
        found.invalid(f"{path}.parallelism", parallelism, text)
    if completions is not None and failed is not None and failed > completions:
        found.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _INDEXED_MAX:
        found.invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_INDEXED_MAX}")
    if completions is None or completions <= _INDEXED_MAX or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        text = f"must be specified when completions is above {_INDEXED_MAX}"
        found.required(f"{path}.maxFailedIndexes", text)
    for field in ("parallelism", "maxFailedIndexes"):
        value = spec.get(field)
        if value is not None and value > _LARGE_MAX:
            text = f"must be less than or equal to {_LARGE_MAX} when completions are above {_INDEXED_MAX}"
            found.invalid(f"{path}.{field}", value, f"{text} and used with backoff limit per index")


def _check_replacement(found: Findings, spec: Object, path: str) -> None:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        found.add(not_supported(path, policy, allowed))


def _check_changes(found: Findings, spec: Object, old: Object) -> None:
    before, status = old.get("spec") or {}, old.get("status") or {}
    completions = spec.get("completions")
    if completions != before.get("completions"):
        if spec.get("completionMode") != INDEXED:
            found.invalid("spec.completions", completions, IMMUTABLE)
        elif completions is not None and completions != spec.get("parallelism"):
            text = "can only be modified in tandem with spec.parallelism"
            found.invalid("spec.completions", completions, text)
    if spec.get("selector") != before.get("selector"):
        found.invalid("spec.selector", spec.get("selector"), IMMUTABLE)
    template, kept = spec.get("template") or {}, before.get("template") or {}
    if _may_change_placement(before, status):
        template, kept = _without_changeable(template), _without_changeable(kept)
    if template != kept:
        found.invalid("spec.template", spec.get("template"), IMMUTABLE)
    for field in _FROZEN:
        if spec.get(field) != before.get(field):
            found.invalid(f"spec.{field}", spec.get(field), IMMUTABLE)


def _may_change_placement(spec: Object, status: Object) -> bool:
    """Suspended Jobs without Pods may change where their Pods run and what those request."""
    suspended = any(
        each.get("type") == "Suspended" and each.get("status") == "True"
        for each in status.get("conditions") or []
    )
    idle = not status.get("active") and (status.get("startTime") is None or suspended)
    return bool(spec.get("suspend")) and idle


def _without_changeable(template: Object) -> dict[str, Any]:
    metadata = {
        k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")
    }
    fields = ("nodeSelector", "tolerations", "schedulingGates")
    spec = {k: v for k, v in (template.get("spec") or {}).items() if k not in fields}
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for group in ("containers", "initContainers"):
        spec[group] = [{**each, "resources": None} for each in spec.get(group) or []]
    return {"metadata": metadata, "spec": {**spec, "affinity": affinity}}


def check_cron_job(found: Findings, job: Object, old: Object | None) -> None:
    """A new or changed CronJob, beside its metadata."""
    spec = job.get("spec") or {}
    before = None if old is None else old.get("spec") or {}
    schedule = spec.get("schedule") or ""
    if not schedule:
        found.required("spec.schedule")
    else:
        if problem := schedule_problem(schedule):
            found.invalid("spec.schedule", schedule, problem)
        if "TZ" in schedule:
            if before is None or "TZ" not in (before.get("schedule") or ""):
                text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
                found.invalid("spec.schedule", schedule, text)
            elif spec.get("timeZone") is not None:
                text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
                found.invalid("spec.schedule", schedule, text)
    check_not_negative(found, spec, "spec", "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (before is None or zone != before.get("timeZone")):
        found.invalid_each("spec.timeZone", zone, time_zone_problems(zone))
    policies = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in policies:
        found.add(not_supported("spec.concurrencyPolicy", spec.get("concurrencyPolicy") or "", policies))
    template = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    _check_spec(found, template, path)
    if template.get("selector") is not None:
        found.invalid(f"{path}.selector", template["selector"], "`selector` will be auto-generated")
    if template.get("manualSelector"):
        found.add(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    check_not_negative(found, spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    name = job["metadata"].get("name") or ""
    if old is None and len(name) > _CRON_NAME_MAX:
        found.invalid("metadata.name", name, f"must be no more than {_CRON_NAME_MAX} characters")
