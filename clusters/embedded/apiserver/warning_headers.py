"""Warnings of an answer (api-machinery section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from multidict import MutableMultiMapping

# All texts together, and each of them when they are too long together, in characters.
_MAX_TOTAL: Final = 4096
_MAX_TRUNCATED: Final = 256
# Python's own HTTP client reads at most 100 headers; the rest of the warnings share one, which means the same.
_MAX_HEADERS: Final = 50


def add_warnings(headers: MutableMultiMapping[str], texts: Iterable[str]) -> None:
    """Add a Warning header for each text; repeated texts are told once."""
    kept = list(dict.fromkeys(texts))
    if sum(map(len, kept)) > _MAX_TOTAL:
        kept = _truncated(kept)
    values = [f'299 - "{_escaped(text)}"' for text in kept]
    for value in values[:_MAX_HEADERS]:
        headers.add("Warning", value)
    if len(values) > _MAX_HEADERS:
        headers.add("Warning", ", ".join(values[_MAX_HEADERS:]))


def _truncated(texts: list[str]) -> list[str]:
    """As many texts as a real server sends: the last one may pass the limit."""
    kept: list[str] = []
    total = 0
    for text in texts:
        if total >= _MAX_TOTAL:
            break
        kept.append(text[:_MAX_TRUNCATED])
        total += len(kept[-1])
    return kept


def _escaped(text: str) -> str:
    """A text quoted, and without what a header cannot hold."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable.replace("\\", "\\\\").replace('"', '\\"')
