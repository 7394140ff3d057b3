"""What a controller asked for and waits to see in its cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from clusters.clock import Clock
from clusters.embedded.controllers.controller import Key

_EXPECTATIONS_SECONDS: Final = 300.0


class _Expected:
    def __init__(self, creations: int, deletions: set[Key], at: float) -> None:
        self.creations, self.deletions, self.at = creations, deletions, at


class Expectations:
    """Creations and deletions that a controller asked for and has not seen in its cache yet.

    A controller that would act before it has seen them would create or delete too much.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expected: dict[Key, _Expected] = {}

    def expect(self, key: Key, creations: int = 0, deletions: Iterable[Key] = ()) -> None:
        """Expect so many creations and the deletion of these Pods (namespace and name) from now on."""
        self._expected[key] = _Expected(creations, set(deletions), self._clock.now())

    def created(self, key: Key, count: int = 1) -> None:
        """Creations were seen, or will never be."""
        if key in self._expected:
            self._expected[key].creations -= count

    def deleted(self, key: Key, pod: Key) -> None:
        """A Pod's deletion was seen, or will never be."""
        if key in self._expected:
            self._expected[key].deletions.discard(pod)

    def satisfied(self, key: Key) -> bool:
        """Whether all was seen, or five minutes have passed."""
        known = self._expected.get(key)
        if known is None or (known.creations <= 0 and not known.deletions):
            return True
        return self._clock.now() - known.at > _EXPECTATIONS_SECONDS

    def forget(self, key: Key) -> None:
        """The owner is gone."""
        self._expected.pop(key, None)
