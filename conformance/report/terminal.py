"""What a person sees: live progress on stderr, then the table of requirements on stdout."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from conformance.events import Event, Note, RequirementFinished, RequirementStarted, RunFinished, RunStarted
from conformance.model import Level, Requirement, Result, Verdict
from conformance.report.document import Context, reproduce

STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold magenta",
    Verdict.SKIP: "yellow",
    Verdict.KNOWN_GAP: "yellow",
    Verdict.DISABLED: "dim",
}
_EVIDENCE_LINES = 12


class ProgressListener:
    """Live progress: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._running: dict[str, None] = {}
        self._done = self._planned = 0
        self._bar: Progress | None = None
        self._task = None if not console.is_terminal else -1

    def __call__(self, event: Event) -> None:
        """Take the next event of a run."""
        match event:
            case Note(text):
                self._console.print(Text(text, style="dim"))
            case RunStarted(_, planned):
                self._planned = planned
                if self._console.is_terminal:
                    self._start_bar(planned)
            case RequirementStarted(requirement):
                self._running[requirement.id] = None
                self._update()
            case RequirementFinished(result):
                self._running.pop(result.requirement.id, None)
                self._done += 1
                self._finished(result)
            case RunFinished():
                self.close()

    def close(self) -> None:
        """Take the bar away; safe to call twice."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _start_bar(self, planned: int) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=planned)
        self._bar.start()

    def _update(self, advance: int = 0) -> None:
        if self._bar is not None and self._task is not None:
            names = ", ".join(list(self._running)[:4])
            self._bar.update(self._task, advance=advance, description=names)  # type: ignore[arg-type]

    def _finished(self, result: Result) -> None:
        self._update(advance=1)
        if self._bar is None or result.verdict in (Verdict.FAIL, Verdict.ERROR):
            line = Text(f"[{self._done}/{self._planned}] ")
            line.append(f"{result.verdict:<9}", style=STYLES[result.verdict])
            line.append(f" {result.requirement.id:<12} {result.seconds:6.2f} s  {result.requirement.rule}")
            self._console.print(line, soft_wrap=True)


def requirements_table(requirements: Iterable[Requirement]) -> Table:
    """The catalogue, for --list."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("ID", "LEVEL", "AREA", "NEEDS"):
        table.add_column(name, no_wrap=True)
    table.add_column("REQUIREMENT")
    for requirement in requirements:
        needs = [requirement.capability] if requirement.capability else []
        table.add_row(
            requirement.id,
            str(requirement.level),
            requirement.area,
            Text(", ".join([*needs, *(f"hook {hook}" for hook in requirement.hooks)])),
            Text(requirement.rule),
        )
    return table


def print_results(console: Console, context: Context, results: Sequence[Result], seconds: float) -> None:
    """The table of verdicts, the failures with their evidence, the totals."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ID", no_wrap=True)
    table.add_column("LEVEL", no_wrap=True)
    table.add_column("VERDICT", no_wrap=True)
    table.add_column("REQUIREMENT")
    for result in results:
        if result.verdict is Verdict.DISABLED:
            continue
        rule = Text(result.requirement.rule)
        if result.reason:
            rule.append(f"\n{result.reason}", style="dim")
        table.add_row(
            result.requirement.id,
            str(result.requirement.level),
            Text(result.verdict, STYLES[result.verdict]),
            rule,
        )
    console.print(table)
    for result in results:
        if result.verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.KNOWN_GAP):
            _print_failure(console, context, result)
    console.print()
    console.print(Text(totals(results)), soft_wrap=True)
    console.print(
        Text(
            f"driver {context.driver}, {context.tier} cluster, Kubernetes {context.kubernetes}, "
            f"catalogue {context.catalogue}, {seconds:.1f} s"
        ),
        soft_wrap=True,
    )


def totals(results: Iterable[Result]) -> str:
    """One line per level: how many of each verdict; skips are counted and never equal a pass."""
    counts: dict[Level, collections.Counter[Verdict]] = {level: collections.Counter() for level in Level}
    for result in results:
        counts[result.requirement.level][result.verdict] += 1
    order = sorted(Verdict, key=lambda verdict: -verdict.rank)
    parts = []
    for level, found in counts.items():
        if found:
            parts.append(
                f"{level}: " + ", ".join(f"{found[verdict]} {verdict}" for verdict in order if found[verdict])
            )
    return "; ".join(parts)


def _print_failure(console: Console, context: Context, result: Result) -> None:
    console.print()
    title = Text(f"{result.requirement.id} ")
    title.append(result.verdict, STYLES[result.verdict])
    title.append(f"  {result.requirement.rule}")
    console.print(title, soft_wrap=True)
    for name, text in (("reason", result.reason), ("expected", result.expected), ("seen", result.seen)):
        if text:
            console.print(Text(textwrap.indent(f"{name}: {text}", "  ")), soft_wrap=True)
    for item in result.evidence:
        lines = item.text.strip().splitlines()
        shown = lines[-_EVIDENCE_LINES:] if item.kind == "log" else lines[:_EVIDENCE_LINES]
        left_out = (
            f" ({len(lines) - len(shown)} more lines in report.json)" if len(lines) > len(shown) else ""
        )
        console.print(Text(f"  {item.kind}: {item.title}{left_out}", style="dim"), soft_wrap=True)
        console.print(Text(textwrap.indent("\n".join(shown), "    "), style="dim"), soft_wrap=True)
    console.print(Text(f"  reproduce: {reproduce(context, result)}"), soft_wrap=True)
