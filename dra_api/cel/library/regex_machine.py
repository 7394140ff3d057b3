"""Matching of regular expressions as Go does it: the leftmost match, earlier choices preferred.

Simple patterns run in Python's own engine. Those in which repetitions could multiply run in a machine that
keeps all possibilities side by side, so that the time stays proportional to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from .regex_nodes import Assertion, Chars, Choice, Node, Repeat, Sequence
from .regex_syntax import parse

_LOOPS_IN_PYTHON: Final = 2
_ASSERTIONS: Final = {
    "begin": r"\A",
    "end": r"\Z",
    "line_begin": "(?m:^)",
    "line_end": "(?m:$)",
    "word": r"(?a:\b)",
    "no_word": r"(?a:\B)",
}


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        """Raises RegexError (see `regex_syntax`)."""
        tree = parse(pattern)
        loops, nested = _loops(tree)
        self._python: re.Pattern[str] | None = None
        self._machine: _Machine | None = None
        if nested or loops > _LOOPS_IN_PYTHON:
            self._machine = _Machine(tree)
        else:
            self._python = re.compile(_python(tree))

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Begin and end of the first match at or behind a place."""
        if self._python is not None:
            match = self._python.search(text, start)
            return None if match is None else match.span()
        return None if self._machine is None else self._machine.search(text, start)

    def find_all(self, text: str) -> Iterator[str]:
        """All matches that do not overlap; an empty one directly behind another does not count."""
        position, previous = 0, -1
        while position <= len(text):
            span = self.search(text, position)
            if span is None:
                return
            begin, end = span
            if end > begin:
                position = end
            elif begin == previous:
                position = begin + 1
                continue
            else:
                position = end + 1
            previous = end
            yield text[begin:end]


@lru_cache(maxsize=256)
def compile(pattern: str) -> Regex:
    """The compiled pattern. Raises RegexError."""
    return Regex(pattern)


def _loops(node: Node) -> tuple[int, bool]:
    """How many repetitions without a small bound there are, and whether one is within another repetition."""
    if isinstance(node, Repeat):
        inner, nested = _loops(node.part)
        long = node.most is None or node.most > 8
        return inner + long, nested or (long and _varies(node.part)) or (inner > 0)
    parts = node.parts if isinstance(node, Sequence) else node.options if isinstance(node, Choice) else ()
    found = [_loops(part) for part in parts]
    return sum(count for count, _ in found), any(nested for _, nested in found)


def _varies(node: Node) -> bool:
    """Whether matches of a part may differ in length."""
    if isinstance(node, Repeat):
        return node.least != node.most or _varies(node.part)
    if isinstance(node, Sequence):
        return any(_varies(part) for part in node.parts)
    return isinstance(node, Choice)


def _python(node: Node) -> str:
    if isinstance(node, Chars):
        text = "".join(_range(low, high) for low, high in node.ranges)
        # A class without characters never matches.
        text = f"[{text}]" if text else r"(?!)"
        return f"(?i:{text})" if node.fold else text
    if isinstance(node, Assertion):
        return _ASSERTIONS[node.kind]
    if isinstance(node, Sequence):
        return "".join(map(_python, node.parts))
    if isinstance(node, Choice):
        return f"(?:{'|'.join(map(_python, node.options))})"
    if isinstance(node, Repeat):
        most = "" if node.most is None else node.most
        return f"(?:{_python(node.part)}){{{node.least},{most}}}{'' if node.greedy else '?'}"
    return ""


def _range(low: int, high: int) -> str:
    return re.escape(chr(low)) if low == high else f"{re.escape(chr(low))}-{re.escape(chr(high))}"


class _Machine:
    """Instructions: ("char", pattern), ("split", first, second), ("jump", to), ("assert", kind), ("match",)."""

    def __init__(self, tree: Node) -> None:
        self._code: list[tuple[object, ...]] = []
        self._emit(tree)
        self._code.append(("match",))

    def _emit(self, node: Node) -> None:
        code = self._code
        if isinstance(node, Chars):
            code.append(("char", re.compile(_python(node), re.DOTALL)))
        elif isinstance(node, Assertion):
            code.append(("assert", re.compile(_ASSERTIONS[node.kind])))
        elif isinstance(node, Sequence):
            for part in node.parts:
                self._emit(part)
        elif isinstance(node, Choice):
            ends: list[int] = []
            for option in node.options[:-1]:
                split = len(code)
                code.append(())
                self._emit(option)
                ends.append(len(code))
                code.append(())
                code[split] = ("split", split + 1, len(code))
            self._emit(node.options[-1])
            for end in ends:
                code[end] = ("jump", len(code))
        elif isinstance(node, Repeat):
            self._emit_repeat(node)

    def _emit_repeat(self, node: Repeat) -> None:
        code = self._code
        for _ in range(node.least):
            self._emit(node.part)
        if node.most is None:
            split = len(code)
            code.append(())
            self._emit(node.part)
            code.append(("jump", split))
            code[split] = _split(split + 1, len(code), node.greedy)
            return
        splits: list[int] = []
        for _ in range(node.most - node.least):
            splits.append(len(code))
            code.append(())
            self._emit(node.part)
        for split in splits:
            code[split] = _split(split + 1, len(code), node.greedy)

    def search(self, text: str, start: int) -> tuple[int, int] | None:
        """The first match at or behind a place."""
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        for position in range(start, len(text) + 1):
            if found is None:
                # Threads that began earlier come first.
                self._add(threads, 0, position, text, position)
            elif not threads:
                break
            following: list[tuple[int, int]] = []
            seen: set[int] = set()
            for at, begin in threads:
                instruction = self._code[at]
                if instruction[0] == "match":
                    found = (begin, position)
                    break
                if position < len(text) and instruction[1].match(text, position):  # type: ignore[attr-defined]
                    self._add(following, at + 1, begin, text, position + 1, seen)
            threads = following
        return found

    def _add(
        self,
        threads: list[tuple[int, int]],
        at: int,
        begin: int,
        text: str,
        position: int,
        seen: set[int] | None = None,
    ) -> None:
        """Add the characters and ends that are reachable without reading, in the order of preference."""
        seen = {known for known, _ in threads} if seen is None else seen
        waiting = [at]
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self._code[at]
            kind = instruction[0]
            if kind == "jump":
                waiting.append(instruction[1])  # type: ignore[arg-type]
            elif kind == "split":
                waiting += [instruction[2], instruction[1]]  # type: ignore[list-item]
            elif kind == "assert":
                if instruction[1].match(text, position):  # type: ignore[attr-defined]
                    waiting.append(at + 1)
            else:
                threads.append((at, begin))


def _split(inside: int, behind: int, greedy: bool) -> tuple[object, ...]:
    return ("split", inside, behind) if greedy else ("split", behind, inside)
