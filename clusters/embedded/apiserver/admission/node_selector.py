"""Whether a NodeSelector selects a node."""

from __future__ import annotations

from typing import Any


def matches(selector: dict[str, Any], node: dict[str, Any]) -> bool:
    """Any term may match; an empty term matches nothing. Labels and metadata.name are looked at."""
    metadata = node.get("metadata") or {}
    labels, fields = metadata.get("labels") or {}, {"metadata.name": metadata.get("name", "")}
    for term in selector.get("nodeSelectorTerms") or []:
        expressions, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
        if (expressions or by_field) and (
            all(_requirement(item, labels) for item in expressions)
            and all(_requirement(item, fields) for item in by_field)
        ):
            return True
    return False


def _requirement(requirement: dict[str, Any], values: dict[str, str]) -> bool:
    key, operator = requirement.get("key", ""), requirement.get("operator")
    wanted = requirement.get("values") or []
    present = key in values
    if operator == "In":
        return present and values[key] in wanted
    if operator == "NotIn":
        return not present or values[key] not in wanted
    if operator == "Exists":
        return present
    if operator == "DoesNotExist":
        return not present
    try:
        have, bound = int(values[key]), int(wanted[0])
    except (KeyError, ValueError, IndexError):
        return False
    return have > bound if operator == "Gt" else operator == "Lt" and have < bound
