"""What somebody may have meant by a word that is not allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The allowed word that is most like this one; case does not count. None when none is near."""
    words = list(allowed)
    for candidate in words:
        if candidate.lower() == word.lower():
            return candidate
    near = difflib.get_close_matches(word, words, n=1)
    return near[0] if near else None
