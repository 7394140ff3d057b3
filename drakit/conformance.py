"""`drakit conformance`: judge a driver."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from clusters import descriptor as descriptors
from clusters import gates
from clusters.document import DocumentError
from clusters.interface import ClusterError
from conformance import catalogue
from conformance.model import InputError
from conformance.planner import SelectionError, check_patterns, matches
from conformance.report import terminal
from drakit import existing, tiers
from drakit.interrupt import stoppable
from drakit.output import UserError, say, standard_output, write_out
from drakit.tiers import Tier


@click.command("conformance")
@click.argument("driver", required=False, type=click.Path(path_type=Path), metavar="[DRIVER.yaml]")
@click.option("--list", "show_list", is_flag=True, help="Show the suites and their requirements, and stop.")
@click.option(
    "--tier",
    type=click.Choice(tiers.NAMES),
    help="The kind of cluster: drakit's own, which needs nothing, real Kubernetes, which needs root, or kind's.  "
    f"[default: {tiers.DEFAULT}]",
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default="",
    help="Kubernetes of a local or kind cluster, such as 1.36.  [default: the latest]",
)
@click.option(
    "--binaries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Take the binaries of a local cluster from here.",
)
@click.option(
    "--feature-gates",
    metavar="GATE=true,...|all",
    help="One cluster with these gates for all requirements; all switches every gate of DRA on.  "
    "[default: a cluster for each set of gates that requirements need]",
)
@click.option("--keep", is_flag=True, help="Keep a kind cluster for the next run, which uses it again.")
@click.option(
    "--compare",
    metavar="TIER,TIER",
    help="Judge on each of these kinds of clusters and show which verdicts differ.",
)
@click.option(
    "--focus",
    multiple=True,
    metavar="PATTERN",
    help="Run only these: an id, a glob over ids, an area or a suite; may be given several times.",
)
@click.option("--skip", multiple=True, metavar="PATTERN", help="Leave these out; may be given several times.")
@click.option(
    "--report",
    "report_dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write report.json and junit.xml there; with --compare in a folder for each tier.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on standard output.")
@click.option(
    "--parallel",
    type=click.IntRange(1, 64),
    help="Tests at the same time.  [default: 14; 6 with --kubeconfig]",
)
@existing.options
def command(
    driver: Path | None,
    show_list: bool,
    tier: str | None,
    kubernetes_version: str,
    binaries: Path | None,
    feature_gates: str | None,
    keep: bool,
    compare: str | None,
    focus: tuple[str, ...],
    skip: tuple[str, ...],
    report_dir: Path | None,
    as_json: bool,
    parallel: int | None,
    **words: Any,
) -> int:
    """Judge a DRA driver, and the cluster that it runs on: a verdict per requirement, with evidence.

    DRIVER.yaml describes how to start the driver; docs/descriptor.md explains it. Suite "contract": the kit starts an
    API server, plays the kubelet, and runs every requirement that the driver declares to meet. Suite "allocation": the
    driver runs on a whole cluster, and Pods with claims are followed from manifest to container. With --kubeconfig that
    is a cluster of yours that has the driver: only what it allows is asked, and nothing is left on it.
    """
    try:
        if show_list:
            return _list(focus, skip, as_json)
        if driver is None:
            raise UserError(
                "which driver? Give its descriptor: drakit conformance DRIVER.yaml (--list needs none)"
            )
        wishes = existing.wishes(words)
        others = {
            "--tier": tier,
            "--compare": compare,
            "--kubernetes-version": kubernetes_version,
            "--binaries": binaries,
            "--feature-gates": feature_gates,
            "--keep": keep,
        }
        if wishes is not None and (given := [option for option, value in others.items() if value]):
            raise UserError(
                f"{given[0]} and --kubeconfig exclude each other: the cluster is there, and as it is"
            )
        chosen = [] if wishes else _tiers(tier, compare, kubernetes_version, binaries, keep=keep)
        check_patterns(catalogue.requirements().values(), [*focus, *skip])
        subject = descriptors.load(driver, catalogue.capabilities())
        on = _gates(feature_gates, chosen)
        if wishes is None:
            descriptors.check_start(subject)
        with stoppable() as last, _report_folder(report_dir, last):
            # The parts of a cluster take their time to load: mistakes are told without them.
            from drakit.compare import compare as run_all
            from drakit.judge import Order, judge

            if wishes is not None:
                order = Order(subject, focus, skip, parallel or existing.PARALLEL)
                with existing.connect(wishes, subject, say) as cluster:
                    return judge(
                        order, existing.tier(cluster, wishes), report_dir=report_dir, as_json=as_json
                    )
            order = Order(subject, focus, skip, parallel or Order.parallel, on)
            if compare is None:
                return judge(order, chosen[0], report_dir=report_dir, as_json=as_json)
            return run_all(order, chosen, report_dir=report_dir, as_json=as_json)
    except (DocumentError, SelectionError, ClusterError) as error:
        raise UserError(str(error)) from None
    except InputError as error:
        raise UserError(f"{driver}: {error}") from None
    except KeyboardInterrupt:
        raise click.Abort from None


def _tiers(
    name: str | None, compare: str | None, version: str, binaries: Path | None, *, keep: bool
) -> list[Tier]:
    """The tiers to judge on. Raises UserError, ClusterError."""
    if compare is None:
        return [tiers.find(name or tiers.DEFAULT, version, binaries, keep=keep)]
    if keep:
        raise UserError("--keep and --compare exclude each other: one cluster is kept")
    if name is not None:
        raise UserError("--tier and --compare exclude each other: --compare names the tiers")
    names = [word.strip() for word in compare.split(",") if word.strip()]
    if len(names) < 2 or len(set(names)) != len(names):
        raise UserError(f'--compare {compare}: give different tiers, such as "{",".join(tiers.NAMES)}"')
    # Others have no binaries to choose.
    return [tiers.find(word, version, binaries if word == "local" else None) for word in names]


def _gates(text: str | None, chosen: Sequence[Tier]) -> dict[str, bool] | None:
    """The gates of the only cluster. Raises UserError for what one of the versions does not have."""
    if text is None:
        return None
    result: dict[str, bool] = {}
    try:
        for tier in chosen:
            result = gates.choose(text, tier.version)
            gates.effective(result, tier.version)
    except gates.GateError as error:
        raise UserError(f"--feature-gates: {error}") from None
    return result


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
                "suite": requirement.suite,
                "level": requirement.level,
                "area": requirement.area,
                "rule": requirement.rule,
                "capability": requirement.capability,
                "hooks": requirement.hooks,
                "source": requirement.source,
                "isolation": requirement.isolation,
                "since": requirement.since,
                "until": requirement.until,
                "gates": requirement.gates,
                "needs": requirement.needs,
                "knownGaps": [dataclasses.asdict(gap) for gap in requirement.known_gaps],
            }
            for requirement in chosen
        ]
        write_out(json.dumps(rows, indent=2) + "\n")
    else:
        with standard_output() as console:
            terminal.print_requirements(console, chosen)
    return 0


@contextlib.contextmanager
def _report_folder(folder: Path | None, last: list[Callable[[], None]]) -> Iterator[None]:
    """Make the folder of the reports and fail before the run rather than after it; leave none without reports.

    `last` is what happens before a sudden end.
    """
    if folder is None:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    last.append(lambda: _remove_empty(made))
    try:
        _check_writable(folder)
        yield
    finally:
        _remove_empty(made)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".drakit-"):
            pass
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise UserError(f"--report {folder}: cannot write there: {why}; choose another folder") from None


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(command())
