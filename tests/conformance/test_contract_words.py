from __future__ import annotations

from conformance.contract.words import news

USUAL = """\
I1129 19:29:16.249146   29676 state.go:90] "Loaded" path="/tmp/dk-1/checkpoint.json" claims=1
serving pid=411
"""


def test_lines_that_differ_in_numbers_only_are_no_news() -> None:
    again = """\
I1130 02:00:00.000001    7 state.go:90] "Loaded" path="/tmp/dk-1/checkpoint.json" claims=0
serving pid=9
"""
    assert news(USUAL, again) == []


def test_other_words_are_news_even_about_the_same_file() -> None:
    line = 'E1130 02:00:00.000001    7 state.go:95] "Damaged" path="/tmp/dk-1/checkpoint.json"'
    assert news(USUAL, f"{USUAL}{line}\n") == [line]
