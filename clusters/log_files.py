"""Log files of the components of a cluster: one NAME.log for each in the folder `logs` of the cluster's root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = "logs"
"""Name of the folder below the root of a cluster."""

SUFFIX: Final = ".log"
EARLIER: Final = ".1"
"""What the name of the earlier part of a long log ends in."""

_LIMIT_BYTES: Final = 8 * 1024 * 1024
_LONGEST_LINE: Final = 64 * 1024


@dataclass(frozen=True)
class LogCommand:
    """Commands that print a log: what there is, and the same with what comes until they are ended."""

    once: tuple[str, ...]
    follow: tuple[str, ...]

    def after(self, *words: str) -> LogCommand:
        """The same behind other words, such as those that run it in a container."""
        return LogCommand((*words, *self.once), (*words, *self.follow))


def make_folder(root: Path) -> Path:
    """The folder for logs below a root, made for its owner alone. Raises OSError."""
    folder = root / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def found(folder: Path) -> dict[str, Path]:
    """The logs in a folder by the names of their components; none when there is no folder."""
    with contextlib.suppress(OSError):
        return {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    return {}


class LogFile:
    """A log that its owner alone may read.

    When it gets long it begins anew and its earlier part stays beside it, once: a component that prints without end
    does not fill the disk. A log that cannot be written is no reason for a component to fail: the line is lost.
    """

    def __init__(self, folder: Path, name: str, redact: Callable[[str], str] | None = None) -> None:
        """`redact` takes credentials out of a text."""
        self.path = folder / f"{name}{SUFFIX}"
        self._redact = redact
        self._rest = b""
        self.write(b"")

    def write(self, data: bytes) -> None:
        """Append output; the part after its last line end waits for the rest of the line."""
        lines, end, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines, end, self._rest = lines + end + self._rest, b"\n", b""
        self._append(lines + end)

    def finish(self) -> None:
        """Write the last line although it has no end."""
        if self._rest:
            self.write(b"\n")

    def _append(self, data: bytes) -> None:
        if self._redact is not None and data:
            data = self._redact(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        with contextlib.suppress(OSError):
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, data)
                long = os.fstat(file).st_size > _LIMIT_BYTES
            finally:
                os.close(file)
            if long:
                self.path.replace(self.path.with_name(self.path.name + EARLIER))
                self._append(b"")
