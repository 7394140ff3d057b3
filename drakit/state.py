"""Where running clusters are written down: one folder for each below the user's state folder.

A folder holds the lock that the keeper process holds as long as the cluster lives, the record, the kubeconfig, the log
and an example. A folder whose lock is free was left behind by a keeper that was killed. Only who holds the lock
changes the folder or removes it.
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from clusters.guardian import kill_owned, start_ticks

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?\Z")
_POLL: Final = 0.05
# The containers of a kind cluster end one by one on a busy machine.
_STOP_SECONDS: Final = 90.0
_LOCK_SECONDS: Final = 5.0


class StateError(Exception):
    """A cluster that cannot be found, made or ended; the text says why and what to do."""


@dataclass(frozen=True)
class Record:
    """What is known about a running cluster.

    `created` is seconds since the epoch, `logs` the folder of its logs. For logs that are elsewhere `log_commands` has
    the words of two commands: one prints the log, the other goes on with what comes. `schedulers` is their number.
    """

    name: str
    version: str
    server: str
    kubeconfig: str
    example: str
    nodes: list[str]
    driver: str
    created: float
    gates: dict[str, bool] = field(default_factory=dict)
    tier: str = "embedded"
    schedulers: int = 1
    logs: str = ""
    log_commands: dict[str, list[list[str]]] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        """What is for users."""
        return {name: value for name, value in asdict(self).items() if name != "log_commands"}


@dataclass(frozen=True)
class _Keeper:
    """The content of the lock: the process that holds it, and by what its traces are known when it is gone."""

    pid: int
    started: int | None
    owner: str = ""
    root: str = ""

    @property
    def alive(self) -> bool:
        return self.started is not None and start_ticks(self.pid) == self.started


def clusters_folder() -> Path:
    """The folder of all clusters of this user. Raises StateError when the user has no home."""
    # The XDG specification lets relative paths be ignored; the keeper has another working folder, too.
    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):
        try:
            base = str(Path.home() / ".local" / "state")
        except RuntimeError:
            raise StateError("no home folder is known; set HOME, or XDG_STATE_HOME to a folder") from None
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
        """Raises StateError for a name that is none."""
        self.name = check_name(name)
        self.path = clusters_folder() / name
        self.kubeconfig = self.path / "kubeconfig"
        self.example = self.path / "example.yaml"
        self.log = self.path / "log"
        self._record = self.path / "record.json"
        self._dead = self.path / "dead.json"
        self._lock = self.path / "lock"

    def exists(self) -> bool:
        """Whether there is a folder."""
        return self.path.is_dir()

    @contextlib.contextmanager
    def held(self) -> Iterator[Callable[[str, Path], None]]:
        """Make the folder and hold its lock as the keeper of this cluster; the folder goes at the end.

        What is yielded writes down the owner's mark and the temporary folder of the cluster, so that others can take
        away what is left when this process is killed. Raises StateError when another process holds the lock, and
        OSError.
        """
        with self._take() as file:
            self._sweep()
            keeper = _Keeper(os.getpid(), start_ticks(os.getpid()))
            try:
                _write(file, keeper)
                yield lambda owner, root: _write(file, _Keeper(keeper.pid, keeper.started, owner, str(root)))
            finally:
                with contextlib.suppress(OSError):
                    self._remove()

    def _take(self) -> IO[str]:
        """The lock file, locked. Raises StateError when a living keeper has it."""
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            # Somebody may remove the folder between any two of these steps.
            try:
                with contextlib.ExitStack() as stack:
                    self._make()
                    file = stack.enter_context(self._lock.open("a+", encoding="ascii"))
                    if _try_lock(file, fcntl.LOCK_EX) and _is(file, self._lock):
                        stack.pop_all()
                        return file
            except FileNotFoundError:
                if time.monotonic() > deadline:
                    raise
            # Whoever only looks whether it is locked has it for a moment.
            keeper = self._keeper()
            if (keeper is not None and keeper.alive) or time.monotonic() > deadline:
                raise StateError(
                    f'cluster "{self.name}" runs already; "drakit status" shows it, "drakit down --name {self.name}" '
                    "ends it, --name gives the new one another name"
                )
            time.sleep(_POLL)

    def _make(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            # It was there, and was gone before it could be looked at; anything but a folder stays.
            if os.path.lexists(self.path) and not self.path.is_dir():
                raise
            raise FileNotFoundError from None

    def _sweep(self) -> None:
        """Take away what an earlier keeper has left that was killed, in case that its guardian was, too."""
        earlier = self._keeper()
        if earlier is not None and earlier.owner:
            kill_owned(earlier.owner)
            if earlier.root:
                shutil.rmtree(earlier.root, ignore_errors=True)
        for path in (self.kubeconfig, self.example, self.log, self._record, self._dead):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder unless a keeper holds it, and what a killed one has left. Raises OSError."""
        if not self.exists():
            return
        with contextlib.suppress(StateError), self._take():
            self._sweep()
            self._remove()

    def _remove(self) -> None:
        """Remove the folder, the lock last: whoever has the next one has a folder without old files."""
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != self._lock:
                path.unlink()
        self._lock.unlink()
        # It is not empty when the next one has made its lock meanwhile.
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def running(self) -> bool:
        """Whether a keeper lives. Raises OSError when the folder cannot be read."""
        try:
            with self._lock.open(encoding="ascii") as file:
                return not _try_lock(file, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    def _keeper(self) -> _Keeper | None:
        try:
            return _Keeper(**json.loads(self._lock.read_text(encoding="ascii")))
        except (OSError, ValueError, TypeError):
            return None

    def write_record(self, record: Record) -> None:
        """Write the record. Raises OSError."""
        _replace(self._record, json.dumps(asdict(record), indent=2) + "\n")

    def record(self) -> Record | None:
        """The record; None while the cluster starts, or when it cannot be read."""
        try:
            data: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
            return Record(**data)
        except (OSError, ValueError, TypeError):
            return None

    def write_dead(self, components: list[str]) -> None:
        """Write down which components of the cluster do not run. Raises OSError."""
        _replace(self._dead, json.dumps(components))

    def dead(self) -> list[str]:
        """The components that do not run, as far as the keeper has seen."""
        try:
            return [str(name) for name in json.loads(self._dead.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return []

    def last_log(self, lines: int = 5) -> list[str]:
        """The last lines of the log."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        except OSError:
            return []

    def stop(self) -> None:
        """End the cluster and wait until everything is gone. Raises StateError when it does not end, and OSError."""
        if not (self._end(signal.SIGTERM) or self._end(signal.SIGKILL)):
            raise StateError(f'cluster "{self.name}" does not end; its log is {self.log}')
        self.clear()

    def _end(self, number: signal.Signals) -> bool:
        """Send the keeper a signal, as soon as it is known; whether it ended in time."""
        deadline, sent = time.monotonic() + _STOP_SECONDS, False
        while self.running():
            keeper = self._keeper()
            if keeper is not None and keeper.alive and not sent:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(keeper.pid, number)
                sent = True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True


def all_folders() -> list[Folder]:
    """Every cluster of this user, by name. Raises StateError, and OSError when the folder cannot be read."""
    try:
        names = sorted(path.name for path in clusters_folder().iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
    return [Folder(name) for name in names if _NAME.match(name)]


def _replace(path: Path, text: str) -> None:
    """Write a file so that readers see the old text or the new one. Raises OSError."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is(file: IO[str], path: Path) -> bool:
    """Whether the open file is still the one at the path. Raises FileNotFoundError when there is none."""
    return os.path.samestat(os.fstat(file.fileno()), path.stat())


def _write(file: IO[str], keeper: _Keeper) -> None:
    file.truncate(0)
    file.write(json.dumps(asdict(keeper)))
    file.flush()
