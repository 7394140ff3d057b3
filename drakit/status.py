"""`drakit status`: the clusters of `drakit up`."""

from __future__ import annotations

import base64
import json
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import yaml

from clusters.client import Client, ClientError, resource_path
from conformance.report.layout import clean
from drakit.logs import available, last_line
from drakit.output import UserError, write_out
from drakit.state import Folder, StateError, all_folders

_ANSWER_SECONDS: Final = 5.0


@click.command("status")
@click.option("--name", help="Only this cluster.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, as_json: bool) -> int:
    """Show the clusters: nodes, Pods, claims and devices. The exit code is 1 when one of them is not well."""
    try:
        folders = [Folder(name)] if name is not None else all_folders()
        if name is not None and not folders[0].exists():
            raise UserError(f'no cluster "{name}"; "drakit up --name {name}" makes one')
        states = [_state(folder) for folder in folders]
    except StateError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise click.Abort from None
    if as_json:
        write_out(json.dumps(states, indent=2) + "\n")
    elif not states:
        write_out('no cluster; "drakit up" makes one\n')
    else:
        _print(states)
    return int(any(state["state"] != "running" or state.get("dead") for state in states))


def _state(folder: Folder) -> dict[str, Any]:
    if not folder.running():
        return {"name": folder.name, "state": "dead", "remedy": f"drakit down --name {folder.name}"}
    record = folder.record()
    if record is None:
        return {"name": folder.name, "state": "starting"}
    state: dict[str, Any] = {**record.shown(), "state": "running"}
    try:
        state |= _contents(Path(record.kubeconfig), record.driver)
    except ClientError as error:
        # Without a code there was no answer, and the reason says no more than the state.
        state |= {"state": "not answering", "problem": str(error) if error.code else error.message}
    except (OSError, KeyError, ValueError) as error:
        state |= {"state": "not answering", "problem": str(error)}
    logs = available(folder)
    dead = {name: last_line(logs[name]) if name in logs else "" for name in folder.dead()}
    return state | ({"dead": dead} if dead else {})


def _contents(kubeconfig: Path, driver: str) -> dict[str, Any]:
    """Numbers of objects, read through the API as the administrator."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    with tempfile.NamedTemporaryFile(suffix=".pem") as authority:
        authority.write(base64.b64decode(cluster["certificate-authority-data"]))
        authority.flush()
        client = Client(cluster["server"], Path(authority.name), user["token"])
        nodes, pods = _items(client, "v1", "nodes"), _items(client, "v1", "pods")
        claims = _items(client, "resource.k8s.io/v1", "resourceclaims")
        slices = _items(client, "resource.k8s.io/v1", "resourceslices")
        client.close()
    used = sum(
        not result.get("adminAccess")
        for claim in claims
        for result in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get(
            "results"
        )
        or []
    )
    return {
        "nodesReady": sum(_ready(node) for node in nodes),
        "pods": len(pods),
        "podsRunning": sum((pod.get("status") or {}).get("phase") == "Running" for pod in pods),
        "claims": len(claims),
        "devices": sum(len(item["spec"].get("devices") or []) for item in slices),
        "devicesAllocated": used,
    }


def _items(client: Client, api_version: str, resource: str) -> list[dict[str, Any]]:
    """One that hangs, as an API server does without its etcd, shall not hold up the status of the others."""
    answer = client.request("GET", resource_path(api_version, resource), timeout=_ANSWER_SECONDS)
    return answer.get("items") or []


def _ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


_COLUMNS = ("NAME", "STATE", "TIER", "VERSION", "NODES", "PODS", "CLAIMS", "DEVICES", "KUBECONFIG")


def _print(states: list[dict[str, Any]]) -> None:
    rows = [_COLUMNS, *map(_row, states)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        # Lines are not folded: paths are there to be copied.
        write_out(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"
        )
    for state in states:
        if state.get("schedulers", 1) > 1:
            write_out(_schedulers(state))
        for component, words in state.get("dead", {}).items():
            last = f"; its last line: {words}" if words else ""
            write_out(
                clean(f"{component} of {state['name']} does not run{last}\n")
                + f"  drakit logs {component} --name {state['name']}\n"
            )


def _schedulers(state: dict[str, Any]) -> str:
    """How many of several schedulers run, and that they do not without a ledger."""
    count, dead = state["schedulers"], state.get("dead", {})
    running = count - sum(name.partition("-")[0] == "scheduler" for name in dead)
    ledger = "; their ledger does not run, and no device is allocated" if "ledger" in dead else ""
    return f"{state['name']} has {count} schedulers, {running} running{ledger}\n"


def _row(state: dict[str, Any]) -> tuple[str, ...]:
    if "pods" not in state:
        remark = state.get("remedy") or state.get("problem") or ""
        return (state["name"], state["state"], state.get("tier", "-"), *("-",) * 5, remark)
    return (
        state["name"],
        state["state"],
        state["tier"],
        state["version"],
        f"{state['nodesReady']}/{len(state['nodes'])}",
        f"{state['podsRunning']}/{state['pods']}",
        str(state["claims"]),
        f"{state['devicesAllocated']}/{state['devices']}",
        state["kubeconfig"],
    )
