"""The host as checks see it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from clusters.binaries import cache

_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 2.0
_TIMED_OUT: Final = 124
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Ran:
    """How a command ended: exit code (124 when it gave no answer in time) and both outputs."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        """The last thing it said."""
        lines = (self.out + "\n" + self.err).strip().splitlines()
        return lines[-1].strip() if lines else "no output"


@dataclass(frozen=True)
class Room:
    """What is free on a file system, for this user: bytes and inodes (-1 where it does not count them)."""

    path: Path
    free: int
    inodes: int


class Host(Protocol):
    """Everything that checks look at. Paths of the kernel's files are absolute, as on a plain host."""

    def env(self, name: str) -> str:
        """A variable of the environment, "" when it is not set."""
        ...

    def which(self, program: str) -> Path | None:
        """Where a program of PATH is."""
        ...

    def which_of_root(self, program: str) -> Path | None:
        """Where a program of PATH, or of the folders of root's programs, is."""
        ...

    def run(self, *command: str) -> Ran:
        """Run a command without input. Raises OSError when it cannot be run."""
        ...

    def read(self, path: str) -> str:
        """A file of the kernel. Raises OSError."""
        ...

    def user_id(self) -> int:
        """The effective user."""
        ...

    def kind_of(self, path: Path) -> str:
        """`socket`, `folder` or `file`; "" when there is nothing (or nothing that may be seen)."""
        ...

    def owner_group(self, path: Path) -> str:
        """The name of the group that a file belongs to. Raises OSError."""
        ...

    def connect(self, path: Path) -> int:
        """The errno of a connection to a Unix socket, 0 when somebody listens."""
        ...

    def bind(self, port: int) -> int:
        """The errno of listening on a port of the loopback address, 0 when it is free."""
        ...

    def temporary_folder(self) -> Path:
        """Where temporary files go. Raises OSError when there is no such place."""
        ...

    def cache_folder(self) -> Path:
        """Where drakit keeps binaries."""
        ...

    def write_problem(self, folder: Path) -> str:
        """Why no file can be made in a folder (or could, once the folder is made); "" when one can."""
        ...

    def room(self, path: Path) -> Room:
        """What is free where a path is, or would be. Raises OSError."""
        ...

    def mount_namespace_problem(self) -> str:
        """Why a process cannot have a mount namespace of its own; "" when it can."""
        ...


class RealHost:
    """This host. Commands run once: whoever asks again gets the same answer.

    `kernel` is a folder in which /proc and /sys are, for who wants to look at another host's.
    """

    def __init__(self, kernel: Path = Path("/")) -> None:
        self._kernel = kernel
        self._ran: dict[tuple[str, ...], Ran | OSError] = {}

    def env(self, name: str) -> str:
        """A variable of the environment."""
        return os.environ.get(name, "")

    def which(self, program: str) -> Path | None:
        """Where a program of PATH is."""
        found = shutil.which(program)
        return Path(found) if found else None

    def which_of_root(self, program: str) -> Path | None:
        """The same, or in one of the folders that are not in everybody's PATH."""
        found = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
        return Path(found) if found else None

    def run(self, *command: str) -> Ran:
        """Run a command without input."""
        if command not in self._ran:
            self._ran[command] = _run(command)
        answer = self._ran[command]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def read(self, path: str) -> str:
        """A file of the kernel."""
        return (self._kernel / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")

    def user_id(self) -> int:
        """The effective user."""
        return os.geteuid()

    def kind_of(self, path: Path) -> str:
        """What is there."""
        try:
            mode = path.stat().st_mode
        except OSError:
            return ""
        return "socket" if stat.S_ISSOCK(mode) else "folder" if stat.S_ISDIR(mode) else "file"

    def owner_group(self, path: Path) -> str:
        """The name of its group."""
        try:
            return path.group()
        except KeyError:
            return str(path.stat().st_gid)

    def connect(self, path: Path) -> int:
        """The errno of a connection."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_CONNECT_SECONDS)
            try:
                return probe.connect_ex(str(path))
            except OSError as error:
                return error.errno or errno.EINVAL  # a path that is too long has no number

    def bind(self, port: int) -> int:
        """The errno of listening."""
        with socket.socket() as probe:
            # As servers do: connections that have ended a moment ago do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                probe.listen(1)
            except OSError as error:
                return error.errno or errno.EINVAL
        return 0

    def temporary_folder(self) -> Path:
        """Where temporary files go."""
        return Path(tempfile.gettempdir())

    def cache_folder(self) -> Path:
        """Where drakit keeps binaries."""
        return cache.root()

    def write_problem(self, folder: Path) -> str:
        """Why no file can be made there; tried in the nearest folder that exists."""
        try:
            with tempfile.NamedTemporaryFile(dir=_existing(folder), prefix=".drakit-doctor-") as file:
                file.write(b"x")
                file.flush()
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def room(self, path: Path) -> Room:
        """What is free there."""
        there = _existing(path)
        numbers = os.statvfs(there)
        inodes = numbers.f_favail if numbers.f_files else -1
        return Room(there, numbers.f_bavail * numbers.f_frsize, inodes)

    def mount_namespace_problem(self) -> str:
        """Tried by a process that ends at once; the host's mounts stay as they are."""
        from clusters.local import enter

        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dk-"))
                done = _run((sys.executable, "-I", "-S", enter.__file__, "make", folder))
            except OSError as error:
                return error.strerror or str(error)
        if isinstance(done, OSError):
            return done.strerror or str(done)
        return "" if done.code == 0 else done.last_line


def _run(command: tuple[str, ...]) -> Ran | OSError:
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return Ran(_TIMED_OUT, "", f"no answer within {_SECONDS:g} s")
    except OSError as error:
        return error
    return Ran(done.returncode, done.stdout, done.stderr)


def _existing(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    for candidate in (path, *path.parents):
        if os.path.lexists(candidate):
            return candidate
    return Path("/")
