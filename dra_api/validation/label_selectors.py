"""Rules for label selectors, and for values that may be a number or a percentage.

Source: apimachinery v0.37.2 `pkg/apis/meta/v1/validation`, kubernetes v1.37.2 `pkg/apis/apps/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .findings import Findings
from .metadata import check_labels
from .names import label_key_problems, label_value_problems, pattern_text

_PERCENT = "[0-9]+%"
_NEGATIVE = "must be greater than or equal to 0"


def check_label_selector(found: Findings, selector: Mapping[str, Any] | None, path: str) -> None:
    """Keys, operators and values; an absent selector is no error here."""
    if selector is None:
        return
    check_labels(found, selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        _check_expression(found, expression, f"{path}.matchExpressions[{index}]")


def _check_expression(found: Findings, expression: Mapping[str, Any], path: str) -> None:
    operator, values = expression.get("operator") or "", expression.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            found.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            found.forbidden(f"{path}.values", text)
    else:
        found.invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = expression.get("key") or ""
    found.invalid_each(f"{path}.key", key, label_key_problems(key))
    for index, value in enumerate(values):
        found.invalid_each(f"{path}.values[{index}]", value, label_value_problems(value))


def is_empty(selector: Mapping[str, Any]) -> bool:
    """Whether a selector selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def check_not_negative(found: Findings, holder: Mapping[str, Any], path: str, *fields: str) -> None:
    """Numbers below `path` that may not be negative; absent ones are fine."""
    for field in fields:
        value = holder.get(field)
        if value is not None and value < 0:
            found.invalid(f"{path}.{field}", value, _NEGATIVE)


def check_int_or_percent(found: Findings, value: int | str, path: str) -> None:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        if not re.fullmatch(_PERCENT, value):
            text = "a valid percent string must be a numeric string followed by an ending '%'"
            found.invalid(path, value, pattern_text(text, _PERCENT, "1%", "93%"))
    elif value < 0:
        found.invalid(path, value, _NEGATIVE)


def check_at_most_all(found: Findings, value: int | str, path: str) -> None:
    """A percentage of at most 100; numbers are fine."""
    if isinstance(value, str) and re.fullmatch(_PERCENT, value) and int(value[:-1]) > 100:
        found.invalid(path, value, "must not be greater than 100%")


def amount(value: int | str | None) -> int:
    """The number or the percentage as a number; 0 for anything else."""
    if isinstance(value, str):
        return int(value[:-1]) if re.fullmatch(_PERCENT, value) else 0
    return value or 0
