"""Defaults of admissionregistration.k8s.io (kubernetes v1.37.2 `pkg/apis/admissionregistration/v1/defaults.go`)."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def apply_admission_defaults(obj: Object) -> None:
    """Fill in the defaults of policies and their bindings, in place."""
    spec: Object = obj.setdefault("spec", {})
    kind = str(obj.get("kind", ""))
    if kind.endswith("Binding"):
        _match_resources(spec.get("matchResources"))
        return
    _match_resources(spec.get("matchConstraints"))
    spec.setdefault("failurePolicy", "Fail")


def _match_resources(constraints: Object | None) -> None:
    if constraints is None:
        return
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in constraints.get(field) or []:
            rule.setdefault("scope", "*")
    constraints.setdefault("matchPolicy", "Equivalent")
