"""Lines of text that fit a terminal, and that a terminal takes for nothing but text."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

NO_BREAK = "\N{NO-BREAK SPACE}"
"""Keeps two words on one line; a plain space is printed."""

_NARROW = 80
_LEAST_TEXT = 24
# What a driver prints must not steer the user's terminal.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """The text without control characters other than line feed and tab."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def width(console: Console) -> int | None:
    """Columns to fill. None for a file or pipe: programs such as grep want whole lines there."""
    told = console.is_terminal or "COLUMNS" in os.environ
    return console.width if told else None


def wrap(text: str, columns: int | None, indent: str, first: str | None = None) -> list[str]:
    """The text in lines of at most `columns`, each with the indent, the first one with `first` instead."""
    first = indent if first is None else first
    if columns is None:
        return [first + " ".join(text.replace(NO_BREAK, " ").split())]
    room = max(columns, len(indent) + _LEAST_TEXT)
    # A broken path cannot be copied; the terminal itself wraps what is longer than a line.
    lines = textwrap.wrap(
        text,
        room,
        initial_indent=first,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines] or [first.rstrip()]


def cut(line: str, columns: int) -> str:
    """The line, shortened to the columns where it is longer."""
    return line if len(line) <= columns else line[: columns - 1] + "…"


Cell = tuple[str, str]
"""Text and style of one column."""


def row(console: Console, cells: Sequence[Cell], widths: Sequence[int], text: str, note: str = "") -> None:
    """One entry of a table: short cells in columns, then a text that wraps beside them.

    In less than 80 columns it wraps below. `note` follows in lines of its own.
    """
    columns = width(console)
    line = Text()
    for (word, style), size in zip(cells, widths, strict=True):
        line.append(f"{word:<{size}}", style)
        line.append("  ")
    indent = " " * len(line)
    lines = wrap(text, columns, indent)
    if columns is not None and columns < _NARROW:
        indent = "    "
        lines = [indent, *wrap(text, columns, indent)]
    line.append(lines[0].strip())
    print_line(console, line)
    print_lines(console, lines[1:])
    if note:
        print_lines(console, wrap(note, columns, indent), "dim")


def print_line(console: Console, line: Text) -> None:
    """Print one line as it is, without wrapping or padding."""
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)


def print_lines(console: Console, lines: Iterable[str], style: str = "") -> None:
    """Print lines as they are."""
    for line in lines:
        print_line(console, Text(line, style))
