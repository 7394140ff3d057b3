"""Puts the real output of `tox -e conformance` into the README: `python -m tools.transcript OUTPUT`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
_SPAN = re.compile(r"(<!-- transcript -->\n```\n).*?(```\n<!-- end of transcript -->)", re.DOTALL)
_HEAD = 12


def shorten(lines: list[str]) -> list[str]:
    """The first rows of the table, a mark, the last area and the totals."""
    blanks = [index for index, line in enumerate(lines) if not line]
    if len(blanks) < 2 or blanks[-2] <= _HEAD:
        return lines
    return [*lines[:_HEAD], "...", *lines[blanks[-2] :]]


def main() -> int:
    """Replace the transcript; colours and trailing blanks go."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.rstrip() for line in plain[plain.index("registration\n") :].splitlines()]
    last = next(index for index, line in enumerate(lines) if line.startswith("reports:"))
    lines = lines[: last + 1]
    body = "\n".join(shorten(lines)) + "\n"
    README.write_text(
        _SPAN.sub(lambda match: match[1] + body + match[2], README.read_text(encoding="utf-8")),
        encoding="utf-8",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
