from __future__ import annotations

import io

import pytest
from rich.console import Console

from conformance.events import RequirementFinished, RequirementStarted, RunStarted
from conformance.model import Evidence, Level, Requirement, Result, Verdict
from conformance.report import document, terminal

CONTEXT = document.Context(
    "d.example.com", "d.yaml", (), "embedded", "1.37", "0.1.0", "0.1.0", "2026-01-02T03:04:05Z"
)
RULE = (
    "A claim that was prepared stays prepared when the driver is restarted and the CDI directory is emptied."
)


def result(number: int, verdict: Verdict, **more: object) -> Result:
    requirement = Requirement(f"DRV-AAA-{number:02}", Level.MUST, RULE, "driver", ("somewhere",), "restart")
    return Result(requirement, verdict, seconds=1.0, **more)  # type: ignore[arg-type]


def printed(results: list[Result], columns: int | None = None) -> list[str]:
    """The lines on a terminal of this width, or in a pipe."""
    stream = io.StringIO()
    console = Console(
        file=stream, width=columns, force_terminal=columns is not None, no_color=True, color_system=None
    )
    terminal.print_results(console, CONTEXT, results, 3.0)
    return stream.getvalue().splitlines()


FAILURE = result(
    2,
    Verdict.FAIL,
    expected="claim a is prepared",
    seen="it is not, for many reasons of which each is long enough to fill a line of any terminal",
    evidence=(Evidence("log", "output", "one\n\x1b[31mred\x07\ttab"),),
)


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_the_table_fits_the_columns(columns: int) -> None:
    lines = printed([result(1, Verdict.PASS), FAILURE], columns)
    # What reproduces a failure is for copying and stays one line.
    assert max(len(line) for line in lines if "reproduce" not in line) <= columns
    text = " ".join(" ".join(lines).split())
    assert RULE in text and FAILURE.seen in text


def test_beside_its_columns_a_rule_wraps_and_in_a_narrow_terminal_below() -> None:
    wide, narrow = printed([result(1, Verdict.PASS)], 80), printed([result(1, Verdict.PASS)], 60)
    assert wide[2].startswith("pass       DRV-AAA-01    MUST    A claim")
    assert wide[3].startswith(" " * 33)
    assert narrow[2] == "pass       DRV-AAA-01    MUST"
    assert narrow[3].startswith("    A claim that was prepared")


def test_in_a_pipe_a_requirement_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # tox, for one, sets it for what it runs.
    monkeypatch.delenv("COLUMNS", raising=False)
    assert f"pass       DRV-AAA-01    MUST    {RULE}" in printed([result(1, Verdict.PASS)])


def test_what_a_driver_prints_cannot_steer_the_terminal() -> None:
    text = "\n".join(printed([FAILURE], 80))
    assert "\x1b" not in text and "\x07" not in text
    assert "    one\n    \N{REPLACEMENT CHARACTER}[31mred" in text


def test_skips_that_share_a_reason_are_told_together_and_counted() -> None:
    skipped = [result(number, Verdict.SKIP, reason="the gate is off") for number in range(3, 6)]
    alone = result(6, Verdict.SKIP, reason="no hook")
    lines = printed([result(1, Verdict.PASS), *skipped, alone], 80)
    assert "skip  3 requirements: the gate is off" in lines
    assert "    DRV-AAA-03, DRV-AAA-04, DRV-AAA-05" in lines
    assert any(line.startswith("skip       DRV-AAA-06") for line in lines)
    assert "MUST: 1 pass, 4 skip" in lines


@pytest.mark.parametrize(
    ("results", "conclusion"),
    [
        ([result(1, Verdict.PASS)], "All declared MUSTs that were tested hold."),
        ([FAILURE], "A declared MUST failed."),
        ([result(1, Verdict.SKIP, reason="x")], "Nothing was tested."),
    ],
)
def test_the_last_line_says_what_it_comes_to(results: list[Result], conclusion: str) -> None:
    assert printed(results)[-1] == conclusion


def test_progress_tells_once_why_the_rest_is_left_out() -> None:
    stream = io.StringIO()
    listener = terminal.ProgressListener(Console(file=stream, force_terminal=False))
    listener(RunStarted(3, 3))
    listener(RequirementStarted(FAILURE.requirement))
    listener(RequirementFinished(FAILURE))
    for number in (3, 4):
        listener(
            RequirementFinished(result(number, Verdict.SKIP, reason="not testable: DRV-AAA-02 did not pass"))
        )
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1] == "the rest is left out, not testable: DRV-AAA-02 did not pass"


def test_progress_that_nobody_can_write_does_not_end_the_run() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    listener = terminal.ProgressListener(Console(file=Full(), force_terminal=False))
    listener(RequirementStarted(FAILURE.requirement))
    listener(RequirementFinished(FAILURE))
