"""`drakit down`: end a cluster of `drakit up`."""

from __future__ import annotations

import click

from drakit.interrupt import EXIT_CODE, stoppable
from drakit.output import UserError, say, write_out
from drakit.state import Folder, StateError, all_folders


@click.command("down")
@click.option("--name", help="Name of the cluster.  [default: drakit]")
@click.option("--all", "everything", is_flag=True, help="End every cluster of this user.")
def command(name: str | None, everything: bool) -> int:
    """End a cluster, its drivers included, and remove its files."""
    if everything and name is not None:
        raise UserError("--all and --name exclude each other")
    name = "drakit" if name is None else name
    try:
        folders = all_folders() if everything else [Folder(name)]
        if not everything and not folders[0].exists():
            others = ", ".join(folder.name for folder in all_folders())
            raise UserError(f'no cluster "{name}"' + (f"; there is {others}" if others else ""))
        if not folders:
            write_out("no cluster\n")
        with stoppable():
            for folder in folders:
                folder.stop()
                write_out(f'cluster "{folder.name}" is gone\n')
    except StateError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        say('interrupted; what was asked to end goes on with it, and "drakit status" shows what is left')
        return EXIT_CODE
    return 0
