"""Calls of the kind command, which end with the process that made them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from clusters.guardian import Guardian
from clusters.kind import failpoints
from clusters.kind.errors import KindError
from clusters.log_files import LogFile
from clusters.process import child_environment

_LAST_LINES: Final = 6
_MAKING_SECONDS: Final = 30.0
_POLL: Final = 0.1
_DONE: Final = "✓"


class KindCommand:
    """Runs `kind` with the environment of its engine. What it prints is the log `kind`."""

    def __init__(
        self, program: Path, environment: Mapping[str, str], *, guardian: Guardian, logs: Path
    ) -> None:
        """`environment` names engine and network on top of the kit's own environment."""
        self._program = program
        self._environment = dict(environment)
        self._guardian = guardian
        self._log = LogFile(logs, "kind")

    def run(self, *words: str, seconds: float, progress: Callable[[str], None] = lambda text: None) -> None:
        """Run it to its end; an interrupt ends it. Raises KindError with its last lines."""
        try:
            process = subprocess.Popen(  # noqa: S603 - without a shell
                [str(self._program), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                env=child_environment(f"{self._guardian.owner}:kind", self._environment),
            )
        except OSError as error:
            raise KindError(f"cannot start {self._program}: {error.strerror}") from None
        self._guardian.watch_group(process.pid)
        if words[0] == "create":
            failpoints.reach("kind-create-running")
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _kill(process)

        timer = threading.Timer(seconds, give_up)
        timer.start()
        lines: list[str] = []
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            for data in process.stdout:
                self._log.write(data)
                lines.append(data.decode(errors="replace").strip())
                if lines[-1].startswith(_DONE):
                    progress(f"kind: {_words(lines[-1])}")
            code = process.wait()
        finally:
            timer.cancel()
            _kill(process)
            if process.stdout is not None:
                process.stdout.close()
            self._guardian.forget_group(process.pid)
        if code != 0:
            last = "\n  ".join([_words(line) for line in lines if _says_something(line)][-_LAST_LINES:])
            how = f"did not end within {seconds:g} s" if late.is_set() else f"ended with {code}"
            raise KindError(f"kind {words[0]} {words[1]} {how}; the end of what it said:\n  {last}")


def _words(line: str) -> str:
    """A line without its signs, which not every terminal has."""
    return "".join(letter for letter in line if letter.isascii()).strip()


def _says_something(line: str) -> bool:
    """Whether a line is more than a sign, or a step of the stack with which kubeadm ends: those have no blank."""
    return " " in _words(line)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End kind and what it has started, but let containers that are being made come to be.

    The engine makes them whether or not anybody waits: one that comes later would not be found by who removes them.
    """
    if process.poll() is not None:
        return
    process.kill()
    deadline = time.monotonic() + _MAKING_SECONDS
    while _makes_containers(process.pid) and time.monotonic() < deadline:
        time.sleep(_POLL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _makes_containers(group: int) -> bool:
    """Whether a `docker run` of a process group is at work."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The command name may hold spaces and parentheses; the group is the third field after it.
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == group and (folder / "cmdline").read_bytes().split(b"\0")[1] == b"run":
                return True
    return False
