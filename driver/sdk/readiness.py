"""Whether the driver does its whole job, and if not, why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from driver.sdk import log


class Readiness:
    """Named conditions, each with the reason why it does not hold; ready when none has a reason.

    Safe to use from several threads. A change of a reason is logged once.
    """

    def __init__(self, pending: Mapping[str, str]) -> None:
        """`pending`: conditions that do not hold yet, with their first reason."""
        self._lock = threading.Lock()
        self._reasons = dict(pending)
        self._probes: dict[str, Callable[[], str]] = {}

    def set(self, condition: str, reason: str = "") -> None:
        """State that a condition does not hold and why; an empty reason: it holds."""
        with self._lock:
            before = self._reasons.get(condition, "")
            if reason:
                self._reasons[condition] = reason
            else:
                self._reasons.pop(condition, None)
        if reason and reason != before:
            log.error("not ready", condition=condition, reason=reason)
        elif before and not reason:
            log.info("condition holds", condition=condition)

    def probe(self, condition: str, look: Callable[[], str]) -> None:
        """Register a look-up that gives the reason, "" when the condition holds, whenever somebody asks."""
        with self._lock:
            self._probes[condition] = look

    def reasons(self) -> dict[str, str]:
        """Condition -> reason for each condition that does not hold."""
        with self._lock:
            probes = dict(self._probes)
            reasons = dict(self._reasons)
        for condition, look in probes.items():
            if reason := look():
                reasons[condition] = reason
        return reasons
