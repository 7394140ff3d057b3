"""What the command prints: results, and what it says when it cannot do what it was asked."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click
from rich.cells import cell_len
from rich.console import Console

from conformance.report.layout import clean

_SHOWN: Final = 10


class UserError(click.ClickException):
    """A mistake in usage or input: one clear line for each, exit code 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """Print the message, each line with the program's name."""
        say(self.message)


def counted(count: int, word: str) -> str:
    """A number with its word, such as "1 node" or "2 nodes"."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def some(names: Sequence[str], none: str = "none") -> str:
    """Names in words, the first of many."""
    shown, more = list(names[:_SHOWN]), len(names) - _SHOWN
    return (", ".join(shown) + (f" and {more} more" if more > 0 else "")) or none


def say(message: str) -> None:
    """Print lines on stderr, each with the program's name. Nobody has to listen."""
    with contextlib.suppress(OSError):
        for line in message.splitlines():
            click.echo(f"drakit: {clean(line)}", err=True)


def write_out(text: str) -> bool:
    """Print on standard output, and tell whether somebody still reads. One who has enough, such as head, is no error.

    Raises UserError when the output cannot be written, for example to a full disk.
    """
    if sys.stdout is None:
        return True
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return False
    except OSError as error:
        drop_output()
        raise UserError(f"standard output cannot be written: {error.strerror}") from None
    return True


@contextlib.contextmanager
def standard_output() -> Iterator[Console]:
    """A console that behaves as one for standard output; what is printed on it is written at the end."""
    buffer = io.StringIO()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    yield Console(file=buffer, force_terminal=is_terminal)
    write_out(buffer.getvalue())


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Rows below their columns, aligned; `right` are the columns of numbers.

    Lines are as long as they have to be, as kubectl prints them: other programs, such as grep, want whole ones.
    """
    lines = [list(columns), *([clean(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    text = ""
    for line in lines:
        cells = []
        for column, cell, width in zip(columns, line, widths, strict=True):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if column in right else cell + space)
        text += "  ".join(cells).rstrip() + "\n"
    return text


def drop_output() -> None:
    """Let nothing more be written to standard output, not even when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def accept_any_text() -> None:
    """Print characters that the terminal's encoding does not have as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
