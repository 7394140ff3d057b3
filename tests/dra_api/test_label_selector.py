"""Label selectors of API objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.label_selector import LabelSelectorError, check, format_selector, matches

KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["x", "y", "z"])
LABELS = st.dictionaries(KEYS, VALUES)


def one(operator: str, *values: str) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": "a", "operator": operator}
    if values:
        expression["values"] = list(values)
    return {"matchExpressions": [expression]}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {"a": "x"}, False),
        ({}, None, True),
        ({"matchLabels": {"a": "x"}}, {"a": "x", "b": "y"}, True),
        ({"matchLabels": {"a": "x"}}, {"a": "y"}, False),
        (one("In", "x", "y"), {"a": "y"}, True),
        (one("In", "x"), {}, False),
        (one("NotIn", "x"), {}, True),
        (one("NotIn", "x"), {"a": "x"}, False),
        (one("Exists"), {"a": ""}, True),
        (one("DoesNotExist"), {"a": ""}, False),
    ],
)
def test_what_matches(selector: Any, labels: Any, expected: bool) -> None:
    assert matches(selector, labels) is expected


@given(LABELS, st.sets(VALUES, min_size=1))
def test_opposites_disagree(labels: dict[str, str], values: set[str]) -> None:
    assert matches(one("In", *values), labels) != matches(one("NotIn", *values), labels)
    assert matches(one("Exists"), labels) != matches(one("DoesNotExist"), labels)


@given(LABELS)
def test_labels_match_themselves(labels: dict[str, str]) -> None:
    assert matches({"matchLabels": labels}, labels)


def test_the_text_is_sorted_by_key() -> None:
    expressions = [
        {"key": "d", "operator": "In", "values": ["z", "y"]},
        {"key": "b", "operator": "DoesNotExist"},
        {"key": "c", "operator": "NotIn", "values": ["x"]},
        {"key": "e", "operator": "Exists"},
    ]
    selector = {"matchLabels": {"a": "x"}, "matchExpressions": expressions}
    assert format_selector(selector) == "a=x,!b,c notin (x),d in (y,z),e"
    assert format_selector({}) == format_selector(None) == ""


@pytest.mark.parametrize(
    "selector", [one("Like", "x"), one("In"), one("Exists", "x"), {"matchLabels": {"a b": "x"}}]
)
def test_what_cannot_be_evaluated(selector: Any) -> None:
    with pytest.raises(LabelSelectorError):
        check(selector)
