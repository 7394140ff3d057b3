"""Splitting a shell script into words and operators; quoting is kept apart until variables are expanded."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from clusters.containers.shell.patterns import MAGIC, literal

OPERATORS = ("&&", "&>", "||", ";;", ">>", ">&", "<<", "&", "|", ";", "(", ")", "<", ">", "\n")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECTION = re.compile(r"([0-9])(>>|>&|<<|>|<)")
_SPECIAL = frozenset("?$!#@*0123456789")
_ESCAPED_IN_QUOTES = frozenset('$`"\\')


class ShellSyntaxError(Exception):
    """A script that the shell refuses, or a form that the simulated shell does not know (`known` False)."""

    def __init__(self, text: str, line: int, *, known: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.line = line
        self.known = known


@dataclass(frozen=True)
class Piece:
    """A part of a word: text, or (`variable`) the name of a variable with what stands for it when it is not set.

    `operator` is that of `${NAME:-default}`: one of "", "-", ":-", "+", ":+", "#" for the length.
    """

    text: str
    quoted: bool = False
    variable: bool = False
    operator: str = ""
    default: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Word:
    """A word of a script; `line` counts from 1."""

    pieces: tuple[Piece, ...]
    line: int

    @property
    def plain(self) -> str | None:
        """The text if nothing in the word is quoted or expanded: only such a word can be a keyword."""
        if all(not piece.quoted and not piece.variable for piece in self.pieces):
            return "".join(piece.text for piece in self.pieces)
        return None

    @property
    def source(self) -> str:
        """The word without its quotes, variables as `$NAME`."""
        return "".join(f"${piece.text}" if piece.variable else piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Operator:
    """A control or redirection operator, or the end of a line; `fd` is the number written before a redirection."""

    text: str
    line: int
    fd: int | None = None


Token = Word | Operator


def split(script: str) -> list[Token]:
    """The words and operators of a script, without comments. Raises ShellSyntaxError."""
    return _Splitter(script).tokens()


class _Splitter:
    def __init__(self, script: str) -> None:
        self._text = script
        self._at = 0
        self._line = 1

    def tokens(self) -> list[Token]:
        found: list[Token] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r":
                self._at += 1
            elif self._text.startswith("\\\n", self._at):
                self._skip(2)
            elif char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            else:
                found.append(self._operator() or self._word())
        return found

    def _skip(self, count: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def _operator(self) -> Operator | None:
        if match := _REDIRECTION.match(self._text, self._at):
            self._skip(match.end() - self._at)
            return Operator(match[2], self._line, int(match[1]))
        for text in OPERATORS:
            if self._text.startswith(text, self._at):
                token = Operator(text, self._line)
                self._skip(len(text))
                return token
        return None

    def _word(self) -> Word:
        line = self._line
        pieces: list[Piece] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r" or self._text.startswith(OPERATORS, self._at):
                break
            pieces += self._piece(char)
        return Word(tuple(pieces), line)

    def _piece(self, char: str) -> list[Piece]:
        if char == "'":
            return [Piece(self._until("'", 1), quoted=True)]
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            if self._at + 1 == len(self._text):
                self._skip(1)
                return [Piece("\\", quoted=True)]
            escaped = self._text[self._at + 1]
            self._skip(2)
            return [] if escaped == "\n" else [Piece(escaped, quoted=True)]
        if char == "$":
            return [self._variable(quoted=False)]
        if char == "`":
            raise self._unknown("command substitution")
        self._skip(1)
        return [Piece(char)]

    def _until(self, end: str, opening: int) -> str:
        start = self._at + opening
        stop = self._text.find(end, start)
        if stop < 0:
            raise ShellSyntaxError("Unterminated quoted string", self._line)
        text = self._text[start:stop]
        self._skip(stop + len(end) - self._at)
        return text

    def _double_quoted(self) -> list[Piece]:
        line = self._line
        self._skip(1)
        # An empty piece keeps "" a word.
        pieces = [Piece("", quoted=True)]
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == '"':
                self._skip(1)
                return pieces
            if char == "\\" and self._at + 1 < len(self._text):
                escaped = self._text[self._at + 1]
                self._skip(2)
                if escaped in _ESCAPED_IN_QUOTES:
                    pieces.append(Piece(escaped, quoted=True))
                elif escaped != "\n":
                    pieces.append(Piece(f"\\{escaped}", quoted=True))
            elif char == "$":
                pieces.append(self._variable(quoted=True))
            elif char == "`":
                raise self._unknown("command substitution")
            else:
                self._skip(1)
                pieces.append(Piece(char, quoted=True))
        raise ShellSyntaxError("Unterminated quoted string", line)

    def _variable(self, *, quoted: bool) -> Piece:
        after = self._text[self._at + 1 : self._at + 2]
        if after == "(":
            what = "arithmetic" if self._text.startswith("$((", self._at) else "command substitution"
            raise self._unknown(what)
        if after == "{":
            return self._braced(quoted=quoted)
        if after in _SPECIAL and after:
            self._skip(2)
            return Piece(after, quoted, variable=True)
        match = _NAME.match(self._text, self._at + 1)
        if match is None:
            self._skip(1)
            return Piece("$", quoted)
        self._skip(match.end() - self._at)
        return Piece(match.group(), quoted, variable=True)

    def _braced(self, *, quoted: bool) -> Piece:
        line = self._line
        inside = self._until("}", 2)
        if inside.startswith("#") and _NAME.fullmatch(inside[1:]):
            return Piece(inside[1:], quoted, variable=True, operator="#")
        match = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*|[?$!#@*0-9])(?:(:?[-+])(.*))?", inside, re.DOTALL)
        if match is None:
            raise ShellSyntaxError(f"the form ${{{inside}}}", line, known=False)
        name, operator, default = match.groups()
        pieces = default_pieces(default or "", quoted=quoted)
        return Piece(name, quoted, variable=True, operator=operator or "", default=pieces)

    def _unknown(self, what: str) -> ShellSyntaxError:
        return ShellSyntaxError(what, self._line, known=False)


def default_pieces(text: str, *, quoted: bool) -> tuple[Piece, ...]:
    """The pieces of the default value inside `${NAME:-...}`."""
    splitter = _Splitter(text)
    pieces: list[Piece] = []
    while splitter._at < len(text):
        char = text[splitter._at]
        if quoted and char not in '\\$`"':
            splitter._skip(1)
            pieces.append(Piece(char, quoted=True))
        else:
            pieces += splitter._piece(char)
    return tuple(pieces)


def expand(
    word: Word, value: Callable[[str], str | None], found: Callable[[str], list[str]] = lambda pattern: []
) -> list[str]:
    """The fields of a word: variables replaced, unquoted ones split at blanks, patterns replaced by paths, quotes gone.

    `value` gives the value of a variable, or None when it is not set; `found` the paths that match a pattern. A pattern
    that nothing matches stays as it is.
    """
    fields: list[_Text] = []
    current: _Text | None = None
    for text, quoted, splits in _expanded(word.pieces, value):
        if not splits:
            if text or quoted:
                current = (current or _Text()).plus(text, quoted=quoted)
            continue
        parts = re.split(r"[ \t\n]+", text)
        for index, part in enumerate(parts):
            if index and current is not None:
                fields.append(current)
                current = None
            if part:
                current = (current or _Text()).plus(part, quoted=False)
    if current is not None:
        fields.append(current)
    return [result for field in fields for result in field.paths(found) or [field.text]]


@dataclass(frozen=True)
class _Text:
    """A field, and the pattern that it is where something in it is not quoted."""

    text: str = ""
    pattern: str = ""
    magic: bool = False

    def plus(self, text: str, *, quoted: bool) -> _Text:
        magic = self.magic or (not quoted and not MAGIC.isdisjoint(text))
        return _Text(self.text + text, self.pattern + (literal(text) if quoted else text), magic)

    def paths(self, found: Callable[[str], list[str]]) -> list[str]:
        return found(self.pattern) if self.magic else []


def expand_joined(word: Word, value: Callable[[str], str | None]) -> str:
    """The word as one text, as in an assignment: variables replaced, nothing split."""
    return "".join(text for text, _, _ in _expanded(word.pieces, value))


def _expanded(pieces: tuple[Piece, ...], value: Callable[[str], str | None]) -> list[tuple[str, bool, bool]]:
    """Texts with: is it quoted, is it split at blanks."""
    found: list[tuple[str, bool, bool]] = []
    for piece in pieces:
        if not piece.variable:
            found.append((piece.text, piece.quoted, False))
            continue
        current = value(piece.text)
        if piece.operator == "#":
            found.append((str(len(current or "")), piece.quoted, False))
            continue
        missing = current is None or (piece.operator.startswith(":") and not current)
        if (piece.operator.endswith("-") and missing) or (piece.operator.endswith("+") and not missing):
            found += _expanded(piece.default, value)
        elif not piece.operator.endswith("+"):
            found.append((current or "", piece.quoted, not piece.quoted))
    return found
