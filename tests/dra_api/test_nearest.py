from __future__ import annotations

import pytest

from dra_api.nearest import nearest

WORDS = ["deviceClassName", "selectors", "allocationMode"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("selector", "selectors"),
        ("DEVICECLASSNAME", "deviceClassName"),
        ("allocMode", "allocationMode"),
        ("x", None),
        ("", None),
    ],
)
def test_the_most_similar_word_is_meant(word: str, expected: str | None) -> None:
    assert nearest(word, WORDS) == expected


def test_nothing_is_near_where_nothing_is_allowed() -> None:
    assert nearest("x", []) is None
