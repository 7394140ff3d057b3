"""A driver process under test: started from its descriptor, watched, stopped, killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from clusters.guardian import Guardian

_TAIL_BYTES = 16384


class StartError(Exception):
    """A command that could not be started; the text says which and what to do."""


class DriverProcess:
    """One driver on one node. Its output (both streams) goes to a file, so that no pipe can fill up.

    The driver leads a process group of its own, and what it leaves behind in the group dies with it.
    """

    def __init__(
        self,
        command: list[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        guardian: Guardian,
        stop_signal: signal.Signals,
        stop_seconds: float,
    ) -> None:
        self.command = command
        self.log = log
        self._environment = dict(environment)
        self._guardian = guardian
        self._stop_signal = stop_signal
        self._stop_seconds = stop_seconds
        self._process: subprocess.Popen[bytes] | None = None
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

    def start(self, extra_environment: Mapping[str, str] | None = None) -> None:
        """Start the command. Raises StartError when the program is missing or not executable."""
        with self._lock, self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the descriptor's command, without a shell
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                    env={**os.environ, **self._environment, **(extra_environment or {})},
                )
            except FileNotFoundError:
                raise StartError(
                    f'start.command: no program "{self.command[0]}"; give a path or install it'
                ) from None
            except OSError as error:
                raise StartError(
                    f'start.command: cannot start "{self.command[0]}": {error.strerror}'
                ) from None
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
        with self._lock:
            if self._process is None:
                return None
            if self.running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, self._stop_signal)
            code = self.wait(self._stop_seconds)
            self.kill()
            return code

    def kill(self) -> None:
        """SIGKILL the driver and everything in its process group."""
        with self._lock:
            if self._process is None:
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._guardian.forget_group(self._process.pid)

    def restart(self) -> None:
        """Stop, then start again."""
        self.stop()
        self.start()

    def output(self) -> str:
        """Everything the driver printed over all its runs on this node."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines: int = 20) -> str:
        """The last lines it printed."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def run_command(command: list[str], *, what: str, timeout: float = 60.0) -> None:
    """Run a short command of the descriptor (prepareNode, hooks). Raises StartError with its last output."""
    try:
        result = subprocess.run(  # noqa: S603 - the descriptor's command, without a shell
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise StartError(f'{what}: no program "{command[0]}"; give a path or install it') from None
    except OSError as error:
        raise StartError(f'{what}: cannot start "{command[0]}": {error.strerror}') from None
    except subprocess.TimeoutExpired:
        raise StartError(f'{what}: "{" ".join(command)}" did not end within {timeout:g} s') from None
    if result.returncode != 0:
        text = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines()
        last = f": {text[-1]}" if text else ""
        raise StartError(f'{what}: "{" ".join(command)}" ended with code {result.returncode}{last}')
