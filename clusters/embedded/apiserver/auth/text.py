"""Wording shared by authentication and authorization: values as a real server prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable


def quoted(text: str) -> str:
    """The text in double quotes with escapes."""
    return json.dumps(text, ensure_ascii=False)


def quoted_list(texts: Iterable[str]) -> str:
    """`["a" "b"]`."""
    return "[" + " ".join(quoted(text) for text in texts) + "]"


def aggregated(texts: Iterable[str]) -> str:
    """Several messages as one: the message itself, or `[a, b]` without repetitions."""
    unique = list(dict.fromkeys(texts))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
