"""What `drakit doctor --kubeconfig` prints: a table of feature gates, and a line for each check and each problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.client import ClientError
from clusters.doctor.cluster import gate_checks
from clusters.doctor.cluster.checks import CLUSTER_CHECKS
from clusters.doctor.cluster.model import ClusterCheck, Problem
from clusters.doctor.cluster.snapshot import Snapshot, read
from clusters.doctor.model import State, Wanted
from clusters.existing import kubeconfig
from conformance.report.layout import clean
from drakit.output import counted

SCHEMA_VERSION: Final = 1
Found = Sequence[tuple[ClusterCheck, Sequence[Problem]]]

_KUBELETS: Final = "kubelets"
_KUBELET: Final = "kubelet of "


def examine(
    path: Path, context: str, wanted: Wanted, *, as_json: bool, progress: Callable[[str], None]
) -> tuple[str, int]:
    """Look at the cluster of a kubeconfig: what is to be printed, and the exit code (1 for a fault).

    Raises ClusterError for a kubeconfig that cannot be used.
    """
    connection = kubeconfig.load(path, context)
    client = connection.client()
    try:
        snapshot = read(client, progress=progress)
    except ClientError as error:
        snapshot = None
        problem = error.message or str(error)
    finally:
        client.close()
    if snapshot is None:
        remedy = "see whether it runs, and the kubeconfig"
        text = f"fault    reachable  {connection.server} does not answer: {problem} -> {remedy}"
        document = {
            "schemaVersion": SCHEMA_VERSION,
            "kind": "cluster",
            "exitCode": 1,
            "server": connection.server,
        }
        document |= {"problem": problem}
        return (json.dumps(document, indent=2) if as_json else clean(text)) + "\n", 1
    found = [(check, check.run(snapshot, wanted)) for check in CLUSTER_CHECKS]
    code = int(any(problem.state is State.FAULT for _, problems in found for problem in problems))
    shown = (
        _json(connection.server, snapshot, found, code)
        if as_json
        else _text(connection.server, snapshot, found)
    )
    return shown, code


def _json(server: str, snapshot: Snapshot, found: Found, code: int) -> str:
    checks: list[dict[str, Any]] = [
        {
            "id": check.id,
            "meaning": check.meaning,
            "state": str(_state(problems)),
            "problems": [
                {"state": str(item.state), "where": item.where, "seen": item.seen, "remedy": item.remedy}
                for item in problems
            ],
        }
        for check, problems in found
    ]
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "kind": "cluster",
        "exitCode": code,
        "server": server,
        "kubernetes": snapshot.version,
        "apiVersions": sorted(snapshot.served),
        "gates": gate_checks.table(snapshot),
        "checks": checks,
    }
    return json.dumps(document, indent=2) + "\n"


def _state(problems: Sequence[Problem]) -> State:
    order = (State.FAULT, State.WARNING, State.UNKNOWN)
    states = {problem.state for problem in problems}
    return next((state for state in order if state in states), State.OK)


def _text(server: str, snapshot: Snapshot, found: Found) -> str:
    served = ", ".join(sorted(snapshot.served)) or "none of resource.k8s.io"
    lines = [f"Kubernetes {snapshot.version} at {server}", f"API versions: {served}", ""]
    lines += [*_gates(gate_checks.table(snapshot)), ""]
    width = max(len(check.id) for check, _ in found)
    for check, problems in found:
        if not problems:
            lines.append(f"{State.OK.ljust(7)}  {check.id.ljust(width)}  {check.meaning}")
        for item in problems:
            words = f"{item.where}: {item.seen}" + (f" -> {item.remedy}" if item.remedy else "")
            lines.append(f"{item.state.ljust(7)}  {check.id.ljust(width)}  {words}")
    return "\n".join([*map(clean, lines), "", _conclusion(found)]) + "\n"


def _gates(table: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each gate; kubelets share a column."""
    rows = []
    for name, row in table.items():
        cells = {who: word for who, word in row.items() if not who.startswith(_KUBELET)}
        words = [word for who, word in row.items() if who.startswith(_KUBELET)]
        if words:
            cells[_KUBELETS] = ", ".join(
                word if len(set(words)) == 1 else f"{words.count(word)} {word}"
                for word in dict.fromkeys(words)
            )
        rows.append((name, cells))
    heads = list(dict.fromkeys(who for _, cells in rows for who in cells))
    lines = [("gate", *heads), *((name, *(cells.get(who, "-") for who in heads)) for name, cells in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _conclusion(found: Found) -> str:
    problems = [problem for _, some in found for problem in some]
    counts = [
        counted(count, word)
        for state, word in ((State.FAULT, "fault"), (State.WARNING, "warning"))
        if (count := sum(problem.state is state for problem in problems))
    ]
    unknown = sum(problem.state is State.UNKNOWN for problem in problems)
    counts += [f"{unknown} unknown"] if unknown else []
    return f"{', '.join(counts)}." if counts else "No fault found."
