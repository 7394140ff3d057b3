"""Label selectors of API objects (`spec.selector`): matching and their text form.

Source: apimachinery v0.37.2 `pkg/apis/meta/v1/helpers.go`, `pkg/labels/selector.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .validation.names import label_key_problems, label_value_problems

Selector = Mapping[str, Any]

_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


class LabelSelectorError(ValueError):
    """A selector that cannot be evaluated."""


def matches(selector: Selector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether labels match; an absent selector matches nothing, an empty one everything.

    Raises LabelSelectorError.
    """
    return matcher(selector)(labels)


def matcher(selector: Selector | None) -> Callable[[Mapping[str, str] | None], bool]:
    """A test of labels, for many of them: the selector is checked once. Raises LabelSelectorError."""
    if selector is None:
        return lambda labels: False
    check(selector)
    pairs = (selector.get("matchLabels") or {}).items()
    expressions = selector.get("matchExpressions") or []

    def test(labels: Mapping[str, str] | None) -> bool:
        found = labels or {}
        return pairs <= found.items() and all(_fits(expression, found) for expression in expressions)

    return test


def _fits(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    return bool((key in labels) == (operator == "Exists"))


def check(selector: Selector) -> None:
    """Raise LabelSelectorError for a selector with a wrong operator, key or value."""
    for key, value in (selector.get("matchLabels") or {}).items():
        _check_words(key, [value])
    for expression in selector.get("matchExpressions") or []:
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
            raise LabelSelectorError(f'"{operator}" is not a valid label selector operator')
        if bool(values) != (operator in _WITH_VALUES):
            what = "non-empty" if operator in _WITH_VALUES else "empty"
            raise LabelSelectorError(f"values: must be {what} for operator {operator}")
        _check_words(expression.get("key") or "", values)


def _check_words(key: str, values: list[str]) -> None:
    problems = label_key_problems(key)
    for value in values:
        problems += label_value_problems(value)
    if problems:
        raise LabelSelectorError(problems[0])


def format_selector(selector: Selector | None) -> str:
    """The selector as in a list request, `a=b,c in (d,e)`; empty when it selects everything or nothing.

    Raises LabelSelectorError.
    """
    if selector is None:
        return ""
    check(selector)
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, values = expression["key"], ",".join(sorted(set(expression.get("values") or [])))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        terms.append((key, forms[expression["operator"]]))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))
