"""Which registration sockets are in a registration directory, by looking: a look takes tens of microseconds."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple


class Identity(NamedTuple):
    """Tells a socket from one that was made later at the same path.

    A removed file's inode number is often used again at once, so the time of creation counts too (the
    modification time, which nothing changes for a socket; a chmod changes only ctime).
    """

    device: int
    inode: int
    created: int


def registration_sockets(directory: str | os.PathLike[str]) -> dict[str, Identity]:
    """Return path -> identity of all sockets below the directory.

    Names that start with a dot, symbolic links and everything that is not a socket are ignored. A missing
    directory has no sockets. What vanishes while looking is left out.
    """
    found: dict[str, Identity] = {}
    pending = [os.fspath(directory)]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
                        _add_socket(found, entry.path)
        except OSError:
            continue
    return found


def _add_socket(found: dict[str, Identity], path: str) -> None:
    try:
        status = Path(path).lstat()
    except OSError:
        return
    if stat.S_ISSOCK(status.st_mode):
        found[path] = Identity(status.st_dev, status.st_ino, status.st_mtime_ns)
