"""`drakit down`: end a cluster of `drakit up`, and take away what killed runs have left."""

from __future__ import annotations

from pathlib import Path

import click

from clusters.interface import ClusterError
from drakit.interrupt import EXIT_CODE, stoppable
from drakit.output import UserError, say, write_out
from drakit.state import Folder, StateError, all_folders


@click.command("down")
@click.option("--name", help="Name of the cluster.  [default: drakit]")
@click.option("--all", "everything", is_flag=True, help="End every cluster of this user.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Remove what runs of conformance that were killed have left on this cluster of yours, and only that.",
)
@click.option("--context", metavar="NAME", default="", help="Its context.  [default: the current one]")
@click.option("--run", "run", metavar="ID", default="", help="Remove this run, even if it may be going on.")
def command(name: str | None, everything: bool, kubeconfig: Path | None, context: str, run: str) -> int:
    """End a cluster, its drivers included, and remove its files.

    Containers, networks, files and a container engine that killed runs have left behind go, too.
    """
    if kubeconfig is not None:
        if everything or name is not None:
            raise UserError(
                "--kubeconfig is about a cluster of yours: --name and --all about those of drakit up"
            )
        from drakit.removal import remove

        return remove(kubeconfig, context, run)
    if context or run:
        raise UserError("--context and --run are about a cluster of yours: give its --kubeconfig as well")
    if everything and name is not None:
        raise UserError("--all and --name exclude each other")
    name = "drakit" if name is None else name
    try:
        folders = all_folders() if everything else [Folder(name)]
        with stoppable():
            if not everything and not folders[0].exists():
                if _sweep():
                    return 0
                others = ", ".join(folder.name for folder in all_folders())
                raise UserError(f'no cluster "{name}"' + (f"; there is {others}" if others else ""))
            for folder in folders:
                folder.stop()
                write_out(f'cluster "{folder.name}" is gone\n')
            if not _sweep() and not folders:
                write_out("no cluster\n")
    except (StateError, ClusterError) as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        say('interrupted; what was asked to end goes on with it, and "drakit status" shows what is left')
        return EXIT_CODE
    return 0


def _sweep() -> bool:
    """Take away what killed runs have left; whether there was something. Raises ClusterError."""
    from clusters.kind import leftovers

    gone = leftovers.sweep(say)
    for line in gone:
        write_out(f"{line}\n")
    return bool(gone)
