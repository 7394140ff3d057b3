"""Durable files: a reader sees the old content or the new, also after a crash or a power failure."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path

Step = Callable[[str], None]
"""Called with the name of each step just before it happens, so that tests can die there."""

_TEMPORARY = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{8}\.tmp\Z", re.DOTALL)


def _pass(step: str) -> None:
    pass


def temporary_target(name: str) -> str | None:
    """The file that a temporary file of `write_atomic` stands for, by name; None for any other file."""
    match = _TEMPORARY.match(name)
    return match["target"] if match else None


def write_atomic(path: Path, data: bytes, *, mode: int, step: Step = _pass, durable: bool = True) -> None:
    """Replace a file: temporary file beside it, fsync, rename, fsync of the directory.

    The steps are `write` (half of the data is in the temporary file), `fsync`, `rename`, `dirsync`. A file that need
    not survive a power failure is written much faster if not `durable`: without the two fsync.

    Raises:
        OSError: if anything fails; the file then has its old content, unless only the last fsync failed.
    """
    # Beside it, because some readers do not notice a rename from another directory.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            # The mode of open() is cut by the umask.
            os.fchmod(descriptor, mode)
            half = len(data) // 2
            _write_all(descriptor, data[:half])
            step("write")
            _write_all(descriptor, data[half:])
            if durable:
                step("fsync")
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        step("rename")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        step("dirsync")
        sync_directory(path.parent)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def remove(path: Path, *, step: Step = _pass) -> bool:
    """Remove a file durably, with the steps `unlink` and `unlinksync`; return whether it was there.

    Raises:
        OSError: if it cannot be removed.
    """
    step("unlink")
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    step("unlinksync")
    sync_directory(path.parent)
    return True


def sync_directory(directory: Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(directory: Path, prefix: str, *, step: Step = _pass) -> list[str]:
    """Remove what interrupted `write_atomic` calls left for files whose name starts with `prefix`; return the names.

    For the one writer of that prefix, at its start. The step before each removal is `sweep`.
    """
    removed = []
    for path in sorted(directory.iterdir()):
        target = temporary_target(path.name)
        if target is not None and target.startswith(prefix):
            step("sweep")
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            removed.append(path.name)
    return removed
