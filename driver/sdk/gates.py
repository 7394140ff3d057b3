"""Order among the calls for one claim.

Calls for one claim run one after the other. A prepare that began before an unprepare never leaves anything
behind: when it notices the unprepare, or at the latest at its end, it undoes what it did. So an unprepare need
not wait for a prepare that hangs in the hardware; it hands the cleaning up over to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from driver.sdk.errors import ClaimError

HANDOVER_SECONDS: Final = 1.0
"""How long an unprepare waits for a running prepare. The kubelet gives 45 s; a healthy prepare ends in far less."""

OVERTAKEN: Final = "the claim was unprepared while it was being prepared"


class Gate:
    """The calls for one claim."""

    def __init__(self) -> None:
        self.users = 0
        self.epoch = 0
        self._lock = threading.Lock()
        self._mutex = threading.Lock()
        self._prepare_open = False

    @contextmanager
    def preparing(self, epoch: int) -> Iterator[None]:
        """Run a prepare that began in `epoch`.

        Raises:
            ClaimError: if an unprepare has come since.
        """
        with self._lock:
            with self._mutex:
                if epoch != self.epoch:
                    raise ClaimError(OVERTAKEN)
                self._prepare_open = True
            try:
                yield
            finally:
                with self._mutex:
                    self._prepare_open = False

    def overtaken(self, epoch: int) -> bool:
        """Inside `preparing`, its last look: whether an unprepare has come since `epoch`.

        If so the caller must undo everything; if not, an unprepare that comes now waits for the end of the prepare.
        """
        with self._mutex:
            if epoch == self.epoch:
                self._prepare_open = False
            return epoch != self.epoch

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run between the other calls without invalidating any."""
        with self._lock:
            yield

    @contextmanager
    def unpreparing(self) -> Iterator[bool]:
        """Invalidate every prepare that has begun; yield whether the caller has to clean up itself."""
        with self._mutex:
            self.epoch += 1
        while not self._lock.acquire(timeout=HANDOVER_SECONDS):
            with self._mutex:
                if self._prepare_open:
                    break
        else:
            try:
                yield True
            finally:
                self._lock.release()
            return
        yield False


class Gates:
    """The gates of all claims that have calls under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}

    @contextmanager
    def enter(self, uid: str) -> Iterator[tuple[Gate, int]]:
        """The gate of a claim and the epoch in which the call begins."""
        with self._lock:
            gate = self._gates.setdefault(uid, Gate())
            gate.users += 1
            epoch = gate.epoch
        try:
            yield gate, epoch
        finally:
            with self._lock:
                gate.users -= 1
                if not gate.users:
                    del self._gates[uid]
