"""`drakit conformance`: judge a driver."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters import descriptor as descriptors
from clusters.descriptor import Descriptor
from clusters.document import DocumentError
from clusters.embedded.cluster import EmbeddedCluster, check_room
from clusters.interface import ClusterError, ClusterSpec
from conformance import catalogue
from conformance.contract.environment import GATE, ContractEnvironment
from conformance.events import Event, Note, RunFinished
from conformance.model import InputError, Requirement, Result
from conformance.planner import Plan, SelectionError, Target, check_patterns, matches, plan
from conformance.report import document, junit, terminal
from conformance.runner import Runner
from drakit.errors import UserError, say, write_out
from drakit.interrupt import stoppable
from drakit.version import __version__

TIER = "embedded"
_FEW = 3


class _ProgressConsole(Console):
    """A console on stderr that goes silent when nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


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
        check_room(subject.name)
        with stoppable(), _report_folder(report_dir):
            return _judge(subject, focus, skip, report_dir, as_json, parallel)
    except (DocumentError, SelectionError, ClusterError) as error:
        raise UserError(str(error)) from None
    except InputError as error:
        raise UserError(f"{driver}: {error}") from None
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
        write_out(json.dumps(rows, indent=2) + "\n")
    else:
        with _standard_output() as console:
            terminal.print_requirements(console, chosen)
    return 0


@contextlib.contextmanager
def _standard_output() -> Iterator[Console]:
    """A console for standard output; what is printed on it is written at the end."""
    console = Console(file=sys.stdout or io.StringIO())
    with console.capture() as capture:
        yield console
    write_out(capture.get())


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
    unwritten = ""
    if report_dir is not None:
        unwritten = _write_reports(report_dir, document.to_json(report), junit.build(context, results))
    if as_json:
        write_out(document.to_json(report))
    else:
        with _standard_output() as console:
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


@contextlib.contextmanager
def _report_folder(folder: Path | None) -> Iterator[None]:
    """Make the folder of the reports and fail before the run rather than after it; leave none without reports."""
    if folder is None:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".drakit-"):
            pass
    except OSError as error:
        _remove_empty(made)
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise UserError(f"--report {folder}: cannot write there: {why}; choose another folder") from None
    try:
        yield
    finally:
        _remove_empty(made)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


__all__ = ["UserError", "command", "quiet"]

if __name__ == "__main__":
    sys.exit(command())
