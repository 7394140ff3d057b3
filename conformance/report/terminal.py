"""What a person sees: live progress on stderr, then the table of requirements on stdout."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from conformance.events import Event, Note, RequirementFinished, RequirementStarted, RunFinished, RunStarted
from conformance.model import Evidence, Level, Requirement, Result, Verdict
from conformance.report.document import Context, exit_code, reproduce
from conformance.report.layout import NO_BREAK, clean, cut, print_line, print_lines, row, width, wrap

STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold magenta",
    Verdict.SKIP: "yellow",
    Verdict.KNOWN_GAP: "yellow",
    Verdict.DISABLED: "dim",
}
CONCLUSIONS: Mapping[int, str] = {
    0: "All declared MUSTs that were tested hold.",
    1: "A declared MUST failed.",
    2: "Not every requirement could be judged: the descriptor, or the cluster, does not work.",
    3: "The kit itself broke: please report it with report.json (--report DIR writes it).",
    4: "Nothing was tested.",
}
_EVIDENCE_LINES = 12
_EVIDENCE_COLUMNS = 160
_SEEN_CHARACTERS = 600
_FOLD_FROM = 3


class ProgressListener:
    """Live progress: a bar on a terminal, plain lines elsewhere. Nobody has to read it: a closed stream is no error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._running: dict[str, None] = {}
        self._told: set[str] = set()
        self._done = self._planned = 0
        self._bar: Progress | None = None
        self._task = None if not console.is_terminal else -1

    def __call__(self, event: Event) -> None:
        """Take the next event of a run."""
        try:
            self._take(event)
        except OSError:
            self._console.quiet = True

    def _take(self, event: Event) -> None:
        match event:
            case Note(text):
                print_line(self._console, Text(text, style="dim"))
            case RunStarted(_, planned):
                self._planned = planned
                if self._console.is_terminal and not self._console.is_dumb_terminal:
                    self._start_bar(planned)
            case RequirementStarted(requirement):
                self._running[requirement.id] = None
                self._update()
            case RequirementFinished(result):
                self._done += 1
                self._finished(result)
            case RunFinished():
                self.close()

    def close(self) -> None:
        """Take the bar away; safe to call twice."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _start_bar(self, planned: int) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=20),
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
        started = result.requirement.id in self._running
        self._running.pop(result.requirement.id, None)
        self._update(advance=1)
        if not started:
            # Settled with many others for one reason, which is enough to say once.
            if result.reason not in self._told:
                self._told.add(result.reason)
                print_line(self._console, Text(f"the rest is left out, {result.reason}", "yellow"))
            return
        if self._bar is None or result.verdict in (Verdict.FAIL, Verdict.ERROR):
            line = Text(f"[{self._done:>{len(str(self._planned))}}/{self._planned}] ")
            line.append(f"{result.verdict:<9}", style=STYLES[result.verdict])
            line.append(f" {result.requirement.id:<12} {result.seconds:6.2f} s  {result.requirement.rule}")
            if self._bar is not None:
                line.truncate(self._console.width, overflow="ellipsis")
            print_line(self._console, line)


def print_requirements(console: Console, requirements: Sequence[Requirement]) -> None:
    """The catalogue, for --list: by suite and area, with what a driver and a cluster need to have for each."""
    for suite, of_suite in itertools.groupby(requirements, lambda requirement: requirement.suite):
        print_line(console, Text(f"suite {suite}", "bold underline"))
        console.print()
        for area, members in itertools.groupby(of_suite, lambda requirement: requirement.area):
            print_line(console, Text(area, "bold"))
            for requirement in members:
                cells = [(requirement.id, ""), (str(requirement.level), "")]
                row(console, cells, (12, 6), requirement.rule, _conditions(requirement))
            console.print()
    suites = collections.Counter(requirement.suite for requirement in requirements)
    parts = ", ".join(f"{count} in suite {suite}" for suite, count in suites.items())
    print_lines(console, wrap(f"{len(requirements)} requirements: {parts}", width(console), "  ", ""))


def _conditions(requirement: Requirement) -> str:
    needs = [f"capability {requirement.capability}"] if requirement.capability else []
    needs += [f"hook {hook}" for hook in requirement.hooks]
    needs += [f"gate {gate}" for gate in requirement.gates]
    needs += [f"a cluster that can {need}" for need in requirement.needs]
    parts = [f"needs {', '.join(needs)}"] if needs else []
    if requirement.since != Requirement.since:
        parts.append(f"since Kubernetes {requirement.since}")
    if requirement.until:
        parts.append(f"until Kubernetes {requirement.until}")
    parts += [
        f"known gap of {gap.component} {', '.join(gap.versions)}: {gap.issue}"
        for gap in requirement.known_gaps
    ]
    return "; ".join(parts)


def print_results(console: Console, context: Context, results: Sequence[Result], seconds: float) -> None:
    """The table of verdicts by area, the failures with their evidence, the totals."""
    reasons = collections.Counter(result.reason for result in results if result.verdict is Verdict.SKIP)
    folded = {reason: count for reason, count in reasons.items() if count >= _FOLD_FROM}
    shown = [
        result
        for result in results
        if result.verdict is not Verdict.DISABLED
        and not (result.verdict is Verdict.SKIP and result.reason in folded)
    ]
    for area, members in itertools.groupby(shown, lambda result: result.requirement.area):
        console.print()
        print_line(console, Text(area, "bold"))
        for result in members:
            requirement = result.requirement
            cells = [
                (str(result.verdict), STYLES[result.verdict]),
                (requirement.id, ""),
                (str(requirement.level), "dim"),
            ]
            row(console, cells, (9, 12, 6), requirement.rule, clean(result.reason))
    for reason in folded:
        _print_folded(console, reason, [result for result in results if result.reason == reason])
    print_failures(console, context, results)
    console.print()
    columns = width(console)
    print_lines(console, wrap(totals(results), columns, "  ", ""))
    about = (
        f"driver {context.driver}, {context.tier} cluster, Kubernetes {context.kubernetes}{_with(context.gates)}, "
        f"catalogue {context.catalogue}, {seconds:.1f}{NO_BREAK}s"
    )
    print_lines(console, wrap(about, columns, "  ", ""))
    code = exit_code(results)
    print_line(console, Text(CONCLUSIONS[code], "bold green" if code == 0 else "bold red"))


def print_failures(console: Console, context: Context, results: Iterable[Result]) -> None:
    """What failed or could not be judged, with its evidence."""
    for result in results:
        # A known gap is not the driver's: the table gives the issue, and report.json what was seen.
        if result.verdict in (Verdict.FAIL, Verdict.ERROR):
            _print_failure(console, context, result)


def _with(gates: Mapping[str, bool]) -> str:
    return "".join(f", {name} {'on' if on else 'off'}" for name, on in gates.items())


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


def _print_folded(console: Console, reason: str, results: Sequence[Result]) -> None:
    """Many skips for one reason as one entry."""
    console.print()
    columns = width(console)
    title = Text("skip", STYLES[Verdict.SKIP])
    first, *more = wrap(f"{len(results)} requirements: {clean(reason)}", columns, "    ", "skip  ")
    print_line(console, title.append(first.removeprefix("skip"), "default not bold"))
    print_lines(console, more)
    names = ", ".join(result.requirement.id for result in results)
    print_lines(console, wrap(names, columns, "    "), "dim")


def _print_failure(console: Console, context: Context, result: Result) -> None:
    columns = width(console)
    console.print()
    title = Text(f"{result.requirement.id} ")
    title.append(result.verdict, STYLES[result.verdict])
    print_line(console, title)
    print_lines(console, wrap(result.requirement.rule, columns, "  "))
    for name, text in (("reason", result.reason), ("expected", result.expected), ("seen", result.seen)):
        if text:
            print_lines(
                console, wrap(cut(clean(text), _SEEN_CHARACTERS), columns, " " * 12, f"  {name + ':':<9} ")
            )
    for item in result.evidence:
        _print_evidence(console, item, columns)
    print_line(console, Text(f"  reproduce: {reproduce(context, result)}"))


def _print_evidence(console: Console, item: Evidence, columns: int | None) -> None:
    lines = item.text.strip().splitlines()
    shown = lines[-_EVIDENCE_LINES:] if item.kind == "log" else lines[:_EVIDENCE_LINES]
    left_out = f" ({len(lines) - len(shown)} more lines in report.json)" if len(lines) > len(shown) else ""
    room = max(columns or 0, _EVIDENCE_COLUMNS)
    print_lines(console, wrap(f"{item.kind}: {item.title}{left_out}", columns, "    ", "  "), "dim")
    print_lines(console, [cut("    " + clean(line.expandtabs(4)), room) for line in shown], "dim")
