"""One conformance run, from the plan to the reports."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import gates
from clusters.descriptor import Descriptor
from clusters.kind import failpoints
from conformance import catalogue
from conformance.events import Event, RequirementFinished, RunFinished
from conformance.model import Requirement, Result
from conformance.planner import Plan, plan
from conformance.report import document, junit, terminal
from conformance.runner import Runner
from drakit.environments import Environments, alone, takes_turns
from drakit.output import UserError, say, standard_output, write_out
from drakit.tiers import Tier
from drakit.version import __version__


class _ProgressConsole(Console):
    """A console on stderr that goes silent when nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


@dataclass(frozen=True)
class Order:
    """What is asked for: the driver, which requirements, and how many tests at the same time.

    `gates` are those of one cluster for all requirements; without them there is one for each set that these need.
    """

    subject: Descriptor
    focus: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    parallel: int = 14
    gates: Mapping[str, bool] | None = None

    def settled_gates(self, version: str) -> dict[str, bool]:
        """The value of every gate, as far as requirements may count on it. Raises GateError."""
        if self.gates is None:
            # Clusters are started with the gates that the requirements ask for.
            return dict.fromkeys(gates.known(version), True)
        return gates.effective(self.gates, version)


@dataclass(frozen=True)
class Run:
    """A finished run on one tier."""

    context: document.Context
    results: tuple[Result, ...]
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        """The report as a document."""
        return document.build(self.context, self.results, self.seconds)

    @property
    def exit_code(self) -> int:
        """How the run ended."""
        return document.exit_code(self.results)


def judge(order: Order, tier: Tier, *, report_dir: Path | None, as_json: bool) -> int:
    """Run what is asked for on a tier, write and print the reports, and return the exit code.

    Raises ClusterError, InputError and UserError when the user has to change something.
    """
    done = run(order, tier)
    unwritten = write_reports(report_dir, done) if report_dir is not None else ""
    if as_json:
        write_out(document.to_json(done.report))
    else:
        with standard_output() as console:
            terminal.print_results(console, done.context, done.results, done.seconds)
            if report_dir is not None and not unwritten:
                print_report_files(console, [report_dir])
    if unwritten:
        raise UserError(unwritten)
    if as_json and done.exit_code:
        say(terminal.CONCLUSIONS[done.exit_code])
    return done.exit_code


def run(order: Order, tier: Tier) -> Run:
    """Run what is asked for on clusters of a tier, with progress on stderr.

    Raises ClusterError, InputError and UserError when the user has to change something.
    """
    subject = order.subject
    tier.check_driver(subject.name)
    target = tier.target(order.settled_gates(tier.version))
    everything = list(catalogue.requirements().values())
    chosen = plan(everything, subject, target, order.focus, order.skip)
    context = document.Context(
        driver=subject.name,
        descriptor=str(subject.path),
        capabilities=sorted(subject.capabilities),
        tier=tier.name,
        kubernetes=tier.version,
        kit=__version__,
        catalogue=catalogue.version(),
        started=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        gates=_gates(chosen, order, tier),
        options=(*tier.options, *_gate_words(order)),
    )
    results, seconds = _run(order, tier, chosen, everything)
    return Run(context, results, seconds)


def write_reports(folder: Path, done: Run) -> str:
    """Write both reports; what prevented it, or the empty string."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        document.write(folder / "report.json", document.to_json(done.report))
        document.write(folder / "junit.xml", junit.build(done.context, done.results))
    except OSError as error:
        return f"--report {folder}: the reports could not be written: {error.strerror}"
    return ""


def print_report_files(console: Console, folders: Sequence[Path]) -> None:
    """Say where the reports are."""
    files = [str(folder / name) for folder in folders for name in ("report.json", "junit.xml")]
    console.print(f"reports: {', '.join(files)}", soft_wrap=True, highlight=False, markup=False)


def _gates(chosen: Plan, order: Order, tier: Tier) -> dict[str, bool]:
    """Gates that are other than by default in some cluster of the run."""
    if tier.gates is not None:
        return dict(tier.gates)
    table = gates.known(tier.version)
    if order.gates is not None:
        values = order.settled_gates(tier.version)
        return {gate: on for gate, on in sorted(values.items()) if on is not table[gate].default}
    wanted = {gate for requirement in chosen.run for gate in requirement.gates}
    return {gate: True for gate in sorted(wanted) if not table[gate].default}


def _gate_words(order: Order) -> tuple[str, ...]:
    """The words of a command line that choose the gates."""
    if order.gates is None:
        return ()
    return ("--feature-gates", ",".join(f"{name}={str(on).lower()}" for name, on in order.gates.items()))


def _run(
    order: Order, tier: Tier, chosen: Plan, everything: Sequence[Requirement]
) -> tuple[tuple[Result, ...], float]:
    finished: list[RunFinished] = []
    progress = terminal.ProgressListener(_ProgressConsole(stderr=True))

    def listen(event: Event) -> None:
        progress(event)
        if isinstance(event, RunFinished):
            finished.append(event)
        elif isinstance(event, RequirementFinished):
            failpoints.reach("suites-running")

    if not chosen.run:
        by_id = {result.requirement.id: result for result in chosen.settled}
        return tuple(by_id[requirement.id] for requirement in everything), 0.0
    try:
        one = order.gates if tier.gates is None else tier.gates
        with Environments(order.subject, tier, chosen.run, listen, one) as environments:
            runner = Runner(
                environments,
                catalogue.tests(),
                listen,
                parallel=order.parallel,
                alone=lambda requirement: alone(requirement, tier),
                takes_turns=lambda requirement: takes_turns(requirement, tier),
                cluster=environments.spec,
                gaps_apply=lambda gap: tier.version in gap.versions,
                redact=environments.redact,
            )
            runner.run(chosen, everything)
    finally:
        progress.close()
    return finished[0].results, finished[0].seconds


__all__ = ["Order", "Run", "judge", "print_report_files", "quiet", "run", "write_reports"]
