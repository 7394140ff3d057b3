"""Chance for names, jitter and orders that nobody should rely on."""

from __future__ import annotations

import random
from typing import Final

CHANCE: Final = random.Random()
"""A source of its own: programs that the kit runs in may have seeded Python's common one and count on what it gives."""
