"""Rules for Deployments, ReplicaSets, StatefulSets, DaemonSets and ControllerRevisions.

Source: kubernetes v1.37.2 `pkg/apis/apps/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..label_selector import LabelSelectorError, matches
from .findings import Findings
from .label_selectors import (
    amount,
    check_at_most_all,
    check_int_or_percent,
    check_label_selector,
    check_not_negative,
    is_empty,
)
from .metadata import IMMUTABLE
from .names import dns_label_problems, not_supported
from .pod_spec import check_template

Object = Mapping[str, Any]

_MISMATCH: Final = "`selector` does not match template `labels`"
_STATUS_COUNTS: Final = {
    "Deployment": (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    ),
    "ReplicaSet": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    ),
    "StatefulSet": (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
        "observedGeneration", "collisionCount",
    ),
    "DaemonSet": (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    ),
}  # fmt: skip
_AT_MOST_REPLICAS: Final = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}


def check(found: Findings, obj: Object, old: Object | None) -> None:
    """All rules of a new or changed object of the group, beside its metadata."""
    kind = obj.get("kind")
    spec = obj.get("spec") or {}
    before = None if old is None else old.get("spec") or {}
    if kind == "Deployment":
        _check_deployment(found, spec, before)
    elif kind == "ReplicaSet":
        check_not_negative(found, spec, "spec", "replicas", "minReadySeconds")
        _check_selected_template(found, spec, "deployment", "ReplicaSet")
        _check_same_selector(found, spec, before)
    elif kind == "StatefulSet":
        _check_stateful_set(found, spec, before)
    elif kind == "DaemonSet":
        _check_daemon_set(found, spec, before)
    elif kind == "ControllerRevision":
        _check_revision(found, obj, old)


def check_status(found: Findings, new: Object, old: Object) -> None:
    """All rules of a changed status."""
    kind = str(new.get("kind"))
    status, before = new.get("status") or {}, old.get("status") or {}
    check_not_negative(found, status, "status", *_STATUS_COUNTS[kind])

    def count(field: str) -> int:
        return int(status.get(field) or 0)

    for field in _AT_MOST_REPLICAS.get(kind, ()):
        if count(field) > count("replicas"):
            found.invalid(f"status.{field}", count(field), "cannot be greater than status.replicas")
    if kind in _AT_MOST_REPLICAS and count("availableReplicas") > count("readyReplicas"):
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        found.invalid(
            "status.availableReplicas", count("availableReplicas"), f"cannot be greater than {ready}"
        )
    if kind != "ReplicaSet" and count("collisionCount") < (before.get("collisionCount") or 0):
        found.invalid("status.collisionCount", count("collisionCount"), "cannot be decremented")


def _check_same_selector(found: Findings, spec: Object, before: Object | None) -> None:
    if before is not None and spec.get("selector") != before.get("selector"):
        found.invalid("spec.selector", spec.get("selector"), IMMUTABLE)


def _check_selected_template(found: Findings, spec: Object, empty_for: str, kind: str) -> None:
    """Selector and template of a ReplicaSet or Deployment."""
    selector = spec.get("selector")
    if selector is None:
        found.required("spec.selector")
    else:
        check_label_selector(found, selector, "spec.selector")
        if is_empty(selector):
            found.invalid("spec.selector", selector, f"empty selector is invalid for {empty_for}")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    try:
        fits = matches(selector, labels)
    except LabelSelectorError:
        found.invalid("spec.selector", selector, "invalid label selector" if kind != "StatefulSet" else "")
        return
    if not fits:
        found.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    check_template(found, template, "spec.template")
    if kind != "StatefulSet":
        _check_runs_always(found, template, kind)


def _check_runs_always(found: Findings, template: Object, kind: str) -> None:
    spec = template.get("spec") or {}
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        found.add(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        found.forbidden("spec.template.spec.activeDeadlineSeconds", text)


def _check_deployment(found: Findings, spec: Object, before: Object | None) -> None:
    check_not_negative(found, spec, "spec", "replicas")
    _check_selected_template(found, spec, "deployment", "ReplicaSet")
    strategy = spec.get("strategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            found.forbidden("spec.strategy.rollingUpdate", text)
    elif kind == "RollingUpdate":
        _check_rolling_deployment(found, rolling or {}, "spec.strategy.rollingUpdate")
    else:
        shown = {"Type": kind, "RollingUpdate": rolling}
        found.add(not_supported("spec.strategy", shown, ("Recreate", "RollingUpdate")))
    check_not_negative(
        found, spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        found.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    _check_same_selector(found, spec, before)


def _check_rolling_deployment(found: Findings, rolling: Object, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    check_int_or_percent(found, unavailable, f"{path}.maxUnavailable")
    check_int_or_percent(found, surge, f"{path}.maxSurge")
    if amount(unavailable) == 0 and amount(surge) == 0:
        found.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    check_at_most_all(found, unavailable, f"{path}.maxUnavailable")


def _check_stateful_set(found: Findings, spec: Object, before: Object | None) -> None:
    policy = spec.get("podManagementPolicy") or ""
    if policy not in ("OrderedReady", "Parallel"):
        found.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    _check_stateful_strategy(found, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        value = retention.get(field) or ""
        if value not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            found.add(not_supported(path, value, ("Retain", "Delete")))
    check_not_negative(found, spec, "spec", "replicas", "minReadySeconds")
    if spec.get("ordinals") is not None:
        check_not_negative(found, spec["ordinals"], "spec.ordinals", "start")
    if before is None and spec.get("serviceName"):
        found.invalid_each("spec.serviceName", spec["serviceName"], dns_label_problems(spec["serviceName"]))
    # Volumes of claim templates, host name and subdomain are set by the controller.
    template = dict(spec.get("template") or {})
    pod = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    claimed = [
        {"name": (c.get("metadata") or {}).get("name")} for c in spec.get("volumeClaimTemplates") or []
    ]
    names = {volume["name"] for volume in claimed}
    pod["volumes"] = claimed + [v for v in pod.get("volumes") or [] if v.get("name") not in names]
    template["spec"] = pod
    _check_selected_template(found, {**spec, "template": template}, "statefulset", "StatefulSet")
    _check_runs_always(found, template, "StatefulSet")
    if before is not None:
        for field in ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"):
            if (spec.get(field) or None) != (before.get(field) or None):
                found.invalid(f"spec.{field}", spec.get(field), IMMUTABLE)


def _check_stateful_strategy(found: Findings, strategy: Object, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    where = f"{path}.rollingUpdate"
    if kind == "OnDelete":
        if rolling is not None:
            shown = {
                "Partition": rolling.get("partition", 0),
                "MaxUnavailable": rolling.get("maxUnavailable"),
            }
            found.invalid(where, shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif kind == "RollingUpdate":
        if rolling is not None:
            check_not_negative(found, rolling, where, "partition")
            unavailable = rolling.get("maxUnavailable")
            if unavailable is not None:
                check_int_or_percent(found, unavailable, f"{where}.maxUnavailable")
                if amount(unavailable) == 0:
                    found.invalid(f"{where}.maxUnavailable", unavailable, "cannot be 0")
                check_at_most_all(found, unavailable, f"{where}.maxUnavailable")
    else:
        shown = {"Type": kind, "RollingUpdate": rolling}
        found.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def _check_daemon_set(found: Findings, spec: Object, before: Object | None) -> None:
    if before is not None:
        _check_same_selector(found, spec, before)
    selector, template = spec.get("selector"), spec.get("template") or {}
    check_label_selector(found, selector, "spec.selector")
    labels = (template.get("metadata") or {}).get("labels")
    try:
        fits = matches(selector, labels)
    except LabelSelectorError:
        fits = True
    if not fits:
        found.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    if selector is not None and is_empty(selector):
        found.invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    check_template(found, template, "spec.template")
    _check_runs_always(found, template, "DaemonSet")
    check_not_negative(found, spec, "spec", "minReadySeconds")
    strategy = spec.get("updateStrategy") or {}
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        _check_rolling_daemon_set(found, rolling or {}, "spec.updateStrategy.rollingUpdate")
    elif kind != "OnDelete":
        shown = {"Type": kind, "RollingUpdate": rolling}
        found.add(not_supported("spec.updateStrategy", shown, ("RollingUpdate", "OnDelete")))
    check_not_negative(found, spec, "spec", "revisionHistoryLimit")


def _check_rolling_daemon_set(found: Findings, rolling: Object, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    pairs = ((unavailable, f"{path}.maxUnavailable"), (surge, f"{path}.maxSurge"))
    for value, where in pairs:
        check_int_or_percent(found, value, where)
    for value, where in pairs:
        check_at_most_all(found, value, where)
    if amount(unavailable) and amount(surge):
        found.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif not amount(unavailable) and not amount(surge):
        found.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _check_revision(found: Findings, revision: Object, old: Object | None) -> None:
    if (revision.get("revision") or 0) < 0:
        found.invalid("revision", revision["revision"], "must be greater than or equal to 0")
    data = revision.get("data")
    if old is not None:
        if data != old.get("data"):
            found.invalid("data", data, IMMUTABLE)
    elif data is None:
        found.required("data", "data is mandatory")
    elif not isinstance(data, dict):
        found.required("data", "data must be a valid JSON object")
