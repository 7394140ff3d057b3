"""One conformance run, from the plan to the reports."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import gates
from clusters.descriptor import Descriptor
from clusters.embedded.cluster import EmbeddedCluster, check_room
from clusters.interface import ClusterSpec
from conformance import catalogue
from conformance.cluster.environment import ClusterEnvironment, cluster_spec
from conformance.contract.environment import ContractEnvironment
from conformance.events import Event, Note, RunFinished
from conformance.model import Isolation, Requirement, Result
from conformance.planner import Plan, Target, plan
from conformance.report import document, junit, terminal
from conformance.runner import Bench, Environment, Runner
from drakit.output import UserError, say, standard_output, write_out
from drakit.version import __version__

TIER = "embedded"
_VERSION = "1.37"
_FEW = 3
_CONTRACT = "contract"
_BARE = ClusterSpec(version=_VERSION, control_plane=False)


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
    # Clusters are started with the gates that the requirements ask for.
    target = Target(_VERSION, dict.fromkeys(gates.GATES_1_37, True), EmbeddedCluster.CAPABILITIES)
    order = list(catalogue.requirements().values())
    chosen = plan(order, subject, target, focus, skip)
    context = document.Context(
        driver=subject.name,
        descriptor=str(subject.path),
        capabilities=sorted(subject.capabilities),
        tier=TIER,
        kubernetes=_VERSION,
        kit=__version__,
        catalogue=catalogue.version(),
        started=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        gates={},
    )
    results, seconds = _run(subject, chosen, order, parallel)
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
    subject: Descriptor, chosen: Plan, order: Sequence[Requirement], parallel: int
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
        with _Environments(subject, chosen.run, listen) as environments:
            runner = Runner(
                environments,
                catalogue.tests(),
                listen,
                parallel=parallel,
                alone=_alone,
                gaps_apply=lambda gap: _VERSION in gap.versions,
                redact=environments.redact,
            )
            runner.run(chosen, order)
    finally:
        progress.close()
    return finished[0].results, finished[0].seconds


def _alone(requirement: Requirement) -> bool:
    """Contract tests that break something do so on a node of their own."""
    return requirement.suite != _CONTRACT and requirement.isolation is Isolation.DISRUPTIVE


def _spec(requirement: Requirement) -> ClusterSpec:
    return _BARE if requirement.suite == _CONTRACT else cluster_spec(requirement)


class _Environments:
    """One cluster for each set of requirements that can share it."""

    def __init__(self, subject: Descriptor, run: Sequence[Requirement], listen: Any) -> None:
        self._subject = subject
        self._listen = listen
        self._counts: dict[ClusterSpec, int] = {}
        for requirement in run:
            spec = _spec(requirement)
            self._counts[spec] = self._counts.get(spec, 0) + 1
        self._clusters: list[EmbeddedCluster] = []
        self._environments: Mapping[ClusterSpec, Environment] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Environments:
        """Start the clusters. Raises ClusterError."""
        with contextlib.ExitStack() as stack:
            self._environments = {
                spec: stack.enter_context(self._start(spec, stack)) for spec in self._counts
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    def _start(self, spec: ClusterSpec, stack: contextlib.ExitStack) -> Any:
        what = f"{len(spec.nodes)} nodes" if spec.control_plane else "an API server for the driver contract"
        with_gates = "".join(f", {name} on" for name, on in spec.gates if on)
        self._listen(
            Note(
                f"{self._subject.name}: starting an embedded cluster (Kubernetes {spec.version}): {what}{with_gates}"
            )
        )
        cluster = stack.enter_context(EmbeddedCluster(spec))
        self._clusters.append(cluster)
        if not spec.control_plane:
            return ContractEnvironment(cluster, self._subject, few=self._counts[spec] <= _FEW)
        cluster.wait_ready()
        return ClusterEnvironment(cluster, self._subject)

    def bench(self, requirement: Requirement) -> AbstractContextManager[Bench]:
        """A bench on the cluster of the requirement."""
        return self._environments[_spec(requirement)].bench(requirement)

    def redact(self, text: str) -> str:
        """The text without the credentials of any cluster."""
        for cluster in self._clusters:
            text = cluster.redact(text)
        return text


__all__ = ["judge", "quiet"]
