"""What several processes share below `ROOT/run/fake_hw`: the places, the lock, atomic replacement."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fake_hw.errors import TreeError

STATE_DIRECTORY: Final = "run/fake_hw"
MARKER: Final = "machine.json"


def directory(root: Path) -> Path:
    """Where the state of a tree lives; raises TreeError when the root is not a fake hardware tree."""
    path = root / STATE_DIRECTORY
    if not (path / MARKER).is_file():
        raise TreeError(
            f"{root}: not a fake hardware tree ({STATE_DIRECTORY}/{MARKER} is missing); create one first"
        )
    return path


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Path]:
    """Hold the one lock of a tree against other processes and threads; yields the state directory."""
    path = directory(root)
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes, scratch: Path) -> None:
    """Put a file in place at once, so that a reader sees the old or the new content and never a part.

    `scratch` is a directory of the same file system; the caller holds the lock, so one name is enough.
    """
    temporary = scratch / "new"
    temporary.write_bytes(data)
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The content of a state file; raises TreeError when it is not JSON."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise TreeError(f"{path}: damaged ({error}); create the tree again with --force") from None
