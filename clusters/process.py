"""Processes of a driver under test: the driver, started, watched, stopped and killed; and short commands."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clusters.guardian import OWNER, Guardian, kill_owned
from clusters.log_files import LogFile
from clusters.output import Output

COMMAND_SECONDS = 60.0
"""How long a command of the descriptor (prepareNode, hooks) may take."""

_KILL_SECONDS = 10.0
_LINE = 300
# A driver shall find the cluster of the kit, by the placeholders of its command, and never one of the user's.
_FOREIGN_CLUSTER = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
_LOCAL = "127.0.0.1"


class StartError(Exception):
    """A command of the descriptor that does not work; the text says which and what to do."""


def exit_text(code: int | None) -> str:
    """The end of a process in words, such as "exit code 1" or "signal SIGKILL"."""
    if code is None or code >= 0:
        return f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    return f"signal {names.get(-code, -code)}"


def child_environment(owner: str, *extra: Mapping[str, str]) -> dict[str, str]:
    """The kit's own environment without the way to other clusters, with the owner's mark and `extra`.

    The kit listens on 127.0.0.1, which no proxy of the user can reach.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _FOREIGN_CLUSTER}
    for name in ("NO_PROXY", "no_proxy"):
        known = environment.get(name, "")
        environment[name] = f"{known},{_LOCAL}" if known else _LOCAL
    for more in extra:
        environment |= more
    return environment | {OWNER: owner}


def _spawn(
    command: Sequence[str], what: str, output: Output, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own. Raises StartError when that cannot be."""
    writing = output.pipe()
    try:
        return subprocess.Popen(  # noqa: S603 - the descriptor's command, without a shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            process_group=0,
            env=environment,
        )
    except (OSError, ValueError) as error:
        raise StartError(f"{what}: {_why(command[0], error)}") from None
    finally:
        os.close(writing)


def _why(program: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        if "/" not in program:
            return f'no program "{program}" in PATH; install it or give its path'
        if Path(program).exists():
            return f'cannot start "{program}": the interpreter that its first line names does not exist'
        place = (
            ""
            if program.startswith("/")
            else f" in {Path.cwd()}; {{descriptor_dir}} is the descriptor's folder"
        )
        return f'no program "{program}"{place or "; build it or correct the path"}'
    if isinstance(error, PermissionError):
        return f'cannot start "{program}": it is not executable; chmod +x helps if it is the program you mean'
    if isinstance(error, OSError):
        return f'cannot start "{program}": {error.strerror}'
    return f'cannot start "{program}": {error}'


class DriverProcess:
    """One driver on one node; `output()` is what it printed on both streams.

    The driver leads a process group of its own; what it leaves behind in the group, or elsewhere with the
    mark `owner` in its environment, dies with it.
    """

    def __init__(
        self,
        command: list[str],
        *,
        environment: Mapping[str, str],
        guardian: Guardian,
        stop_signal: signal.Signals,
        stop_seconds: float,
        owner: str = "driver",
        log: LogFile | None = None,
    ) -> None:
        """`log` gets what the driver prints, too."""
        self.command = command
        self._owner = f"{guardian.owner}:{owner}"
        self._environment = dict(environment)
        self._guardian = guardian
        self._stop_signal = stop_signal
        self._stop_seconds = stop_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._output = Output(log)
        self._closed = False
        self._lock = threading.RLock()

    @property
    def pid(self) -> int:
        """Process id of the current or last run."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last run (negative for a signal), None while running or never started."""
        return self._process.poll() if self._process else None

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def starved(self) -> float:
        """Seconds that the threads of the current run had something to do and no processor, as Linux counts them."""
        return sum(_run_delays(self.pid)) / 1e9 if self.running else 0.0

    def start(self, extra_environment: Mapping[str, str] | None = None) -> None:
        """Start the command. Raises StartError when the program is missing or not executable, or after close."""
        with self._lock:
            if self._closed:
                raise StartError("start.command: the run is over")
            environment = child_environment(self._owner, self._environment, extra_environment or {})
            self._process = _spawn(self.command, "start.command", self._output, environment)
            self._guardian.watch_group(self._process.pid)

    def wait(self, timeout: float) -> int | None:
        """Exit code when the process ends within `timeout` seconds, else None."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> int | None:
        """Ask the driver to end; after its grace period it is killed.

        Returns its own exit code, None when it had to be killed.
        """
        if self._process is None:
            return None
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, self._stop_signal)
        code = self.wait(self._stop_seconds)
        self.kill()
        return code

    def kill(self) -> None:
        """SIGKILL the driver and everything it has started."""
        with self._lock:
            if self._process is None:
                return
            _end(self._process, self._owner, self._guardian)
            self._guardian.forget_group(self._process.pid)
            self._output.settle()

    def close(self) -> None:
        """Kill the driver for good."""
        with self._lock:
            self._closed = True
            self.kill()
            self._output.finish()

    def restart(self) -> None:
        """Stop, then start again."""
        self.stop()
        self.start()

    def output(self) -> str:
        """What the driver printed over all its runs on this node; the middle is left out when it is very long."""
        if not self.running:
            self._output.settle()
        return self._output.text()

    def tail(self, lines: int = 20) -> str:
        """The last lines it printed."""
        return "\n".join(self.output().splitlines()[-lines:])


def _run_delays(pid: int) -> Iterator[int]:
    """Nanoseconds that each thread of a process has waited on a run queue."""
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        # Threads end at any time, and not every kernel counts.
        with contextlib.suppress(OSError, IndexError, ValueError):
            yield int(path.read_text(encoding="ascii").split()[1])


def _end(process: subprocess.Popen[bytes], owner: str, guardian: Guardian) -> None:
    guardian.kill_group(process.pid)
    with contextlib.suppress(subprocess.TimeoutExpired):  # asleep in the kernel: it dies when it wakes
        process.wait(_KILL_SECONDS)
    kill_owned(owner)


class Commands:
    """Runs short commands of the descriptor (prepareNode, hooks), and ends those still running at its close.

    What a command leaves running in the background lives on until then.
    """

    def __init__(self, guardian: Guardian, owner: str = "commands") -> None:
        self._guardian = guardian
        self._owner = f"{guardian.owner}:{owner}"
        self._closed = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._outputs: list[Output] = []
        self._lock = threading.Lock()

    def run(self, command: Sequence[str], what: str, timeout: float = COMMAND_SECONDS) -> None:
        """Run one command to its end. Raises StartError with its last output when it fails."""
        output = Output()
        with self._lock:
            if self._closed:
                raise StartError(f"{what}: the run is over")
            process = _spawn(command, what, output, child_environment(self._owner))
            self._guardian.watch_group(process.pid)
            self._running.add(process)
            self._outputs.append(output)
        words = " ".join(command)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            last = _last_line(output)
            raise StartError(
                f'{what}: "{words}" did not end within {timeout:g} s{last}; it must do its work and end'
            ) from None
        finally:
            self._end(process)
        if code != 0:
            output.settle()
            last = _last_line(output) or " and said nothing"
            raise StartError(f'{what}: "{words}" ended with {exit_text(code)}{last}')

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the command unless it has ended; its background is known by the owner's mark."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_KILL_SECONDS)
        self._guardian.forget_group(process.pid)
        with self._lock:
            self._running.discard(process)

    def close(self) -> None:
        """End what still runs, the background included; no further command is started."""
        with self._lock:
            self._closed = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
        kill_owned(self._owner)
        for output in self._outputs:
            output.finish()


def _last_line(output: Output) -> str:
    lines = [line.strip() for line in output.text().splitlines() if line.strip()]
    return f": {lines[-1][:_LINE]}" if lines else ""
