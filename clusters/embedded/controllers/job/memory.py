"""What the Job controller remembers from one sync to the next."""

from __future__ import annotations

from clusters.clock import Clock
from clusters.embedded.controllers.controller import Key
from clusters.embedded.controllers.expectations import Expectations
from clusters.embedded.controllers.job.failures import Backoff


class Memory:
    """For all Jobs: expectations, finalizers that were removed, delays after failures, Jobs that were finished.

    All of it bridges the time until the caches show what was written, but for the delays: they begin anew with each
    life of the controller, as upstream's do.
    """

    def __init__(self, clock: Clock) -> None:
        self.expectations = Expectations(clock)
        self.finished: set[str] = set()
        self._backoffs: dict[Key, Backoff] = {}
        self._removals: dict[Key, set[str]] = {}

    def removals(self, key: Key) -> set[str]:
        """Uids of Pods whose finalizer was removed, and whose caches do not show it yet."""
        return set(self._removals.get(key, ()))

    def expect_removal(self, key: Key, uid: str) -> None:
        """The finalizer of a Pod is about to be removed."""
        self._removals.setdefault(key, set()).add(uid)

    def removal_seen(self, key: Key, uid: str) -> None:
        """The removal was seen, or did not happen."""
        self._removals.get(key, set()).discard(uid)

    def backoff(self, key: Key) -> Backoff:
        """Failures since the last success."""
        return self._backoffs.get(key, Backoff())

    def set_backoff(self, key: Key, backoff: Backoff) -> None:
        """Remember failures once they are counted in the Job's status."""
        self._backoffs[key] = backoff

    def end_backoff(self, key: Key) -> None:
        """The Job is finished or gone."""
        self._backoffs.pop(key, None)

    def forget(self, key: Key) -> None:
        """The Job is gone."""
        self.expectations.forget(key)
        self._removals.pop(key, None)
        self.end_backoff(key)
