from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from conformance.model import Level, Requirement, Result, Verdict
from conformance.report import document
from conformance.report.comparison import Side, build, differences, exit_code, print_comparison

EMBEDDED = document.Context(
    "d.example.com", "d.yaml", (), "embedded", "1.37", "0.1.0", "0.2.0", "2026-01-02T03:04:05Z"
)
LOCAL = replace(EMBEDDED, tier="local", options=("--tier", "local"))
FIRST = Requirement("DRV-AAA-01", Level.MUST, "It works.", "driver", ("somewhere",), "first")
SECOND = replace(FIRST, id="DRV-AAA-02", rule="It works twice.")
THIRD = replace(FIRST, id="DRV-AAA-03", level=Level.SHOULD)


def sides(embedded: list[Result], local: list[Result]) -> dict[str, Side]:
    return {"embedded": Side(EMBEDDED, embedded, 60.0), "local": Side(LOCAL, local, 120.5)}


DIFFERENT = sides(
    [Result(FIRST, Verdict.PASS), Result(SECOND, Verdict.PASS), Result(THIRD, Verdict.PASS)],
    [
        Result(FIRST, Verdict.PASS),
        Result(SECOND, Verdict.FAIL, expected="two", seen="one"),
        Result(THIRD, Verdict.SKIP, "cannot"),
    ],
)


def printed(compared: dict[str, Side]) -> str:
    text = io.StringIO()
    print_comparison(Console(file=text, width=200), compared)
    return text.getvalue()


@pytest.mark.parametrize(
    ("codes", "gravest"),
    [([0, 0], 0), ([0, 1], 1), ([1, 3], 3), ([2, 1], 2), ([0, 4], 4), ([4, 1], 1), ([2, 3], 3)],
)
def test_the_gravest_exit_code_counts(codes: list[int], gravest: int) -> None:
    assert exit_code(codes) == exit_code(codes[::-1]) == gravest


def test_differences_are_found_in_the_order_of_the_catalogue() -> None:
    assert [entry.requirement.id for entry in differences(DIFFERENT)] == ["DRV-AAA-02", "DRV-AAA-03"]


def test_the_document_holds_the_differences_and_both_reports() -> None:
    made = json.loads(document.to_json(build(DIFFERENT)))
    assert (made["kind"], made["exitCode"], made["tiers"]) == ("comparison", 1, ["embedded", "local"])
    assert made["differences"] == [
        {
            "id": "DRV-AAA-02",
            "level": "MUST",
            "rule": "It works twice.",
            "verdicts": {"embedded": "pass", "local": "fail"},
            "reasons": {"local": "expected two; seen one"},
        },
        {
            "id": "DRV-AAA-03",
            "level": "SHOULD",
            "rule": "It works.",
            "verdicts": {"embedded": "pass", "local": "skip"},
            "reasons": {"local": "cannot"},
        },
    ]
    assert made["reports"]["local"]["cluster"]["tier"] == "local"
    assert made["reports"]["embedded"]["exitCode"] == 0


def test_differing_verdicts_stand_side_by_side_before_the_failures() -> None:
    lines = printed(DIFFERENT).splitlines()
    assert lines[0].split() == ["embedded", "local"]
    assert lines[1].split()[:4] == ["DRV-AAA-02", "MUST", "pass", "fail"]
    assert lines[2].strip() == "local: expected two; seen one"
    assert lines[3].split()[:4] == ["DRV-AAA-03", "SHOULD", "pass", "skip"]
    text = "\n".join(lines)
    assert "reproduce: drakit conformance d.yaml --tier local --focus DRV-AAA-02" in text
    assert "2 of 3 requirements have different verdicts." in text
    assert "local: MUST: 1 fail, 1 pass; SHOULD: 1 skip; 120.5 s" in text
    assert lines[-1] == "local: A declared MUST failed."


def test_equal_verdicts_are_said_in_one_line_and_disabled_ones_are_not_counted() -> None:
    results = [
        Result(FIRST, Verdict.PASS),
        Result(SECOND, Verdict.DISABLED),
        Result(THIRD, Verdict.KNOWN_GAP),
    ]
    lines = [line for line in printed(sides(results, results)).splitlines() if line]
    assert lines[0] == "No verdict differs: 2 requirements."
    assert lines[-1] == "embedded, local: All declared MUSTs that were tested hold."
