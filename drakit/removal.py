"""What `drakit down --kubeconfig` does: removes what runs that are over have left on a cluster of the user's."""

from __future__ import annotations

from pathlib import Path

from clusters.client import Client, ClientError
from clusters.existing import kubeconfig, leftovers, look
from clusters.existing.leftovers import Run
from clusters.interface import ClusterError
from drakit.interrupt import stoppable
from drakit.output import UserError, counted, say, write_out


def remove(path: Path, context: str, wanted: str) -> int:
    """Remove what dead runs have left, or the run `wanted` whatever it is. Raises UserError; gives the exit code."""
    try:
        connection = kubeconfig.load(path, context)
        client = connection.client()
        try:
            with stoppable():
                return _remove(client, wanted)
        except ClientError as error:
            raise look.explain(error, connection) from None
        finally:
            client.close()
    except ClusterError as error:
        raise UserError(str(error)) from None


def _remove(client: Client, wanted: str) -> int:
    found = leftovers.runs(client)
    if wanted and wanted not in {run.name for run in found}:
        there = ", ".join(run.name for run in found) or "none"
        raise UserError(f"--run {wanted}: no such run has anything on the cluster; there is {there}")
    kept = 0
    for run in found:
        if wanted and run.name != wanted:
            continue
        if not wanted and (reason := _lives(run)):
            kept += 1
            say(f"run {run.name} is left alone: {reason}")
            continue
        leftovers.sweep(client, run.name, say)
        leftovers.sweep_driver(client, run.name, say)
        write_out(f"run {run.name} is gone, with {counted(run.objects, 'object')}\n")
    if not found:
        write_out("no run has left anything on the cluster\n")
    return 1 if kept else 0


def _lives(run: Run) -> str:
    """Why a run is not over, as far as that can be told from here; "" when it is."""
    if run.owner is None:
        return f"its objects do not tell whose they are; --run {run.name} removes them"
    if run.owner.alive is None:
        where = f"process {run.owner.pid} on {run.owner.host}"
        return f"it belongs to {where}; if that is over, --run {run.name} removes it"
    return f"process {run.owner.pid} is at work" if run.owner.alive else ""
