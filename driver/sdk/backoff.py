"""Growing pauses between attempts."""

from __future__ import annotations

import random

_FIRST, _LONGEST = 0.25, 30.0


class Backoff:
    """Doubles from 0.25 s to 30 s, each varied by a fifth so that nodes do not come back all at once."""

    def __init__(self) -> None:
        self._delay = _FIRST

    def next(self) -> float:
        """The seconds to wait now."""
        delay = self._delay * random.uniform(0.8, 1.2)
        self._delay = min(self._delay * 2, _LONGEST)
        return delay

    def reset(self) -> None:
        """Begin anew, after a success."""
        self._delay = _FIRST
