"""One component of a cluster as a process: started, watched, stopped, killed; what it prints is a log file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clusters.guardian import Guardian, kill_owned
from clusters.interface import ClusterError
from clusters.log_files import EARLIER, SUFFIX
from clusters.process import child_environment, exit_text

SERVING_SECONDS: Final = 120.0
"""How long a component may take until it serves, on a machine that is busy with much else."""

_POLL: Final = 0.02
_KILL_SECONDS: Final = 10.0
_LAST_LINES: Final = 200
_ERROR_LINES: Final = 5
_TAIL_BYTES: Final = 64 * 1024
_LINE: Final = 400
_LIMIT_BYTES: Final = 16 * 1024 * 1024
# What Go says when another process was faster.
_TAKEN: Final = "address already in use"
_TRIES: Final = 5
# What helps, by what components say when the machine sets them a limit.
_REMEDIES: Final[Mapping[str, str]] = {
    "inotify_init: too many open files": (
        "this machine has too few inotify instances for so many kubelets; as root: "
        "sysctl -w fs.inotify.max_user_instances=1024"
    ),
    "no space left on device": "the disk is full, or fs.inotify.max_user_watches too small",
}
_STACK: Final = re.compile(r"goroutine \d+ .*\[running")
# Components talk to addresses of this machine, which no proxy of the user can reach.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True)
class Launch:
    """A command line, and by what is known that the process serves.

    `descriptors` are passed on to it, `environment` goes on top of this process' own.
    """

    command: Sequence[str]
    ready: Callable[[], bool]
    descriptors: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Process:
    """A component as a process; all of `clusters.interface.Component`. Thread-safe.

    It leads a process group of its own, and carries the mark of the cluster's owner.
    """

    def __init__(
        self,
        name: str,
        launch: Callable[[], Launch],
        *,
        guardian: Guardian,
        logs: Path,
        stop_seconds: float,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        """`launch` says how to start it, anew for each try: ports that were free may be taken.

        `logs` is the folder of its log. It has `stop_seconds` to end when it is asked to.
        """
        self.name = name
        self.log = logs / f"{name}{SUFFIX}"
        self._launch = launch
        self._owner = f"{guardian.owner}:{name}"
        self._guardian = guardian
        self._stop_seconds = stop_seconds
        self._stop_signal = stop_signal
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready: Callable[[], bool] = lambda: True
        self._begin = 0
        self._wanted = False
        self._tries = 1
        self.has_served = False
        """Whether any of its runs has served."""

    # Component

    def start(self) -> None:
        """Start it; without effect when it runs. Raises ClusterError when there is no such program."""
        with self._lock:
            if self.running:
                return
            launch = self._launch()
            inherited = child_environment(self._owner, launch.environment)
            environment = {key: value for key, value in inherited.items() if key not in _PROXIES}
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                self._begin = os.fstat(log).st_size
                self._process = subprocess.Popen(  # noqa: S603 - a command line of ours, without a shell
                    list(launch.command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    env=environment,
                    pass_fds=launch.descriptors,
                    cwd=self.log.parent,
                )
            except OSError as error:
                raise ClusterError(
                    f"{self.name}: cannot start {launch.command[0]}: {error.strerror}"
                ) from None
            finally:
                os.close(log)
            self._guardian.watch_group(self._process.pid)
            self._ready = launch.ready
            self._wanted = True

    def stop(self) -> None:
        """Ask it to end, and kill it when it takes too long; without effect when it does not run."""
        with self._lock:
            self.ask_to_end()
            self._end(self._stop_seconds)

    def kill(self) -> None:
        """End it without any shutdown code."""
        with self._lock:
            self._wanted = False
            self._end(0.0)

    def restart(self) -> None:
        """Stop and start, and wait until it serves again. Raises ClusterError."""
        with self._lock:
            self.stop()
            self.start()
            self._tries = 1
        wait_serving([self])

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        process = self._process
        return process is not None and process.poll() is None

    def logs(self) -> list[str]:
        """The last lines of its log, over all its runs."""
        return self._tail(0)[-_LAST_LINES:]

    # Beyond that

    @property
    def pid(self) -> int:
        """Process id of the current or last run; 0 before the first."""
        return self._process.pid if self._process is not None else 0

    @property
    def crashed(self) -> bool:
        """Whether it has ended without being told to."""
        return self._wanted and not self.running

    def ask_to_end(self) -> None:
        """Send the signal for an orderly end, and do not wait."""
        with self._lock:
            self._wanted = False
            if self.running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, self._stop_signal)

    def serving(self) -> bool:
        """Whether it serves; where another process took its port, it is started on another.

        Raises ClusterError with its last words when it has ended.
        """
        with self._lock:
            if not self.running:
                taken = any(_TAKEN in line for line in self._tail(self._begin))
                if not taken or self._tries == _TRIES:
                    raise ClusterError(self.last_words())
                self._tries += 1
                self._end(0.0)
                self.start()
            ready = self._ready
        served = ready()
        self.has_served |= served
        return served

    def trim(self) -> None:
        """Let a log that got long begin anew; its earlier part stays beside it, once."""
        with self._lock, contextlib.suppress(OSError):
            if self.log.stat().st_size > _LIMIT_BYTES:
                earlier = self.log.with_name(self.log.name + EARLIER)
                with contextlib.suppress(OSError):  # a full disk is one more reason to begin anew
                    shutil.copy(self.log, earlier)
                # The process appends, and goes on at the new end.
                os.truncate(self.log, 0)
                self._begin = 0

    def last_words(self) -> str:
        """How it ended, and the last lines of its log."""
        code = self._process.poll() if self._process is not None else None
        return f"{self.name} ended with {exit_text(code)}; {self.said()}"

    def said_line(self, line: str) -> bool:
        """Whether this run has printed a line."""
        return line in self._tail(self._begin)

    def said(self) -> str:
        """The last lines of its log, in words."""
        printed = [line for line in self._tail(self._begin) if line.strip()]
        # The reason of a panic comes before the stack, which says nothing to users.
        stack = next((at for at, line in enumerate(printed) if _STACK.match(line)), None)
        lines = [line[:_LINE] for line in printed[:stack] or printed][-_ERROR_LINES:]
        if not lines:
            return "it printed nothing"
        remedies = [f"({text})" for sign, text in _REMEDIES.items() if any(sign in line for line in lines)]
        return "\n  ".join(["the end of its log:", *lines, *remedies])

    def _tail(self, begin: int) -> list[str]:
        try:
            with self.log.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                start = max(begin, end - _TAIL_BYTES)
                file.seek(start)
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            return []
        # The first of them may be the rest of one.
        return lines[1:] if start > begin and len(lines) > 1 else lines

    def _end(self, seconds: float) -> None:
        process = self._process
        if process is None:
            return
        if seconds:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        self._guardian.kill_group(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):  # asleep in the kernel: it dies when it wakes
            process.wait(_KILL_SECONDS)
        kill_owned(self._owner)
        self._guardian.forget_group(process.pid)


def wait_serving(processes: Sequence[Process], timeout: float = SERVING_SECONDS) -> None:
    """Wait until all of them serve. Raises ClusterError as soon as one has ended, or when one does not in time."""
    deadline, missing = time.monotonic() + timeout, list(processes)
    while missing := [process for process in missing if not process.serving()]:
        # One that others wait for, as for etcd on a full disk, is the reason why they do not serve.
        if ended := [process for process in processes if process not in missing and process.crashed]:
            raise ClusterError(ended[0].last_words())
        if time.monotonic() > deadline:
            raise ClusterError(f"{missing[0].name} does not serve after {timeout:g} s; {missing[0].said()}")
        time.sleep(_POLL)
