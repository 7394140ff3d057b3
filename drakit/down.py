"""`drakit down`: end a cluster of `drakit up`."""

from __future__ import annotations

import click

from drakit.output import UserError, write_out
from drakit.state import Folder, StateError, all_folders


@click.command("down")
@click.option("--name", default="drakit", show_default=True, help="Name of the cluster.")
@click.option("--all", "everything", is_flag=True, help="End every cluster of this user.")
def command(name: str, everything: bool) -> int:
    """End a cluster, its drivers included, and remove its files."""
    try:
        folders = all_folders() if everything else [Folder(name)]
        if not everything and not folders[0].exists():
            names = ", ".join(folder.name for folder in all_folders())
            raise UserError(f'no cluster "{name}"; ' + (f"there are {names}" if names else "none is running"))
        for folder in folders:
            folder.stop()
            write_out(f'cluster "{folder.name}" is gone\n')
    except StateError as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        raise click.Abort from None
    return 0
