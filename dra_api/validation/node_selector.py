"""Rules for node selectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings
from .names import dns_subdomain_problems, label_key_problems, label_value_problems

_OPERATOR = "not a valid selector operator"


def check_node_selector(found: Findings, selector: Mapping[str, Any], path: str) -> None:
    """Check a node selector: at least one term, each requirement well formed."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        found.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        where = f"{path}.nodeSelectorTerms[{index}]"
        for number, requirement in enumerate(term.get("matchExpressions") or []):
            _check_expression(found, requirement, f"{where}.matchExpressions[{number}]")
        for number, requirement in enumerate(term.get("matchFields") or []):
            _check_field(found, requirement, f"{where}.matchFields[{number}]")


def _check_expression(found: Findings, requirement: Mapping[str, Any], path: str) -> None:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.forbidden(f"{path}.values", text)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            found.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        found.invalid(f"{path}.operator", operator, _OPERATOR)
    key = requirement.get("key") or ""
    found.invalid_each(f"{path}.key", key, label_key_problems(key))
    for index, value in enumerate(values):
        found.invalid_each(f"{path}.values[{index}]", value, label_value_problems(value))


def _check_field(found: Findings, requirement: Mapping[str, Any], path: str) -> None:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        found.invalid(f"{path}.operator", operator, _OPERATOR)
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.required(f"{path}.values", text)
    key = requirement.get("key") or ""
    if key != "metadata.name":
        found.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        found.invalid_each(f"{path}.values[{index}]", value, dns_subdomain_problems(value))
