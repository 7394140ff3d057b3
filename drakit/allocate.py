"""`drakit allocate`: which nodes and devices waiting Pods and claims would get, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.markup import escape
from rich.table import Table

from allocator import CelCache
from allocator.lines import LineError, allocation_answer
from drakit import json_lines
from drakit.offline import sources
from drakit.offline.outlook import Attempt, Outlook
from drakit.offline.settings import gate_option, json_option
from drakit.output import UserError, counted, standard_output, write_out

_SCHEMA_VERSION: Final = 1
_KEYS: Final = ("node", "claims", "deviceClasses", "resourceSlices", "allocated", "featureGates")


@click.command("allocate")
@sources.options
@gate_option
@json_option
@click.option("--jsonl", is_flag=True, help="Answer JSON lines of standard input (docs/allocate.md).")
def command(
    files: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str,
    feature_gates: str,
    as_json: bool,
    jsonl: bool,
) -> int:
    """Tell which node and devices each waiting Pod and claim would get from the scheduler of Kubernetes 1.37.

    \b
    drakit allocate -f cluster.yaml                       nodes, slices, classes, claims and Pods from a file
    drakit allocate --kubeconfig ~/.kube/config           the Pods that wait in a cluster, now
    drakit allocate --kubeconfig ~/.kube/config -f pod.yaml   a Pod that is not there yet

    Pods without a node are taken one after the other, those of high priority first, and then claims that no Pod uses;
    each takes its devices from the ones behind it. Nothing is changed anywhere.

    \b
    Exit codes: 0 all of them find a place, 1 one does not (drakit explain tells why), 2 wrong usage or input.
    """
    if jsonl:
        if files or kubeconfig_file is not None or context or feature_gates:
            raise UserError("--jsonl reads standard input alone: give no files, and gates in the lines")
        return json_lines.serve(Answers().answer)
    seen = sources.view(files, kubeconfig_file, context, feature_gates)
    outlook = Outlook(seen.world, seen.gates)
    attempts = outlook.run()
    if as_json:
        write_out(json.dumps(document(attempts), indent=2) + "\n")
    else:
        _print(attempts, outlook)
    return int(any(not attempt.node for attempt in attempts))


class Answers:
    """Answers lines; keeps compiled expressions for the next ones."""

    def __init__(self) -> None:
        self._cel = CelCache()

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one line. Raises json_lines.LineError."""
        json_lines.check_keys(request, _KEYS)
        json_lines.feature_gates(request)
        try:
            return allocation_answer(request, self._cel)
        except LineError as error:
            raise json_lines.LineError(str(error)) from None


def document(attempts: Sequence[Attempt]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schemaVersion": _SCHEMA_VERSION,
        "attempts": [
            {
                **_subject(attempt),
                "node": attempt.node or None,
                "claims": [
                    {
                        "name": claim["metadata"]["name"],
                        "allocated": allocated_when(attempt, claim),
                        "allocation": _allocation(attempt, claim),
                    }
                    for claim in attempt.claims
                ],
                "message": attempt.message,
            }
            for attempt in attempts
        ],
    }


def allocated_when(attempt: Attempt, claim: Mapping[str, Any]) -> str:
    """Whether the claim has its allocation from `before`, gets it `now`, or has `none`."""
    if (claim.get("status") or {}).get("allocation") is not None:
        return "before"
    return "now" if claim["metadata"]["name"] in attempt.allocations else "none"


def _allocation(attempt: Attempt, claim: Mapping[str, Any]) -> Any:
    before = (claim.get("status") or {}).get("allocation")
    return before if before is not None else attempt.allocations.get(claim["metadata"]["name"])


def _subject(attempt: Attempt) -> dict[str, str]:
    metadata = attempt.pod["metadata"]
    kind = "ResourceClaim" if attempt.stands_for_claim else "Pod"
    return {"kind": kind, "namespace": metadata["namespace"], "name": metadata["name"]}


def _print(attempts: Sequence[Attempt], outlook: Outlook) -> None:
    with standard_output() as console:
        if not attempts:
            console.print(
                f"Nothing waits: {counted(len(outlook.pods()), 'Pod')} and {counted(len(outlook.all_claims), 'claim')},"
                " each with its place.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            return
        table = Table(box=None, pad_edge=False)
        for column in ("for", "node", "claim", "request", "device", "takes"):
            table.add_column(column, overflow="fold")
        for attempt in attempts:
            for row in _rows(attempt):
                table.add_row(*map(escape, row))
        console.print(table)
        for attempt in attempts:
            if not attempt.node:
                where = _subject(attempt)
                text = f"{_word(where)} {where['namespace']}/{where['name']} gets no node: {attempt.message}"
                console.print(text, markup=False, highlight=False, soft_wrap=True)
        placed = sum(bool(attempt.node) for attempt in attempts)
        text = f"{placed} of {len(attempts)} find a place."
        if placed < len(attempts):
            text += " drakit explain pod|claim NAME tells why one does not."
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def _rows(attempt: Attempt) -> list[tuple[str, str, str, str, str, str]]:
    where = _subject(attempt)
    first = f"{_word(where)} {where['namespace']}/{where['name']}"
    rows = []
    for claim in attempt.claims:
        for result in ((_allocation(attempt, claim) or {}).get("devices") or {}).get("results") or ():
            device = f"{result['driver']}/{result['pool']}/{result['device']}"
            name = claim["metadata"]["name"]
            note = " (before)" if allocated_when(attempt, claim) == "before" else ""
            rows.append((first, attempt.node or "-", name + note, result["request"], device, _takes(result)))
    return rows or [(first, attempt.node or "-", "-", "-", "-", "")]


def _takes(result: Mapping[str, Any]) -> str:
    parts = [f"{name} {amount}" for name, amount in (result.get("consumedCapacity") or {}).items()]
    if result.get("shareID") and not parts:
        parts = ["a share"]
    if result.get("adminAccess"):
        parts.append("admin access")
    return ", ".join(parts)


def _word(where: Mapping[str, str]) -> str:
    return "pod" if where["kind"] == "Pod" else "claim"
