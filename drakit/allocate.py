"""`drakit allocate`: which nodes and devices waiting Pods and claims would get, without a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from allocator import AllocationCancelledError, CelCache
from allocator.lines import LineError, allocation_answer
from conformance.report.layout import clean
from drakit import json_lines
from drakit.offline import sources
from drakit.offline.outlook import Attempt, Outlook
from drakit.offline.settings import gate_option, json_option
from drakit.output import UserError, counted, table, write_out

_SCHEMA_VERSION: Final = 1
CANCELLED: Final = str(AllocationCancelledError())
_SECONDS: Final = 120.0
"""For one line: longer than a scheduler waits, as upstream's allocator by itself has no limit."""
_KEYS: Final = ("node", "claims", "deviceClasses", "resourceSlices", "allocated", "featureGates")


@click.command("allocate")
@sources.options
@gate_option
@json_option
@click.option("--jsonl", is_flag=True, help="Answer JSON lines of standard input (docs/allocate.md).")
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help=f"With --jsonl: how long the search of one line may take.  [default: {_SECONDS:g}]",
)
def command(
    files: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str,
    feature_gates: str,
    as_json: bool,
    jsonl: bool,
    seconds: float | None,
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
        json_lines.refuse_options("allocate", "seconds")
        return json_lines.serve(Answers(_SECONDS if seconds is None else seconds).answer)
    if seconds is not None:
        raise UserError("--timeout is for --jsonl; without it a node has 10 s, as in a scheduler")
    seen = sources.view(files, kubeconfig_file, context, feature_gates)
    outlook = Outlook(seen.world, seen.gates)
    attempts = outlook.run()
    if as_json:
        write_out(json.dumps(document(attempts), indent=2) + "\n")
    else:
        write_out(_text(attempts, outlook))
    return int(any(not attempt.node for attempt in attempts))


class Answers:
    """Answers lines; keeps compiled expressions for the next ones."""

    def __init__(self, seconds: float = _SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        """`seconds` is the time that one line has."""
        self._cel = CelCache()
        self._seconds = seconds
        self._now = now

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one line. Raises json_lines.LineError."""
        json_lines.check_keys(request, _KEYS)
        json_lines.feature_gates(request)
        try:
            end = self._now() + self._seconds
            answer = allocation_answer(request, self._cel, cancelled=lambda: self._now() >= end)
        except LineError as error:
            raise json_lines.LineError(str(error)) from None
        if answer.get("error") == CANCELLED:
            answer["error"] += f": no answer within {self._seconds:g} s; --timeout gives more time"
        return answer


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


def _text(attempts: Sequence[Attempt], outlook: Outlook) -> str:
    if not attempts:
        pods, claims = counted(len(outlook.pods()), "Pod"), counted(len(outlook.all_claims), "claim")
        if not outlook.pods() and not outlook.all_claims:
            return "Nothing waits: there are neither Pods nor claims.\n"
        return f"Nothing waits: {pods} and {claims}, each with its place.\n"
    columns = ("for", "node", "claim", "request", "device", "takes")
    lines = []
    for attempt in attempts:
        if not attempt.node:
            where = _subject(attempt)
            lines.append(
                f"{_word(where)} {where['namespace']}/{where['name']} gets no node: {attempt.message}"
            )
    placed = sum(bool(attempt.node) for attempt in attempts)
    last = f"{placed} of {len(attempts)} find a place."
    if placed < len(attempts):
        last += " drakit explain pod|claim NAME --in-turn tells why one does not."
    rows = [row for attempt in attempts for row in _rows(attempt)]
    return table(columns, rows) + "".join(f"{clean(line)}\n" for line in (*lines, last))


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
