"""`drakit conformance`: judge a driver."""

from __future__ import annotations

import contextlib
import datetime
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from clusters import descriptor as descriptors
from clusters.descriptor import Descriptor
from clusters.document import DocumentError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec
from clusters.process import StartError
from conformance import catalogue
from conformance.contract.environment import GATE, ContractEnvironment
from conformance.events import Event, Note, RunFinished
from conformance.model import Requirement, Result
from conformance.planner import Plan, SelectionError, Target, check_patterns, matches, plan
from conformance.report import document, junit, terminal
from conformance.runner import Runner
from drakit.version import __version__

TIER = "embedded"


class UserError(click.ClickException):
    """A mistake in usage or input: one clear line, exit code 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Print the message, each line with the program's name."""
        for line in self.message.splitlines():
            click.echo(f"drakit: {line}", err=True)


@click.command("conformance")
@click.argument("driver", required=False, type=click.Path(path_type=Path), metavar="[DRIVER.yaml]")
@click.option("--list", "show_list", is_flag=True, help="Show the requirements and stop.")
@click.option(
    "--focus", multiple=True, metavar="PATTERN", help="Run only these: an id, a glob over ids, or an area."
)
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave these out; may be given several times.")
@click.option(
    "--report",
    "report_dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write report.json and junit.xml there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output.")
@click.option(
    "--parallel", type=click.IntRange(1, 64), default=10, show_default=True, help="Tests at the same time."
)
def command(
    driver: Path | None,
    show_list: bool,
    focus: tuple[str, ...],
    skip: tuple[str, ...],
    report_dir: Path | None,
    as_json: bool,
    parallel: int,
) -> int:
    """Judge a DRA driver over its own sockets: a verdict per requirement, with evidence.

    DRIVER.yaml describes how to start the driver; docs/descriptor.md explains it. The kit starts an API server, plays
    the kubelet, and runs every requirement that the driver declares to meet.
    """
    try:
        if show_list:
            return _list(focus, skip, as_json)
        if driver is None:
            raise UserError(
                "which driver? Give its descriptor: drakit conformance DRIVER.yaml (--list needs none)"
            )
        check_patterns(catalogue.requirements().values(), [*focus, *skip])
        subject = descriptors.load(driver, catalogue.capabilities())
        if report_dir is not None:
            _check_writable(report_dir)
        with _terminate_as_interrupt():
            return _judge(subject, focus, skip, report_dir, as_json, parallel)
    except (DocumentError, SelectionError, StartError) as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None


def _list(focus: tuple[str, ...], skip: tuple[str, ...], as_json: bool) -> int:
    everything = list(catalogue.requirements().values())
    check_patterns(everything, [*focus, *skip])
    chosen = [
        requirement
        for requirement in everything
        if (not focus or any(matches(requirement, pattern) for pattern in focus))
        and not any(matches(requirement, pattern) for pattern in skip)
    ]
    if as_json:
        rows = [
            {
                "id": requirement.id,
                "level": requirement.level,
                "area": requirement.area,
                "rule": requirement.rule,
                "capability": requirement.capability,
                "hooks": requirement.hooks,
                "source": requirement.source,
                "isolation": requirement.isolation,
                "since": requirement.since,
            }
            for requirement in chosen
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        Console().print(terminal.requirements_table(chosen))
    return 0


def _judge(
    subject: Descriptor,
    focus: tuple[str, ...],
    skip: tuple[str, ...],
    report_dir: Path | None,
    as_json: bool,
    parallel: int,
) -> int:
    spec = ClusterSpec()
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
    if report_dir is not None:
        document.write(report_dir / "report.json", document.to_json(report))
        document.write(report_dir / "junit.xml", junit.build(context, results))
    if as_json:
        click.echo(document.to_json(report), nl=False)
    else:
        terminal.print_results(Console(), context, results, seconds)
        if report_dir is not None:
            click.echo(f"reports: {report_dir / 'report.json'}, {report_dir / 'junit.xml'}")
    return document.exit_code(results)


def _run(
    subject: Descriptor, spec: ClusterSpec, chosen: Plan, order: Sequence[Requirement], parallel: int
) -> tuple[tuple[Result, ...], float]:
    finished: list[RunFinished] = []
    progress = terminal.ProgressListener(Console(stderr=True))

    def listen(event: Event) -> None:
        progress(event)
        if isinstance(event, RunFinished):
            finished.append(event)

    try:
        listen(Note(f"{subject.name}: starting an embedded cluster (Kubernetes {spec.version})"))
        with (
            EmbeddedCluster(spec) as cluster,
            ContractEnvironment(cluster, subject, few=len(chosen.run) <= 3) as environment,
        ):
            runner = Runner(environment, catalogue.tests(), listen, parallel=parallel, gate=GATE)
            runner.run(chosen, order)
    finally:
        progress.close()
    return finished[0].results, finished[0].seconds


def _check_writable(folder: Path) -> None:
    """Fail before the run rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"--report {folder}: cannot write there: {error.strerror}; choose another folder"
        ) from None


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """SIGTERM cleans up like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


__all__ = ["UserError", "command"]

if __name__ == "__main__":
    sys.exit(command())
