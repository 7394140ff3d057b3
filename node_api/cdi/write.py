"""Writing and removing spec files so that no runtime ever sees half a file."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Any

from node_api.cdi.checks import SpecError, minimum_version, version_key
from node_api.cdi.directory import EXTENSIONS
from node_api.cdi.parse import decode_spec, parse_spec, spec_json

LOWEST_WRITTEN_VERSION = "0.5.0"
"""Never less is written: names that start with a digit, as 10 of 16 claim UIDs do, need it."""


def _check_name(name: str) -> str:
    if "/" in name or name.startswith(".") or not name.endswith(EXTENSIONS):
        raise ValueError(
            f"CDI file name {name!r}: use one without '/' and leading '.' that ends in .json or .yaml"
        )
    return name


def written_version(spec: dict[str, Any]) -> str:
    """Return the cdiVersion to write: what the content needs, at least 0.5.0, so that old runtimes read it.

    Raises:
        SpecError: if the object cannot be decoded.
    """
    return max(LOWEST_WRITTEN_VERSION, minimum_version(decode_spec(spec)), key=version_key)


def write_spec(directory: str | os.PathLike[str], name: str, spec: dict[str, Any]) -> Path:
    """Write a spec file with one rename; when this returns it is durable and visible.

    Args:
        directory: a directory that runtimes scan; made if missing.
        name: file name, ending in .json (or .yaml, which is read the same way).
        spec: the object; a cdiVersion in it is replaced by `written_version`.

    Raises:
        ValueError: for a bad file name.
        SpecError: if runtimes would refuse the content; nothing is written.
        OSError: if it cannot be written; an existing file stays as it was.
    """
    target = Path(directory, _check_name(name))
    content = spec_json({**spec, "cdiVersion": written_version(spec)})
    parse_spec(content, str(target))
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    # The temporary name has no extension that runtimes read, and is in the same directory because some
    # runtimes do not notice a rename from another one.
    temporary = target.with_name(f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            # The umask of the process must not hide the file from the runtime.
            os.fchmod(descriptor, 0o644)
            file.write(content.encode())
            file.flush()
            os.fsync(descriptor)
        temporary.rename(target)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(target.parent)
    return target


def remove_spec(directory: str | os.PathLike[str], name: str) -> bool:
    """Remove a spec file; return whether it was there.

    Raises:
        ValueError: for a bad file name.
        OSError: if it cannot be removed.
    """
    target = Path(directory, _check_name(name))
    try:
        target.unlink()
    except FileNotFoundError:
        return False
    _sync_directory(target.parent)
    return True


def remove_temporary_files(directory: str | os.PathLike[str], prefix: str) -> list[Path]:
    """Remove what interrupted `write_spec` calls left for names that start with `prefix`; return it.

    For the one writer of that prefix, at its start.
    """
    removed: list[Path] = []
    for path in Path(directory).glob(".*.tmp"):
        if path.name.startswith(f".{prefix}"):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = [
    "LOWEST_WRITTEN_VERSION",
    "SpecError",
    "remove_spec",
    "remove_temporary_files",
    "write_spec",
    "written_version",
]
