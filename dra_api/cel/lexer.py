"""Tokens of the language, with the problems that cel-go's generated lexer reports."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .source import Source

_ESCAPES: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
_STRINGS: Final = "|".join(
    (
        r'"""(?:ESCAPE|[^\\])*?"""'.replace("ESCAPE", _ESCAPES),
        r"'''(?:ESCAPE|[^\\])*?'''".replace("ESCAPE", _ESCAPES),
        r'"(?:ESCAPE|[^\\"\n\r])*"'.replace("ESCAPE", _ESCAPES),
        r"'(?:ESCAPE|[^\\'\n\r])*'".replace("ESCAPE", _ESCAPES),
        r'[rR]"""[\s\S]*?"""',
        r"[rR]'''[\s\S]*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
# Where two could match, the longer one wins and then the earlier one, as in a generated lexer.
_TOKENS: Final = re.compile(
    rf"""
    (?P<HIDDEN>[\t \r\n\f]+|//[^\n]*)
  | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<BYTES>[bB](?:{_STRINGS}))
  | (?P<STRING>{_STRINGS})
  | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<SYMBOL>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_KEYWORDS: Final = {"in", "true", "false", "null"}
EOF_TYPE: Final = "EOF"


class Unreadable(NamedTuple):
    """Characters that are no token: begin, end (behind the last one) and what is said about them."""

    offset: int
    end: int
    message: str


class Token(NamedTuple):
    """A token. `type` is the text of symbols and keywords, else the name of the class, or `EOF`."""

    type: str
    text: str
    offset: int


def tokenize(source: Source) -> tuple[list[Token], list[Unreadable]]:
    """All visible tokens up to and with `EOF`, and what could not be read."""
    text, position = source.text, 0
    tokens: list[Token] = []
    problems: list[Unreadable] = []
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            end = _dead_end(text, position)
            message = f"token recognition error at: '{text[position : end + 1]}'"
            position, start = end + 1, position
            problems.append(Unreadable(start, position, message))
            continue
        kind = match.lastgroup or ""
        if kind != "HIDDEN":
            found = match.group()
            if kind == "SYMBOL" or found in _KEYWORDS:
                kind = found
            tokens.append(Token(kind, found, position))
        position = match.end()
    tokens.append(Token(EOF_TYPE, "<EOF>", len(text)))
    return tokens, problems


def _dead_end(text: str, start: int) -> int:
    """The character at which no token can go on any more (the length of the text for its end)."""
    first = text[start]
    if first in "&|=":
        return start + 1
    if first == "`":
        position = start + 1
        while position < len(text) and re.match(r"[A-Za-z0-9_.\-/ ]", text[position]):
            position += 1
        return position
    if first not in "\"'":
        return start
    position = start + 1
    while position < len(text):
        char = text[position]
        if char in "\n\r":
            return position
        if char != "\\":
            position += 1
            continue
        escape = re.compile(_ESCAPES).match(text, position)
        if escape is None:
            return _dead_escape(text, position)
        position = escape.end()
    return position


def _dead_escape(text: str, start: int) -> int:
    kind = text[start + 1 : start + 2]
    digits, allowed = {"x": 2, "X": 2, "u": 4, "U": 8}.get(kind, 0), "[0-9a-fA-F]"
    if kind and kind in "0123":
        digits, allowed = 2, "[0-7]"
    position = start + 1
    if digits:
        position += 1
        while position < len(text) and digits and re.match(allowed, text[position]):
            position, digits = position + 1, digits - 1
    return position
