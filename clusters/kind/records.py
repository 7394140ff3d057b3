"""Where kind clusters are written down before anything of them is made, so that what a killed run left can be found.

One file for each cluster in the user's state folder, `drakit/kind/NAME.json`, readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from clusters.guardian import is_running, start_ticks
from clusters.kind.errors import KindError

_SUFFIX: Final = ".json"


@dataclass(frozen=True)
class ClusterRecord:
    """A cluster that a process makes, or had made.

    `name` is that of the kind cluster and of its network, `root` the folder of its files, `engine` the identity of its
    container engine, `mark` that of the processes beside it, `pid` and `started` the process that owns it.
    """

    name: str
    root: str
    engine: str
    pid: int
    started: int | None
    mark: str = ""

    @property
    def alive(self) -> bool:
        """Whether the process that owns the cluster lives."""
        return is_running(self.pid, self.started)


def folder() -> Path:
    """The folder of records of this user. Raises KindError when the user has no home."""
    # The XDG specification wants a path that is not absolute to be ignored.
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        try:
            base = str(Path.home() / ".local" / "state")
        except RuntimeError:
            raise KindError("no home folder is known; set HOME, or XDG_STATE_HOME to a folder") from None
    return Path(base) / "drakit" / "kind"


def path(name: str) -> Path:
    """Where a cluster is written down."""
    return folder() / f"{name}{_SUFFIX}"


def write(name: str, root: Path, engine: str, mark: str = "") -> ClusterRecord:
    """Write down a cluster of this process; it is on the disk when this returns. Raises KindError."""
    pid = os.getpid()
    record = ClusterRecord(name, str(root), engine, pid, start_ticks(pid), mark)
    place = path(name)
    new = place.with_suffix(".new")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(record), file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(place)
        _sync(place.parent)
    except OSError as error:
        raise KindError(
            f"a cluster cannot be written down: {error.filename or place}: {error.strerror}; "
            "XDG_STATE_HOME names another folder for it"
        ) from None
    return record


def remove(name: str) -> None:
    """Forget a cluster that is gone. Raises KindError."""
    try:
        path(name).unlink(missing_ok=True)
    except OSError as error:
        raise KindError(f"{error.filename}: {error.strerror}") from None


def read() -> list[ClusterRecord]:
    """All clusters that are written down, by name. What cannot be read is left out: nothing is known about it."""
    try:
        names = sorted(entry for entry in folder().iterdir() if entry.suffix == _SUFFIX)
    except OSError:
        return []
    found = []
    for name in names:
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(ClusterRecord(**json.loads(name.read_text(encoding="utf-8"))))
    return found


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Be the only one who takes away what dead owners have left. Raises KindError."""
    try:
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder() / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise KindError(f"{error.filename or folder()}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
