"""`drakit doctor`: what a host, or a cluster, lacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from clusters import gates
from clusters.doctor.checks import HOST_CHECKS
from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.host import RealHost
from clusters.doctor.model import TIERS, Checked, State, Wanted, obstacles, run
from clusters.interface import ClusterError
from conformance.report.layout import clean
from drakit.output import UserError, say, write_out

_SCHEMA_VERSION: Final = 1
_CLUSTER: Final = "--kubeconfig"


@click.command("doctor")
@click.option("--list", "show_list", is_flag=True, help="Show every check and what it means, and stop.")
@click.option(
    "--tier", type=click.Choice(TIERS), help="Only what clusters of this kind need.  [default: all kinds]"
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default=gates.LATEST,
    show_default=True,
    help="Kubernetes of the cluster that is to be started.",
)
@click.option("--feature-gates", metavar="GATE=true,...", default="", help="Gates that it is to have.")
@click.option(
    "--runtime-config", metavar="API=true,...", default="", help="API versions that it is to serve."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of its API server.")
@click.option(
    "--binaries",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder with the binaries of a local cluster.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Look at this cluster instead of this host.",
)
@click.option(
    "--context", default="", metavar="NAME", help="The context of --kubeconfig.  [default: its current one]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    show_list: bool,
    tier: str | None,
    kubernetes_version: str,
    feature_gates: str,
    runtime_config: str,
    port: int,
    binaries: Path | None,
    kubeconfig: Path | None,
    context: str,
    as_json: bool,
) -> int:
    """Tell what is missing for clusters on this host, or what is wrong in a cluster, and what mends it.

    The exit code is 1 when something is missing for the --tier that is asked about; without --tier, when no kind of
    cluster can run. With --kubeconfig it is 1 when the cluster has a fault. Nothing is changed.
    """
    if show_list:
        write_out(_listing(as_json=as_json))
        return 0
    wanted = Wanted(kubernetes_version, feature_gates, runtime_config, port, binaries)
    if kubeconfig is not None:
        _refuse({"--tier": tier, "--runtime-config": runtime_config, "--port": port, "--binaries": binaries})
        return _cluster(kubeconfig, context, wanted, as_json=as_json)
    if context:
        raise UserError("--context names a context of a kubeconfig: give --kubeconfig as well")
    chosen = [check for check in HOST_CHECKS if tier is None or tier in check.tiers]
    try:
        checked = run(chosen, RealHost(), wanted)
    except KeyboardInterrupt:
        raise click.Abort from None
    tiers = (tier,) if tier else TIERS
    able = {name: not obstacles(checked, name) for name in tiers}
    code = int(not any(able.values()))
    write_out(_json(checked, able, code) if as_json else _text(checked, able))
    return code


def _refuse(host_options: dict[str, object]) -> None:
    if given := [name for name, value in host_options.items() if value]:
        raise UserError(f"{given[0]} is about this host; with --kubeconfig a cluster is looked at")


def _cluster(path: Path, context: str, wanted: Wanted, *, as_json: bool) -> int:
    from drakit.doctor_cluster import examine

    try:
        text, code = examine(path, context, wanted, as_json=as_json, progress=say)
    except ClusterError as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    write_out(text)
    return code


def _listing(*, as_json: bool) -> str:
    """Every check; those of clusters are marked as such."""
    rows: list[dict[str, Any]] = [
        {"id": check.id, "tiers": list(check.tiers), "meaning": check.meaning} for check in HOST_CHECKS
    ]
    rows += [{"id": check.id, "tiers": [_CLUSTER], "meaning": check.meaning} for check in CLUSTER_CHECKS]
    if as_json:
        return json.dumps(rows, indent=2) + "\n"
    lines = [(row["id"], ", ".join(row["tiers"]), row["meaning"]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def _json(checked: Sequence[Checked], able: dict[str, bool], code: int) -> str:
    checks: list[dict[str, Any]] = [
        {
            "id": item.check.id,
            "meaning": item.check.meaning,
            "tiers": list(item.check.tiers),
            "state": str(item.finding.state),
            "seen": item.finding.seen,
            "remedy": item.finding.remedy,
            "blocks": [name for name in able if item.blocks(name)],
        }
        for item in checked
    ]
    document = {
        "schemaVersion": _SCHEMA_VERSION,
        "kind": "host",
        "exitCode": code,
        "tiers": able,
        "checks": checks,
    }
    return json.dumps(document, indent=2) + "\n"


def _text(checked: Sequence[Checked], able: dict[str, bool]) -> str:
    groups: dict[tuple[str, ...], list[Checked]] = {}
    for item in checked:
        groups.setdefault(tuple(name for name in item.check.tiers if name in able), []).append(item)
    width = max(len(item.check.id) for item in checked)
    states = max(map(len, State))
    lines = []
    for names, members in sorted(groups.items(), key=lambda group: _rank(group[0])):
        lines.append(f"needed by {_enumerated(names)} clusters:")
        for item in members:
            finding = item.finding
            words = finding.seen + (f" -> {finding.remedy}" if finding.remedy else "")
            lines.append(clean(f"  {finding.state.ljust(states)}  {item.check.id.ljust(width)}  {words}"))
        lines.append("")
    return "\n".join([*lines, _conclusion(checked, able)]) + "\n"


def _conclusion(checked: Sequence[Checked], able: dict[str, bool]) -> str:
    can = [name for name, yes in able.items() if yes]
    sentences = [f"Clusters that can run here: {', '.join(can) or 'none'}."]
    sentences += [
        f"{name.capitalize()} clusters cannot, for {', '.join(obstacles(checked, name))}."
        for name, yes in able.items()
        if not yes
    ]
    return " ".join(sentences)


def _rank(names: Sequence[str]) -> tuple[int, list[int]]:
    """What most kinds need comes first."""
    return -len(names), [TIERS.index(name) for name in names]


def _enumerated(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
