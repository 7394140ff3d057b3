"""Durable writes and removals that pass the failpoints of what they are for."""

from __future__ import annotations

from pathlib import Path

from driver.sdk.failpoints import reach
from node_api import files


def write_atomic(path: Path, data: bytes, *, mode: int, point: str) -> None:
    """Replace a file, passing the failpoints `<point>.write`, `.fsync`, `.rename` and `.dirsync`.

    Raises:
        OSError: see node_api.files.write_atomic.
    """
    files.write_atomic(path, data, mode=mode, step=lambda step: reach(f"{point}.{step}"))


def remove(path: Path, *, point: str) -> bool:
    """Remove a file durably, passing `<point>.unlink` and `.unlinksync`; return whether it was there."""
    return files.remove(path, step=lambda step: reach(f"{point}.{step}"))


def remove_temporaries(directory: Path, prefix: str, *, point: str) -> list[str]:
    """Remove what interrupted writes left (see node_api.files), passing `<point>.sweep` before each removal."""
    return files.remove_temporaries(directory, prefix, step=lambda step: reach(f"{point}.{step}"))
