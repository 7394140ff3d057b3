"""Parts of regular expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .regex_classes import Ranges


@dataclass(frozen=True, slots=True)
class Node:
    """Any part of a pattern; as itself one that matches the empty string."""


@dataclass(frozen=True, slots=True)
class Chars(Node):
    """One character out of ranges."""

    ranges: Ranges
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Assertion(Node):
    """`begin` or `end` of the text (`line_begin`, `line_end` of a line), `word` boundary or `no_word` boundary."""

    kind: str


@dataclass(frozen=True, slots=True)
class Sequence(Node):
    """Parts one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """One of several, the earlier preferred."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Node):
    """A part several times; `most` is None without an end."""

    part: Node
    least: int
    most: int | None
    greedy: bool


EMPTY: Final = Node()
"""Matches the empty string."""
