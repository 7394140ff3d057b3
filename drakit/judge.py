"""One conformance run, from the plan to the reports."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters.descriptor import Descriptor
from clusters.embedded.cluster import EmbeddedCluster, check_room
from clusters.interface import ClusterSpec
from conformance import catalogue
from conformance.contract.environment import GATE, ContractEnvironment
from conformance.events import Event, Note, RunFinished
from conformance.model import Requirement, Result
from conformance.planner import Plan, Target, plan
from conformance.report import document, junit, terminal
from conformance.runner import Runner
from drakit.output import UserError, say, standard_output, write_out
from drakit.version import __version__

TIER = "embedded"
_FEW = 3


class _ProgressConsole(Console):
    """A console on stderr that goes silent when nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def judge(
    subject: Descriptor,
    focus: tuple[str, ...],
    skip: tuple[str, ...],
    *,
    report_dir: Path | None,
    as_json: bool,
    parallel: int,
) -> int:
    """Run what is asked for on an embedded cluster, write and print the reports, and return the exit code.

    Raises ClusterError, InputError and UserError when the user has to change something.
    """
    check_room(subject.name)
    spec = ClusterSpec(control_plane=False)
    target = Target(spec.version, dict(spec.gates), EmbeddedCluster.CAPABILITIES)
    order = list(catalogue.requirements().values())
    chosen = plan(order, subject, target, focus, skip)
    context = document.Context(
        driver=subject.name,
        descriptor=str(subject.path),
        capabilities=sorted(subject.capabilities),
        tier=TIER,
        kubernetes=spec.version,
        kit=__version__,
        catalogue=catalogue.version(),
        started=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        gates=dict(spec.gates),
    )
    results, seconds = _run(subject, spec, chosen, order, parallel)
    report = document.build(context, results, seconds)
    unwritten = ""
    if report_dir is not None:
        unwritten = _write_reports(report_dir, document.to_json(report), junit.build(context, results))
    if as_json:
        write_out(document.to_json(report))
    else:
        with standard_output() as console:
            terminal.print_results(console, context, results, seconds)
            if report_dir is not None and not unwritten:
                console.print(
                    f"reports: {report_dir / 'report.json'}, {report_dir / 'junit.xml'}",
                    soft_wrap=True,
                    highlight=False,
                    markup=False,
                )
    if unwritten:
        raise UserError(unwritten)
    code = document.exit_code(results)
    if as_json and code:
        say(terminal.CONCLUSIONS[code])
    return code


def _write_reports(folder: Path, report: str, cases: str) -> str:
    """Write both reports; what prevented it, or the empty string."""
    try:
        document.write(folder / "report.json", report)
        document.write(folder / "junit.xml", cases)
    except OSError as error:
        return f"--report {folder}: the reports could not be written: {error.strerror}"
    return ""


def _run(
    subject: Descriptor, spec: ClusterSpec, chosen: Plan, order: Sequence[Requirement], parallel: int
) -> tuple[tuple[Result, ...], float]:
    finished: list[RunFinished] = []
    progress = terminal.ProgressListener(_ProgressConsole(stderr=True))

    def listen(event: Event) -> None:
        progress(event)
        if isinstance(event, RunFinished):
            finished.append(event)

    if not chosen.run:
        by_id = {result.requirement.id: result for result in chosen.settled}
        return tuple(by_id[requirement.id] for requirement in order), 0.0
    try:
        listen(Note(f"{subject.name}: starting an embedded cluster (Kubernetes {spec.version})"))
        few = len(chosen.run) <= _FEW
        with (
            EmbeddedCluster(spec) as cluster,
            ContractEnvironment(cluster, subject, few=few) as environment,
        ):
            runner = Runner(
                environment, catalogue.tests(), listen, parallel=parallel, gate=GATE, redact=cluster.redact
            )
            runner.run(chosen, order)
    finally:
        progress.close()
    return finished[0].results, finished[0].seconds


__all__ = ["judge", "quiet"]
