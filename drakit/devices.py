"""`drakit devices`: what devices there are, who has them, what is free."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from allocator.explain_devices import taint_text
from drakit.offline import sources
from drakit.offline.inventory import Row, description, document, node_names, rows, totals
from drakit.offline.outlook import Outlook
from drakit.offline.settings import gate_option, json_option
from drakit.output import UserError, counted, some, table, write_out

_DESCRIBED = 4


@click.command("devices")
@sources.options
@click.option("--driver", metavar="NAME", default="", help="Only devices of this driver.")
@click.option("--node", metavar="NAME", default="", help="Only devices that can be used on this node.")
@click.option("--free", is_flag=True, help="Only devices that a claim can still get, or a share of them.")
@gate_option
@json_option
def command(
    files: tuple[str, ...],
    kubeconfig_file: Path | None,
    context: str,
    driver: str,
    node: str,
    free: bool,
    feature_gates: str,
    as_json: bool,
) -> int:
    """Show every device: where it is, its state, which claims and Pods have it, shares, taints, and what it is.

    \b
    drakit devices --kubeconfig ~/.kube/config
    drakit devices -f slices.yaml -f claims.yaml --free

    It is what the scheduler's allocator keeps account of; docs/devices.md lists the states.

    \b
    Exit codes: 0 shown, 2 wrong usage or input.
    """
    seen = sources.view(files, kubeconfig_file, context, feature_gates)
    outlook = Outlook(seen.world, seen.gates)
    everything = rows(outlook)
    if driver and all(row.id.driver != driver for row in everything):
        names = sorted({row.id.driver for row in everything})
        raise UserError(f"--driver: no device is of {driver}; there are {some(names, 'no devices')}")
    nodes = node_names(outlook)
    if node and node not in nodes:
        raise UserError(f"--node: there is no node {node}; there are {some(nodes)}")
    chosen = [
        row
        for row in everything
        if (not driver or row.id.driver == driver)
        and (not node or node in row.nodes or row.nodes == ["*"])
        and (not free or row.state in ("free", "shared"))
    ]
    if as_json:
        write_out(json.dumps(document(outlook, chosen), indent=2) + "\n")
    else:
        write_out(_text(chosen))
    return 0


def _text(chosen: Sequence[Row]) -> str:
    counts = totals(chosen)
    states = ", ".join(f"{count} {state}" for state, count in counts["states"].items())
    text = counted(counts["devices"], "device") + (f": {states}" if states else "")
    text += f"; {counts['whole']} with one claim alone, {counted(counts['shares'], 'share')}.\n"
    columns = ("node", "device", "state", "claims", "pods", "shares", "taints", "is")
    return (table(columns, [list(_cells(row)) for row in chosen]) if chosen else "") + text


def _cells(row: Row) -> Iterable[str]:
    published: Mapping[str, Any] = row.published or {}
    yield ", ".join(row.nodes) or "-"
    yield str(row.id)
    yield row.state
    yield ", ".join([*row.claims, *(f"{name} (admin)" for name in row.admins)]) or "-"
    yield ", ".join(row.pods) or "-"
    yield _shares(row, published)
    yield ", ".join(taint_text(taint) for taint in published.get("taints") or ()) or "-"
    known = description(published)
    parts = [f"{name}={_plain(value)}" for name, value in list(known.items())[:_DESCRIBED]]
    yield ", ".join(parts) + (", ..." if len(known) > _DESCRIBED else "")


def _shares(row: Row, published: Mapping[str, Any]) -> str:
    if not published.get("allowMultipleAllocations") and not row.shares:
        return "-"
    amounts = [
        f"{name} {row.used.get(name, 0)}/{entry['value']}"
        for name, entry in (published.get("capacity") or {}).items()
    ]
    return f"{row.shares}" + (f" ({', '.join(amounts)})" if amounts else "")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "[" + " ".join(map(_plain, value)) + "]" if isinstance(value, list) else str(value)
