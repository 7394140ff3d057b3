"""Durations as `sleep` of coreutils reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_DURATION = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([smhd]?)")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(texts: Sequence[str]) -> float:
    """The sum of durations such as `5`, `1.5h`, `infinity`. Raises ValueError with the first wrong one."""
    total = 0.0
    for text in texts:
        if text.lower() in ("inf", "infinity"):
            total = math.inf
            continue
        match = _DURATION.fullmatch(text)
        if match is None:
            raise ValueError(text)
        total += float(match[1]) * _UNITS[match[2]]
    return total
