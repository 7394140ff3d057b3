"""Rules for ResourceQuotas (kubernetes v1.37.2 `pkg/apis/core/validation`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ..errors import FieldError
from ..quantity import Quantity
from .findings import Findings
from .formats import extended_resource_problems
from .metadata import IMMUTABLE
from .names import label_key_problems

Object = Mapping[str, Any]

_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_COUNTED: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
_MEASURED: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "requests.", "limits.")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_FOR_QUOTA: Final = _COUNTED | _MEASURED | {"requests.storage"}
_STANDARD: Final = _FOR_QUOTA | {"storage"}
_COMPUTE: Final = _MEASURED - {name for name in _MEASURED if "ephemeral" in name}
_BEST_EFFORT: Final = ("BestEffort", "NotBestEffort")
_TERMINATING: Final = ("NotTerminating", "Terminating")
_PRIORITY: Final = "PriorityClass"
_AFFINITY: Final = "CrossNamespacePodAffinity"
_VOLUMES: Final = "VolumeAttributesClass"
_SCOPES: Final = frozenset((*_BEST_EFFORT, *_TERMINATING, _PRIORITY, _AFFINITY, _VOLUMES))
_EXISTS_ONLY: Final = frozenset((*_BEST_EFFORT, *_TERMINATING, _AFFINITY))
_ONLY_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_quota(quota: Object, old: Object | None = None) -> list[FieldError]:
    """All errors of a new or changed quota beside its metadata."""
    found = Findings()
    spec = quota.get("spec") or {}
    _check_amounts(found, spec.get("hard") or {}, "spec.hard")
    hard = sorted(spec.get("hard") or {})
    scopes = spec.get("scopes") or []
    if scopes:
        _check_scopes(found, scopes, hard)
    selector = spec.get("scopeSelector")
    if selector is not None:
        _check_selector(found, selector, hard, scopes)
    if old is not None and set(scopes) != set((old.get("spec") or {}).get("scopes") or []):
        found.invalid("spec.scopes", list(scopes) or None, IMMUTABLE)
    return found.errors()


def validate_quota_status(quota: Object) -> list[FieldError]:
    """All errors of a changed status."""
    found = Findings()
    status = quota.get("status") or {}
    for field in ("hard", "used"):
        _check_amounts(found, status.get(field) or {}, f"status.{field}")
    return found.errors()


def warnings(quota: Object) -> list[str]:
    """Texts for Warning headers of a new quota: requests above limits."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    texts = []
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        request = f"requests.{name}"
        if request not in hard and name in ("cpu", "memory"):
            request = name
        limit = f"limits.{name}"
        if request in hard and limit in hard:
            asked, most = Quantity.parse(str(hard[request])), Quantity.parse(str(hard[limit]))
            if asked > most:
                texts.append(f"ResourceQuota {request} ({asked}) should be less than {limit} ({most})")
    return texts


def _check_amounts(found: Findings, amounts: Object, path: str) -> None:
    for name, text in amounts.items():
        where = f"{path}[{name}]"
        problems = label_key_problems(name)
        if not problems and "/" not in name:
            huge = name.startswith(_HUGE_PAGES)
            if name not in _STANDARD and not huge:
                problems.append("must be a standard resource type or fully qualified")
            if name not in _FOR_QUOTA and not huge:
                problems.append("must be a standard resource for quota")
        elif "/" not in name and name not in _FOR_QUOTA and not name.startswith(_HUGE_PAGES):
            problems.append("must be a standard resource for quota")
        found.invalid_each(where, name, problems)
        amount = Quantity.parse(str(text))
        if amount.sign < 0:
            found.invalid(where, str(amount), "must be greater than or equal to 0")
        if (name in _COUNTED or _is_extended(name)) and amount.milli_value() % 1000:
            found.invalid(where, str(amount), "must be an integer")


def _is_extended(name: str) -> bool:
    return not extended_resource_problems(name)


def _check_scopes(found: Findings, scopes: Sequence[str], hard: Sequence[str]) -> None:
    path = "spec.scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            found.add(FieldError("Invalid", path, "unsupported scope", list(scopes)))
        for _ in _unfit(scope, hard):
            found.invalid(path, list(scopes), "unsupported scope applied to resource")
    for _ in _conflicts(scopes):
        found.invalid(path, list(scopes), "conflicting scopes")


def _check_selector(found: Findings, selector: Object, hard: Sequence[str], scopes: Sequence[str]) -> None:
    path = "spec.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions") or []
    for expression in expressions:
        scope, operator = expression.get("scopeName") or "", expression.get("operator") or ""
        values = expression.get("values") or []
        if scope not in _SCOPES:
            found.invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in _unfit(scope, hard):
            found.invalid(path, dict(selector), "unsupported scope applied to resource")
        if scope in _EXISTS_ONLY and operator != "Exists":
            found.invalid(f"{path}.operator", operator, _ONLY_EXISTS)
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                found.required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                found.invalid(f"{path}.values", list(values), text)
        else:
            found.invalid(f"{path}.operator", operator, "not a valid selector operator")
    for _ in _conflicts([each.get("scopeName") for each in expressions]):
        found.invalid(path, list(scopes) or None, "conflicting scopes")


def _unfit(scope: str, hard: Iterable[str]) -> list[str]:
    """The limited resources that quota knows but the scope does not."""
    if scope == "BestEffort":
        fit = frozenset(("pods",))
    elif scope == _VOLUMES:
        fit = frozenset(("persistentvolumeclaims", "requests.storage"))
    elif scope in _SCOPES:
        fit = _COMPUTE | {"pods"}
    else:
        return []
    return [name for name in hard if (name in _FOR_QUOTA or name.startswith(_HUGE_PAGES)) and name not in fit]


def _conflicts(scopes: Sequence[Any]) -> list[tuple[str, str]]:
    return [pair for pair in (_BEST_EFFORT, _TERMINATING) if set(pair) <= set(scopes)]
