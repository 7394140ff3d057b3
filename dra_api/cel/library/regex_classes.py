"""Classes of characters in regular expressions, as ranges of code points (Go `regexp/syntax`)."""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache
from typing import Final

Ranges = tuple[tuple[int, int], ...]
"""First and last code points."""
MAX_CODE: Final = sys.maxunicode
ALL: Final[Ranges] = ((0, MAX_CODE),)
NO_NEWLINE: Final[Ranges] = ((0, 9), (11, MAX_CODE))
PERL: Final[dict[str, Ranges]] = {
    "d": ((48, 57),),
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
CATEGORIES: Final = frozenset(
    (
        "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No",
        "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
    )
)  # fmt: skip


def negated(ranges: Ranges) -> Ranges:
    """All other characters."""
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    if start <= MAX_CODE:
        found.append((start, MAX_CODE))
    return tuple(found)


def folded(ranges: Ranges) -> Ranges:
    """The characters in upper and lower case."""
    found = list(ranges)
    for low, high in ranges:
        if high - low < 0x1000:
            for code in range(low, high + 1):
                for other in (chr(code).lower(), chr(code).upper()):
                    if len(other) == 1:
                        found.append((ord(other), ord(other)))
    return tuple(found)


@lru_cache(maxsize=64)
def category(name: str) -> Ranges:
    """The characters of a Unicode category."""
    found: list[tuple[int, int]] = []
    start: int | None = None
    for code in range(MAX_CODE + 2):
        inside = code <= MAX_CODE and unicodedata.category(chr(code)).startswith(name)
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append((start, code - 1))
            start = None
    return tuple(found)
