"""Table cells of quotas and admission policies (kubernetes v1.37.2 `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.durations import age
from clusters.embedded.apiserver.storage import Object

_UNSET: Final = "<unset>"


def quota(obj: Object, now: float) -> list[Any]:
    """Name, Request, Limit, Age."""
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        cell = limits if name.startswith("limits.") else requests
        cell.append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [obj["metadata"].get("name", ""), ", ".join(requests), ", ".join(limits), age(obj, now)]


def validating_policy(obj: Object, now: float) -> list[Any]:
    """Name, Validations, ParamKind, Age."""
    return _policy(obj, now, "validations")


def mutating_policy(obj: Object, now: float) -> list[Any]:
    """Name, Mutations, ParamKind, Age."""
    return _policy(obj, now, "mutations")


def _policy(obj: Object, now: float, counted: str) -> list[Any]:
    spec = obj.get("spec") or {}
    kind = spec.get("paramKind")
    shown = _UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
    return [obj["metadata"].get("name", ""), len(spec.get(counted) or []), shown, age(obj, now)]


def policy_binding(obj: Object, now: float) -> list[Any]:
    """Name, PolicyName, ParamRef, Age."""
    spec = obj.get("spec") or {}
    reference = spec.get("paramRef") or {}
    shown = _UNSET
    if reference.get("name"):
        # Whether a parameter without a namespace is cluster-scoped cannot be seen here.
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        shown = _selector(reference["selector"])
    return [obj["metadata"].get("name", ""), spec.get("policyName", ""), shown, age(obj, now)]


def _selector(selector: dict[str, Any]) -> str:
    """The selector as Go's generated printer shows it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or [])}],}},"
        for each in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
