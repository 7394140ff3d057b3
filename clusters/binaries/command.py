"""Commands that take long: they end with the kit, however it ends, and with an interrupt."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Final

from clusters.guardian import Guardian

_STOP_SECONDS: Final = 0.1


class Command(threading.Thread):
    """A command that runs to its end, in a process group of its own.

    It has a thread of its own because an interrupt, which only the main thread gets, would otherwise come between the
    start of the process and the knowledge of it.
    """

    def __init__(
        self, command: list[str], folder: Path, variables: dict[str, str], log: Path, guardian: Guardian
    ) -> None:
        super().__init__(name="command", daemon=True)
        self._command, self._folder, self._variables, self._log = command, folder, variables, log
        self._guardian = guardian
        self._process: subprocess.Popen[bytes] | None = None
        self.code = 0
        """Its exit code, once it has ended; negative for a signal."""
        self.error: OSError | None = None

    def run(self) -> None:
        """Start it and wait for its end."""
        try:
            with self._log.open("wb") as output:
                self._process = subprocess.Popen(  # noqa: S603 - without a shell
                    self._command,
                    cwd=self._folder,
                    env=self._variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    process_group=0,
                )
            self._guardian.watch_group(self._process.pid)
            self.code = self._process.wait()
            self._guardian.forget_group(self._process.pid)
        except OSError as error:
            self.error = error

    def stop(self) -> None:
        """Kill the command and what it has started; returns when it has ended."""
        while self.is_alive():
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self.join(_STOP_SECONDS)
