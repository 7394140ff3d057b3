"""Where running clusters are written down: one folder for each below the user's state folder.

A folder holds the lock that the keeper process holds as long as the cluster lives, the record, the kubeconfig, the log
and an example. A folder whose lock is free was left behind by a keeper that was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from clusters.guardian import start_ticks

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\Z")
_POLL: Final = 0.05
_STOP_SECONDS: Final = 30.0


class StateError(Exception):
    """A cluster that cannot be found, made or ended; the text says why and what to do."""


@dataclass(frozen=True)
class Record:
    """What is known about a running cluster; `created` is seconds since the epoch."""

    name: str
    version: str
    server: str
    kubeconfig: str
    example: str
    nodes: list[str]
    driver: str
    created: float
    gates: dict[str, bool] = field(default_factory=dict)


def clusters_folder() -> Path:
    """The folder of all clusters of this user."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "drakit" / "clusters"


def check_name(name: str) -> str:
    """The name, when it is a fit one. Raises StateError."""
    if not _NAME.match(name):
        raise StateError(
            f'"{name}" is no name for a cluster: 1 to 40 lower-case letters, digits and "-", such as "dev-2"'
        )
    return name


class Folder:
    """The folder of one cluster."""

    def __init__(self, name: str) -> None:
        self.name = check_name(name)
        self.path = clusters_folder() / name
        self.kubeconfig = self.path / "kubeconfig"
        self.example = self.path / "example.yaml"
        self.log = self.path / "log"
        self._record = self.path / "record.json"
        self._lock = self.path / "lock"

    def make(self) -> None:
        """Make the folder, for its owner alone. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def exists(self) -> bool:
        """Whether there is a folder."""
        return self.path.is_dir()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock as the keeper of this cluster. Raises StateError when another holds it."""
        with self._lock.open("a+", encoding="ascii") as file:
            if not _try_lock(file):
                raise StateError(
                    f'cluster "{self.name}" runs already; "drakit status" shows it, "drakit down --name {self.name}" '
                    "ends it, --name gives the new one another name"
                )
            file.truncate(0)
            file.write(f"{os.getpid()} {start_ticks(os.getpid())}")
            file.flush()
            yield

    def running(self) -> bool:
        """Whether a keeper lives."""
        try:
            with self._lock.open("a+", encoding="ascii") as file:
                return not _try_lock(file)
        except OSError:
            return False

    def _keeper(self) -> int | None:
        """Process id of the living keeper."""
        try:
            pid, ticks = (int(word) for word in self._lock.read_text(encoding="ascii").split())
        except (OSError, ValueError):
            return None
        return pid if start_ticks(pid) == ticks else None

    def write_record(self, record: Record) -> None:
        """Write the record. Raises OSError."""
        text = json.dumps(asdict(record), indent=2) + "\n"
        new = self._record.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._record)

    def record(self) -> Record | None:
        """The record; None while the cluster starts, or when it cannot be read."""
        try:
            data: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
            return Record(**data)
        except (OSError, ValueError, TypeError):
            return None

    def last_log(self, lines: int = 5) -> list[str]:
        """The last lines of the log."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    def stop(self) -> None:
        """End the cluster and wait until everything is gone. Raises StateError when it does not end."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid = self._keeper() if self.running() else None
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + _STOP_SECONDS
            while self.running():
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL)
            else:
                self.remove()
                return
        raise StateError(f'cluster "{self.name}" does not end; its log is {self.log}')


def all_folders() -> list[Folder]:
    """Every cluster of this user, by name."""
    try:
        names = sorted(path.name for path in clusters_folder().iterdir() if path.is_dir())
    except OSError:
        return []
    return [Folder(name) for name in names if _NAME.match(name)]


def _try_lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
