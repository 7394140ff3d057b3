"""The text of an expression: places in it and problems found there, printed as cel-go prints them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

_MAX_PROBLEMS: Final = 100
_MAX_SNIPPET_BYTES: Final = 16384


@dataclass(frozen=True)
class Location:
    """A place: line from 1, column from 0, both in characters. Line -1 is no place at all."""

    line: int
    column: int


NO_LOCATION: Final = Location(-1, -1)


class Source:
    """An expression and the problems found in it so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(index + 1 for index, char in enumerate(text) if char == "\n")]
        self._problems: list[tuple[Location, str]] = []
        self._count = 0

    def location(self, offset: int) -> Location:
        """The place of a character; before the first one for what has no place."""
        if offset < 0:
            return Location(1, -1)
        line = bisect_right(self._starts, offset)
        return Location(line, offset - self._starts[line - 1])

    def report(self, location: Location, message: str) -> None:
        """Note a problem; those after the hundredth are only counted."""
        self._count += 1
        if self._count <= _MAX_PROBLEMS:
            self._problems.append((location, message))

    @property
    def problem_count(self) -> int:
        """How many problems were reported."""
        return self._count

    def display(self) -> str:
        """All problems in the order of their places, each with its line and a mark below."""
        ordered = sorted(self._problems, key=lambda problem: (problem[0].line, problem[0].column))
        texts = [self._display(location, message) for location, message in ordered]
        if self._count > _MAX_PROBLEMS:
            texts.append(f"{self._count - _MAX_PROBLEMS} more errors were truncated")
        return "\n".join(texts)

    def _display(self, location: Location, message: str) -> str:
        text = f"ERROR: <input>:{location.line}:{location.column + 1}: {message}"
        if not self.text or not 1 <= location.line <= len(self._starts):
            return text
        start = self._starts[location.line - 1]
        end = self._starts[location.line] - 1 if location.line < len(self._starts) else len(self.text)
        snippet = self.text[start:end]
        if len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET_BYTES:
            return text
        snippet = snippet.replace("\t", " ")
        before = snippet[: max(location.column, 0)]
        here = snippet[location.column : location.column + 1] if location.column >= 0 else snippet[:1]
        # Wide characters get wide marks, so that the mark stands below its character.
        dots = "".join("\uff0e" if ord(char) > 127 else "." for char in before)
        mark = "\uff3e" if here and ord(here) > 127 else "^"
        return f"{text}\n | {snippet}\n | {dots}{mark}"
