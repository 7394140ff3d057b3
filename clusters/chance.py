"""Chance for names, jitter and orders that nobody should rely on."""

from __future__ import annotations

import random
from typing import Final

CHANCE: Final = random.Random()
"""A source of its own: programs that the kit runs in may have seeded Python's common one and count on what it gives."""

_SUFFIX_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5


def name_suffix() -> str:
    """What Kubernetes puts at the end of names that it makes up: five characters without vowels."""
    return "".join(CHANCE.choices(_SUFFIX_CHARACTERS, k=_SUFFIX_LENGTH))
