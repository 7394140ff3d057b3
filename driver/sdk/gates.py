"""Order among the calls for one claim.

Calls for one claim run one after the other. A prepare that began before an unprepare never leaves anything
behind: when it notices the unprepare, or at the latest at its end, it undoes what it did. So an unprepare need
not wait for a prepare that hangs in the hardware; it hands the cleaning up over to it.

A call is for several claims and has begun for all of them when it comes in, not when their turn comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from driver.sdk.errors import ClaimError

HANDOVER_SECONDS: Final = 1.0
"""How long an unprepare waits for a running prepare. The kubelet gives 45 s; a healthy prepare ends in far less."""

WAIT_SECONDS: Final = 30.0
"""How long a call waits for another call for its claim. One that hangs must not keep a thread for each repetition."""

_LOOK_SECONDS: Final = 0.25
"""Between two looks of a waiting call: a lock cannot be waited for together with the end of the wait's reason."""

OVERTAKEN: Final = "the claim was unprepared while it was being prepared"
BUSY: Final = "an earlier call for the claim hangs; try again later"


class Gate:
    """What the calls for one claim share."""

    def __init__(self) -> None:
        self.users = 0
        self.epoch = 0
        self.lock = threading.Lock()
        self.mutex = threading.Lock()
        self.prepare_open = False


def _somebody_waits() -> bool:
    return True


class Visit:
    """One call at the gate of a claim; `epoch` is that of the call's begin, `active` whether its caller still waits."""

    def __init__(self, gate: Gate, epoch: int, active: Callable[[], bool]) -> None:
        self._gate = gate
        self._epoch = epoch
        self._active = active

    def _wait(self, given_up: Callable[[], str]) -> str:
        """Take the lock; "" when it is taken, otherwise the reason for giving up."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._gate.lock.acquire(timeout=_LOOK_SECONDS):
            if reason := given_up():
                return reason
            if not self._active() or time.monotonic() > deadline:
                return BUSY
        return ""

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Run a prepare.

        Raises:
            ClaimError: if an unprepare has come since the call began, or an earlier call hangs.
        """
        gate = self._gate
        if reason := self._wait(self._overtaken):
            raise ClaimError(reason)
        try:
            with gate.mutex:
                if self._epoch != gate.epoch:
                    raise ClaimError(OVERTAKEN)
                gate.prepare_open = True
            try:
                yield
            finally:
                with gate.mutex:
                    gate.prepare_open = False
        finally:
            gate.lock.release()

    def _overtaken(self) -> str:
        with self._gate.mutex:
            return "" if self._epoch == self._gate.epoch else OVERTAKEN

    def overtaken(self) -> bool:
        """Inside `preparing`, its last look: whether an unprepare has come since the call began.

        If so the caller must undo everything; if not, an unprepare that comes now waits for the end of the prepare.
        """
        gate = self._gate
        with gate.mutex:
            if self._epoch == gate.epoch:
                gate.prepare_open = False
            return self._epoch != gate.epoch

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Run between the other calls without invalidating any; yields False when one of them is running."""
        taken = self._gate.lock.acquire(blocking=False)
        try:
            yield taken
        finally:
            if taken:
                self._gate.lock.release()

    @contextmanager
    def unpreparing(self) -> Iterator[bool]:
        """Invalidate every prepare that has begun; yield whether the caller has to clean up itself.

        Raises:
            ClaimError: if an earlier unprepare hangs.
        """
        gate = self._gate
        with gate.mutex:
            gate.epoch += 1
        handover = time.monotonic() + HANDOVER_SECONDS

        def handed_over() -> str:
            with gate.mutex:
                return OVERTAKEN if gate.prepare_open and time.monotonic() > handover else ""

        reason = self._wait(handed_over)
        if reason == BUSY:
            raise ClaimError(BUSY)
        try:
            yield not reason
        finally:
            if not reason:
                gate.lock.release()


class _Call(threading.local):
    """The call that the thread is answering: UID -> epoch in which it began."""

    def __init__(self) -> None:
        self.epochs: Mapping[str, int] = {}
        self.active: Callable[[], bool] = _somebody_waits


class Gates:
    """The gates of all claims that have calls under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gates: dict[str, Gate] = {}
        self._call = _Call()

    @contextmanager
    def call(self, uids: Iterable[str], active: Callable[[], bool]) -> Iterator[None]:
        """Answer a call for these claims in this thread: for all of them it begins now.

        `active` tells whether the caller still waits for the answer; nothing is waited for otherwise.
        """
        with ExitStack() as stack:
            gates = {uid: stack.enter_context(self._hold(uid)) for uid in uids}
            self._call.epochs = {uid: epoch for uid, (_, epoch) in gates.items()}
            self._call.active = active
            try:
                yield
            finally:
                self._call.epochs, self._call.active = {}, _somebody_waits

    @contextmanager
    def enter(self, uid: str) -> Iterator[Visit]:
        """A visit of the gate of a claim, as part of the thread's call if it has one."""
        with self._hold(uid) as (gate, epoch):
            yield Visit(gate, self._call.epochs.get(uid, epoch), self._call.active)

    @contextmanager
    def _hold(self, uid: str) -> Iterator[tuple[Gate, int]]:
        with self._lock:
            gate = self._gates.setdefault(uid, Gate())
            gate.users += 1
        try:
            with gate.mutex:
                epoch = gate.epoch
            yield gate, epoch
        finally:
            with self._lock:
                gate.users -= 1
                if not gate.users:
                    del self._gates[uid]
