"""The process that a private engine ends with: process 1 of its namespaces, as the rest of the machine sees it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from dataclasses import dataclass

from clusters.guardian import is_running


@dataclass(frozen=True)
class EngineProcess:
    """`pid` and the time when it `started`, in clock ticks since boot: a number alone may mean another later."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return is_running(self.pid, self.started)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; without effect when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)

    def ended(self, seconds: float) -> bool:
        """Wait for its end; whether it came in time."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            return not self.alive or bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)
