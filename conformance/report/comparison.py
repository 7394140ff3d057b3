"""Several runs of the same requirements side by side: which verdicts differ, and why (docs/report.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from conformance.model import Requirement, Result, Verdict
from conformance.report import document, terminal
from conformance.report.document import Context
from conformance.report.layout import NO_BREAK, clean, print_line, print_lines, row, width, wrap

SCHEMA_VERSION = 1
# The gravest first: what could not be judged counts more than what failed, and nothing tested is no success.
_GRAVITY = (3, 2, 1, 4, 0)


@dataclass(frozen=True)
class Side:
    """One of the runs: what is known about it, its verdicts in catalogue order, and how long it took."""

    context: Context
    results: Sequence[Result]
    seconds: float


@dataclass(frozen=True)
class Difference:
    """A requirement whose verdicts differ; `results` are those of each side, by the side's name."""

    requirement: Requirement
    results: Mapping[str, Result]


def exit_code(codes: Sequence[int]) -> int:
    """The gravest of several exit codes, in the order 3, 2, 1, 4, 0."""
    return next(code for code in _GRAVITY if code in codes)


def differences(sides: Mapping[str, Side]) -> list[Difference]:
    """The requirements with different verdicts, in the order of the catalogue."""
    found = []
    for results in zip(*(side.results for side in sides.values()), strict=True):
        if len({result.verdict for result in results}) > 1:
            found.append(Difference(results[0].requirement, dict(zip(sides, results, strict=True))))
    return found


def build(sides: Mapping[str, Side]) -> dict[str, Any]:
    """The document of a comparison, with the whole report of each side."""
    reports = {name: document.build(side.context, side.results, side.seconds) for name, side in sides.items()}
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "comparison",
        "exitCode": exit_code([report["exitCode"] for report in reports.values()]),
        "tiers": list(sides),
        "differences": [_difference(entry) for entry in differences(sides)],
        "reports": reports,
    }


def _difference(entry: Difference) -> dict[str, Any]:
    return {
        "id": entry.requirement.id,
        "level": str(entry.requirement.level),
        "rule": entry.requirement.rule,
        "verdicts": {name: str(result.verdict) for name, result in entry.results.items()},
        "reasons": {name: text for name, result in entry.results.items() if (text := _why(result))},
    }


def _why(result: Result) -> str:
    if result.verdict is Verdict.FAIL:
        return f"expected {result.expected}; seen {result.seen}"
    return result.reason


def print_comparison(console: Console, sides: Mapping[str, Side]) -> None:
    """The differing verdicts first, then what failed with its evidence, the counts, and how it ended."""
    entries = differences(sides)
    widths = (12, 6, *(max(len(name), 9) for name in sides))
    columns = width(console)
    if entries:
        head = Text("  ".join(f"{word:<{size}}" for word, size in zip(("", "", *sides), widths, strict=True)))
        head.stylize("bold")
        print_line(console, head)
    for entry in entries:
        verdicts = [result.verdict for result in entry.results.values()]
        cells = [(entry.requirement.id, ""), (str(entry.requirement.level), "dim")]
        cells += [(str(verdict), terminal.STYLES[verdict]) for verdict in verdicts]
        row(console, cells, widths, entry.requirement.rule)
        for name, result in entry.results.items():
            if text := _why(result):
                print_lines(console, wrap(f"{name}: {clean(text)}", columns, "    "), "dim")
    for side in sides.values():
        terminal.print_failures(console, side.context, side.results)
    console.print()
    tested = len({requirement for side in sides.values() for requirement in _judged(side)})
    print_line(console, Text(_summary(len(entries), tested), "bold" if entries else ""))
    for name, side in sides.items():
        text = f"{name}: {terminal.totals(side.results)}; {side.seconds:.1f}{NO_BREAK}s"
        print_lines(console, wrap(text, columns, "  ", ""))
    first = next(iter(sides.values())).context
    about = f"driver {first.driver}, catalogue {first.catalogue}, " + ", ".join(
        f"{name} cluster with Kubernetes {side.context.kubernetes}" for name, side in sides.items()
    )
    print_lines(console, wrap(about, columns, "  ", ""))
    codes = {name: document.exit_code(side.results) for name, side in sides.items()}
    gravest = exit_code(list(codes.values()))
    those = ", ".join(name for name, code in codes.items() if code == gravest)
    text = f"{those}: {terminal.CONCLUSIONS[gravest]}"
    print_line(console, Text(text, "bold green" if gravest == 0 else "bold red"))


def _judged(side: Side) -> list[str]:
    return [result.requirement.id for result in side.results if result.verdict is not Verdict.DISABLED]


def _summary(different: int, total: int) -> str:
    if not different:
        return f"No verdict differs: {total} requirements."
    return f"{different} of {total} requirements {'has' if different == 1 else 'have'} different verdicts."
