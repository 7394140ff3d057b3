"""What a driver prints, told apart from what it prints at every start."""

from __future__ import annotations

import re

# Times, process ids, UIDs and counts differ from run to run.
_CHANGING = re.compile(r"[0-9a-f]*\d[0-9a-f]*", re.IGNORECASE)


def news(usual: str, text: str) -> list[str]:
    """The lines of `text` of which `usual` has none of the same shape, numbers and blanks aside."""
    known = {_shape(line) for line in usual.splitlines()}
    return [line for line in text.splitlines() if _shape(line) not in known]


def _shape(line: str) -> str:
    return _CHANGING.sub("#", " ".join(line.split()))
