"""Pathname expansion: patterns of a script matched with the paths that a container has."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from fnmatch import fnmatchcase

MAGIC = frozenset("*?[")
Names = Callable[[str], list[str] | None]
"""The names in a folder, the path itself for anything else, None for nothing."""


def literal(text: str) -> str:
    """The pattern that matches the text alone."""
    return "".join(f"[{char}]" if char in MAGIC else char for char in text)


def paths(pattern: str, folder: str, names: Names) -> list[str]:
    """The paths that match, sorted and written as the pattern is; relative ones are below `folder`.

    As in a shell, `*` stands for no `/`, and for a dot at the beginning of a name only a dot does.
    """
    found = [""]
    for index, part in enumerate(pattern.split("/")):
        above = [f"{path}/" if index else "" for path in found]
        found = [
            path + name for path in above for name in _matching(part, posixpath.join(folder, path), names)
        ]
    return sorted(path for path in found if names(posixpath.join(folder, path)) is not None)


def _matching(part: str, folder: str, names: Names) -> list[str]:
    inside = names(folder)
    if inside is None or inside == [folder]:
        return []
    if MAGIC.isdisjoint(part):
        return [part]
    part = part.replace("[^", "[!")
    return [
        name for name in inside if fnmatchcase(name, part) and (part[0] == "." or not name.startswith("."))
    ]
