"""Faults that the plugin proxy injects into calls."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

import grpc

from clusters.proxies.grpc_calls import Call
from node_api.services import FULL_NAMES

Action = Literal["delay", "error", "cut", "drop", "hold", "hold-answer"]


@dataclass(frozen=True)
class Fault:
    """What to do with which calls.

    Attributes:
        method: for example "NodePrepareResources".
        action:
            "delay": forward after `seconds`;
            "error": answer `code` and `details` without forwarding;
            "cut": answer nothing, without forwarding: the kubelet sees what it sees of a lost connection;
            "drop": forward, then lose the answer in the same way;
            "hold": forward only after `release`;
            "hold-answer": forward at once, answer only after `release`.
        service: short name such as "v1.DRAPlugin", or a full name; None means every service.
        times: so many calls are hit; None means all until the fault is removed.
        seconds: see "delay".
        code: see "error".
        details: see "error".
    """

    method: str
    action: Action
    service: str | None = None
    times: int | None = 1
    seconds: float = 0.0
    code: grpc.StatusCode = grpc.StatusCode.INTERNAL
    details: str = "injected by the proxy"

    def matches(self, call: Call) -> bool:
        """Whether the fault is meant for such a call."""
        services = (None, call.service, FULL_NAMES.get(call.service, call.service))
        return self.method == call.method and self.service in services


class ActiveFault:
    """An injected fault: wait for it, release what it holds, remove it. Also a context manager that removes."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._left = fault.times
        self._hits = 0
        self._removed = False
        self._changed = threading.Condition()
        self._released = threading.Event()

    @property
    def hits(self) -> int:
        """How many calls it has hit."""
        with self._changed:
            return self._hits

    def take(self, call: Call) -> bool:
        """Hit the call if the fault is for it and not used up."""
        with self._changed:
            if self._removed or self._left == 0 or not self.fault.matches(call):
                return False
            if self._left is not None:
                self._left -= 1
            self._hits += 1
            self._changed.notify_all()
            return True

    def wait_hit(self, timeout: float, count: int = 1) -> None:
        """Wait until so many calls were hit.

        Raises:
            TimeoutError: if they were not within the timeout (seconds).
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= count, timeout):
                raise TimeoutError(f"{self.fault} hit {self._hits} of {count} calls within {timeout:g} s")

    def release(self) -> None:
        """Let held calls go on; later ones are not held."""
        self._released.set()

    @property
    def released(self) -> bool:
        """Whether held calls may go on."""
        return self._released.is_set()

    def remove(self) -> None:
        """Hit no more calls and release the held ones."""
        with self._changed:
            self._removed = True
        self.release()

    def __enter__(self) -> ActiveFault:
        """Return itself."""
        return self

    def __exit__(self, *problem: object) -> None:
        """Remove the fault."""
        self.remove()
