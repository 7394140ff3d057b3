"""Writing and removing spec files so that no runtime ever sees half a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from node_api import files
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
    # The name of the temporary file has no extension that runtimes read.
    files.write_atomic(target, content.encode(), mode=0o644)
    return target


def remove_spec(directory: str | os.PathLike[str], name: str) -> bool:
    """Remove a spec file; return whether it was there.

    Raises:
        ValueError: for a bad file name.
        OSError: if it cannot be removed.
    """
    return files.remove(Path(directory, _check_name(name)))


__all__ = [
    "LOWEST_WRITTEN_VERSION",
    "SpecError",
    "remove_spec",
    "write_spec",
    "written_version",
]
