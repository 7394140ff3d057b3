"""Which pods a scheduler takes when several share them."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """The part `index` of `count` equal ones, by the UIDs of pods: each pod has one scheduler, as with a single one.

    `name` is that of the scheduler, the same in each of its lives.
    """

    index: int = 0
    count: int = 1
    name: str = "scheduler"

    def has(self, uid: str) -> bool:
        """Whether the pod of this UID is in it."""
        return self.count == 1 or zlib.crc32(uid.encode()) % self.count == self.index


ALONE: Final = Share()
