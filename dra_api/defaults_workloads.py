"""Defaults of apps/v1 and batch/v1, as set on every decoding (api-machinery section 20).

Source: kubernetes v1.37.2 `pkg/apis/apps/v1/defaults.go`, `pkg/apis/batch/v1/defaults.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .defaults_core import apply_pod_spec_defaults

Object = dict[str, Any]

_HISTORY: Final = 10
_BACKOFF_LIMIT: Final = 6
_MAX_INT32: Final = 2**31 - 1


def apply_workload_defaults(obj: Object) -> None:
    """Fill in defaults, in place; kinds without any stay as they are."""
    defaulter = _DEFAULTERS.get(str(obj.get("kind", "")))
    if defaulter is not None:
        defaulter(obj.setdefault("spec", {}), obj)


def _set(spec: Object, **values: Any) -> None:
    for field, value in values.items():
        if spec.get(field) is None:
            spec[field] = value


def _template(spec: Object) -> None:
    apply_pod_spec_defaults(spec.setdefault("template", {}).setdefault("spec", {}))


def _deployment(spec: Object, obj: Object) -> None:
    _template(spec)
    _set(spec, replicas=1, revisionHistoryLimit=_HISTORY, progressDeadlineSeconds=600)
    strategy: Object = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy, rollingUpdate={})
        _set(strategy["rollingUpdate"], maxUnavailable="25%", maxSurge="25%")


def _replica_set(spec: Object, obj: Object) -> None:
    _template(spec)
    _set(spec, replicas=1)


def _stateful_set(spec: Object, obj: Object) -> None:
    _template(spec)
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy: Object = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        _set(strategy, rollingUpdate={})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        _set(strategy["rollingUpdate"], partition=0, maxUnavailable=1)
    _set(spec, persistentVolumeClaimRetentionPolicy={}, replicas=1, revisionHistoryLimit=_HISTORY)
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        retention[field] = retention.get(field) or "Retain"
    for claim in spec.get("volumeClaimTemplates") or []:
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        _set(claim.setdefault("spec", {}), volumeMode="Filesystem")
        _set(claim.setdefault("status", {}), phase="Pending")


def _daemon_set(spec: Object, obj: Object) -> None:
    _template(spec)
    strategy: Object = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy, rollingUpdate={})
        _set(strategy["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    _set(spec, revisionHistoryLimit=_HISTORY)


def _job(spec: Object, obj: Object) -> None:
    _job_template(spec)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    _set(
        spec,
        parallelism=1,
        backoffLimit=_MAX_INT32 if per_index else _BACKOFF_LIMIT,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed",
        manualSelector=False,
    )
    metadata: Object = obj.setdefault("metadata", {})
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels is not None and not metadata.get("labels"):
        metadata["labels"] = labels  # shared: the strategy of Jobs looks at it


def _cron_job(spec: Object, obj: Object) -> None:
    _job_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    _set(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)


def _job_template(spec: Object) -> None:
    """What the specs of jobs and of cron jobs' templates have in common."""
    _template(spec)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern["status"] = pattern.get("status") or "True"


_DEFAULTERS: Final[dict[str, Callable[[Object, Object], None]]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
}
