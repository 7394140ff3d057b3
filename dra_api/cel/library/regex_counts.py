"""Counts and digits in regular expressions."""

from __future__ import annotations

from .regex_nodes import Choice, Node, Repeat, Sequence


def run_of(text: str, start: int, allowed: str, most: int) -> str:
    """The characters from a place that are among the allowed ones, at most some."""
    end = start
    while end < len(text) and end - start < most and text[end] in allowed:
        end += 1
    return text[start:end]


def is_hex(text: str) -> bool:
    """Whether all are hexadecimal digits."""
    return all(char in "0123456789abcdefABCDEF" for char in text)


def bounds(pattern: str, start: int) -> tuple[int, int | None, int] | None:
    """`{n}`, `{n,}` or `{n,m}` from a brace, with the place behind it; -1 for a number that is too large."""
    least, at = _count(pattern, start + 1)
    if least is None or at >= len(pattern):
        return None
    most: int | None = least
    if pattern[at] == ",":
        at += 1
        if at >= len(pattern):
            return None
        if pattern[at] == "}":
            most = None
        else:
            most, at = _count(pattern, at)
            if most is None:
                return None
            if most < 0:
                least = -1
    if pattern[at : at + 1] != "}":
        return None
    return least, most, at + 1


def _count(pattern: str, start: int) -> tuple[int | None, int]:
    digits = run_of(pattern, start, "0123456789", len(pattern))
    if not digits or (len(digits) > 1 and digits[0] == "0"):
        return None, start
    return (-1 if len(digits) > 8 else int(digits)), start + len(digits)


def copies(node: Node, factor: int = 1) -> int:
    """How often the innermost part is repeated at least once its counts are multiplied out."""
    if isinstance(node, Repeat):
        most = node.least if node.most is None else node.most
        return copies(node.part, factor * max(most, 1))
    if isinstance(node, Sequence):
        return max((copies(part, factor) for part in node.parts), default=factor)
    if isinstance(node, Choice):
        return max(copies(option, factor) for option in node.options)
    return factor
