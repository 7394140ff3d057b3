from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from conformance.events import RequirementFinished, RequirementStarted, RunStarted
from conformance.model import Evidence, Level, Requirement, Result, Verdict
from conformance.report import document, junit, terminal

CONTEXT = document.Context(
    "d.example.com", "d.yaml", ("sharing",), "embedded", "1.37", "0.1.0", "0.1.0", "2026-01-02T03:04:05Z"
)
MUST = Requirement(
    "DRV-AAA-01", Level.MUST, "It works.", "driver", ("somewhere",), "first", capability="sharing"
)
SHOULD = replace(MUST, id="DRV-AAA-02", level=Level.SHOULD)


def result(verdict: Verdict, requirement: Requirement = MUST, **more: object) -> Result:
    return Result(requirement, verdict, seconds=1.5, **more)  # type: ignore[arg-type]


FAILURE = result(
    Verdict.FAIL,
    expected="a <device>",
    seen="none \x00 & nothing",
    evidence=(Evidence("log", "output", "line 1\nline 2"),),
)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result(Verdict.PASS)], 0),
        ([result(Verdict.PASS), result(Verdict.FAIL, SHOULD)], 0),
        ([result(Verdict.KNOWN_GAP)], 0),
        ([result(Verdict.PASS), result(Verdict.FAIL)], 1),
        ([result(Verdict.FAIL), result(Verdict.ERROR, SHOULD)], 3),
        ([result(Verdict.FAIL), result(Verdict.ERROR, SHOULD, mistake=True)], 2),
        ([result(Verdict.ERROR), result(Verdict.ERROR, SHOULD, mistake=True)], 3),
        ([result(Verdict.SKIP), result(Verdict.DISABLED)], 4),
        ([], 4),
    ],
)
def test_exit_codes(results: list[Result], code: int) -> None:
    assert document.exit_code(results) == code


def test_json_holds_verdict_evidence_and_how_to_reproduce() -> None:
    report = json.loads(
        document.to_json(
            document.build(CONTEXT, [FAILURE, result(Verdict.SKIP, SHOULD, reason="gate off")], 2.0)
        )
    )
    failure, skipped = report["results"]
    assert report["schemaVersion"] == 1 and report["kit"]["catalogueVersion"] == "0.1.0"
    assert report["summary"]["MUST"]["fail"] == 1 and report["summary"]["SHOULD"]["skip"] == 1
    assert (failure["id"], failure["verdict"], failure["expected"]) == ("DRV-AAA-01", "fail", "a <device>")
    assert failure["reproduce"] == "drakit conformance d.yaml --focus DRV-AAA-01"
    assert failure["evidence"] == [{"kind": "log", "title": "output", "text": "line 1\nline 2"}]
    assert skipped["reason"] == "gate off" and "evidence" not in skipped
    assert report["exitCode"] == 1


@pytest.mark.parametrize(
    ("verdicts", "declared", "word"),
    [
        ([Verdict.PASS, Verdict.SKIP], True, "pass"),
        ([Verdict.PASS, Verdict.FAIL], True, "fail"),
        ([Verdict.SKIP], True, "not tested"),
        ([Verdict.SKIP], False, "not declared"),
    ],
)
def test_the_feature_matrix_never_counts_what_was_not_tested_as_pass(
    verdicts: list[Verdict], declared: bool, word: str
) -> None:
    context = CONTEXT if declared else replace(CONTEXT, capabilities=())
    assert document.build(context, [result(verdict) for verdict in verdicts], 1.0)["features"] == {
        "sharing": word
    }


def test_junit_counts_equal_its_elements_and_survive_control_characters() -> None:
    results = [
        FAILURE,
        result(Verdict.PASS),
        result(Verdict.SKIP, reason="gate off"),
        result(Verdict.ERROR, reason="broke"),
        result(Verdict.DISABLED),
        result(Verdict.PASS, replace(MUST, area="second")),
    ]
    root = ET.fromstring(junit.build(CONTEXT, results))
    assert root.attrib == {
        "name": "drakit conformance",
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert [suite.get("name") for suite in root] == ["first", "second"]
    first = root[0]
    assert len(first.findall("testcase")) == int(first.get("tests", "")) == 4
    failure = first.find("testcase/failure")
    assert (
        failure is not None
        and failure.get("message") == "expected a <device>; seen none \N{REPLACEMENT CHARACTER} & nothing"
    )
    assert "reproduce: drakit conformance d.yaml --focus DRV-AAA-01" in (failure.text or "")
    skipped = first.find("testcase/skipped")
    assert skipped is not None and skipped.get("message") == "gate off"


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    document.write(target, "one")
    document.write(target, "two")
    assert target.read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_the_terminal_shows_failures_with_evidence_and_totals_by_level() -> None:
    stream = io.StringIO()
    terminal.print_results(
        Console(file=stream, width=120), CONTEXT, [FAILURE, result(Verdict.PASS, SHOULD)], 3.0
    )
    text = stream.getvalue()
    for words in (
        "expected: a <device>",
        "line 2",
        "reproduce: drakit conformance d.yaml --focus DRV-AAA-01",
        "MUST: 1 fail; SHOULD: 1 pass",
        "driver d.example.com, embedded cluster, Kubernetes 1.37",
    ):
        assert words in text


def test_a_known_gap_is_told_in_the_table_with_its_issue_and_nowhere_else() -> None:
    stream = io.StringIO()
    gap = replace(FAILURE, verdict=Verdict.KNOWN_GAP, reason="known gap of kubelet 1.37: org/repo#1")
    terminal.print_results(Console(file=stream, width=120), CONTEXT, [gap], 3.0)
    text = stream.getvalue()
    assert text.count("known gap of kubelet 1.37: org/repo#1") == 1
    assert "expected:" not in text and "line 2" not in text


def test_without_a_terminal_progress_is_plain_lines() -> None:
    stream = io.StringIO()
    listener = terminal.ProgressListener(Console(file=stream, force_terminal=False, width=200))
    for event in (RunStarted(1, 1), RequirementStarted(MUST), RequirementFinished(result(Verdict.PASS))):
        listener(event)
    assert stream.getvalue() == "[1/1] pass      DRV-AAA-01     1.50 s  It works.\n"
