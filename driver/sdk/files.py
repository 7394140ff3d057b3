"""Durable files: a reader sees the old content or the new, also after a crash or a power failure."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from driver.sdk.failpoints import reach

_TEMPORARY = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{8}\.tmp\Z", re.DOTALL)


def temporary_target(name: str) -> str | None:
    """The file that a temporary file of `write_atomic` stands for, by name; None for any other file."""
    match = _TEMPORARY.match(name)
    return match["target"] if match else None


def write_atomic(path: Path, data: bytes, *, mode: int, point: str) -> None:
    """Replace a file: temporary file beside it, fsync, rename, fsync of the directory.

    `point` is the prefix of the failpoints passed: `<point>.write`, `.fsync`, `.rename`, `.dirsync`.

    Raises:
        OSError: if anything fails; the file then has its old content, unless only the last fsync failed.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            # The mode of open() is cut by the umask.
            os.fchmod(descriptor, mode)
            half = len(data) // 2
            _write_all(descriptor, data[:half])
            reach(f"{point}.write")
            _write_all(descriptor, data[half:])
            reach(f"{point}.fsync")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        reach(f"{point}.rename")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    reach(f"{point}.dirsync")
    sync_directory(path.parent)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def remove(path: Path, *, point: str) -> bool:
    """Remove a file durably, passing the failpoint `<point>.unlink`; return whether it was there."""
    reach(f"{point}.unlink")
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    sync_directory(path.parent)
    return True


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(directory: Path, prefix: str) -> list[str]:
    """Remove what interrupted `write_atomic` calls left for files whose name starts with `prefix`."""
    removed = []
    for path in directory.iterdir():
        target = temporary_target(path.name)
        if target is not None and target.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            removed.append(path.name)
    return removed
