"""The structure of a shell script.

Known are lists (`;`, newline, `&`, `&&`, `||`, `!`), groups (`{ }`, `( )`), `if`, `while`, `until`, `for`, assignments
and redirections. Pipes, `case`, functions, here documents and substitutions are not: a script that uses them is
refused by name, never half understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.containers.shell.words import Operator, Piece, ShellSyntaxError, Token, Word, split

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_RESERVED_ENDS = frozenset({"then", "else", "elif", "fi", "do", "done", "}"})
_UNKNOWN_OPERATORS = {"|": "a pipe", "<<": "a here document", "&>": "`&>`"}
_UNKNOWN_WORDS = frozenset({"case", "function", "select", "[[", "time", "coproc"})


@dataclass(frozen=True)
class Redirect:
    """`fd` goes to a file (`append` or not), to another descriptor (`duplicate`), or comes from a file (`read`)."""

    fd: int
    kind: str
    target: Word


@dataclass(frozen=True)
class Simple:
    """Assignments and a command with its words."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    line: int


@dataclass(frozen=True)
class Group:
    """Commands in braces, or in parentheses with variables of their own."""

    body: CommandList
    subshell: bool
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True)
class If:
    """Conditions with what follows from each, tried in order."""

    branches: tuple[tuple[CommandList, CommandList], ...]
    otherwise: CommandList | None


@dataclass(frozen=True)
class Loop:
    """`while`, or `until` with `negated`."""

    condition: CommandList
    body: CommandList
    negated: bool


@dataclass(frozen=True)
class For:
    """`for NAME in WORDS`."""

    name: str
    words: tuple[Word, ...]
    body: CommandList


@dataclass(frozen=True)
class Not:
    """`! COMMAND`."""

    command: Command


Command = Simple | Group | If | Loop | For | Not


@dataclass(frozen=True)
class AndOr:
    """A command, then (`&&` or `||`, command) pairs; `background` when `&` ends it."""

    first: Command
    rest: tuple[tuple[str, Command], ...] = ()
    background: bool = False


@dataclass(frozen=True)
class CommandList:
    """A list of commands."""

    items: tuple[AndOr, ...] = field(default=())


def parse(script: str) -> CommandList:
    """The structure of a script. Raises ShellSyntaxError."""
    return _Parser(split(script)).script()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def script(self) -> CommandList:
        found = self._sequence()
        token = self._peek()
        if token is not None:
            raise self._unexpected(token)
        return found

    def _peek(self) -> Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _operator(self, *texts: str) -> Operator | None:
        token = self._peek()
        if isinstance(token, Operator) and token.text in texts:
            self._at += 1
            return token
        return None

    def _keyword(self) -> str | None:
        token = self._peek()
        return token.plain if isinstance(token, Word) else None

    def _take_keyword(self, *words: str) -> str:
        keyword = self._keyword()
        if keyword is None or keyword not in words:
            token = self._peek()
            if token is None:
                raise self._ended(words[0])
            raise self._unexpected(token, words[0])
        self._at += 1
        return keyword

    def _line(self) -> int:
        return self._tokens[-1].line if self._tokens else 1

    def _ended(self, expecting: str = "") -> ShellSyntaxError:
        hint = f' (expecting "{expecting}")' if expecting else ""
        return ShellSyntaxError(f"end of file unexpected{hint}", self._line())

    def _unexpected(self, token: Token, expecting: str = "") -> ShellSyntaxError:
        hint = f' (expecting "{expecting}")' if expecting else ""
        if isinstance(token, Word):
            return ShellSyntaxError(f'"{token.source}" unexpected{hint}', token.line)
        if token.text in _UNKNOWN_OPERATORS:
            return ShellSyntaxError(_UNKNOWN_OPERATORS[token.text], token.line, known=False)
        name = "newline" if token.text == "\n" else f'"{token.text}"'
        return ShellSyntaxError(f"{name} unexpected{hint}", token.line)

    def _newlines(self) -> None:
        while self._operator("\n"):
            pass

    def _sequence(self) -> CommandList:
        """Commands up to the end, a closing word or a closing parenthesis."""
        items: list[AndOr] = []
        while True:
            self._newlines()
            token = self._peek()
            if token is None or (isinstance(token, Operator) and token.text == ")"):
                break
            if self._keyword() in _RESERVED_ENDS:
                break
            item = self._and_or()
            separator = self._operator(";", "&", "\n")
            if separator is not None and separator.text == "&":
                item = AndOr(item.first, item.rest, background=True)
            items.append(item)
            if separator is None:
                break
        return CommandList(tuple(items))

    def _body(self, end: str) -> CommandList:
        """Commands of a compound command: at least one, before the word that ends them."""
        found = self._sequence()
        if not found.items:
            token = self._peek()
            raise self._ended(end) if token is None else self._unexpected(token)
        return found

    def _and_or(self) -> AndOr:
        first = self._command()
        rest: list[tuple[str, Command]] = []
        while operator := self._operator("&&", "||"):
            self._newlines()
            rest.append((operator.text, self._command()))
        return AndOr(first, tuple(rest))

    def _command(self) -> Command:
        token = self._peek()
        if token is None:
            raise self._ended()
        if self._operator("("):
            body = self._body(")")
            if not self._operator(")"):
                token = self._peek()
                raise self._ended(")") if token is None else self._unexpected(token, ")")
            return Group(body, True, self._redirects())
        compound: dict[str | None, Callable[[], Command]] = {
            "if": self._if,
            "while": self._loop,
            "until": self._loop,
            "for": self._for,
            "{": self._braces,
            "!": self._not,
        }
        keyword = self._keyword()
        if keyword in _UNKNOWN_WORDS:
            raise ShellSyntaxError(f"`{keyword}`", token.line, known=False)
        return compound.get(keyword, self._simple)()

    def _not(self) -> Command:
        self._at += 1
        return Not(self._command())

    def _braces(self) -> Command:
        self._at += 1
        body = self._body("}")
        self._take_keyword("}")
        return Group(body, False, self._redirects())

    def _if(self) -> Command:
        branches: list[tuple[CommandList, CommandList]] = []
        otherwise: CommandList | None = None
        word = self._take_keyword("if")
        while word in ("if", "elif"):
            condition = self._body("then")
            self._take_keyword("then")
            branches.append((condition, self._body("fi")))
            word = self._take_keyword("fi", "elif", "else")
        if word == "else":
            otherwise = self._body("fi")
            self._take_keyword("fi")
        return If(tuple(branches), otherwise)

    def _loop(self) -> Command:
        negated = self._take_keyword("while", "until") == "until"
        condition = self._body("do")
        return Loop(condition, self._do(), negated)

    def _for(self) -> Command:
        self._at += 1
        token = self._peek()
        name = self._keyword()
        if token is None or name is None or not _ASSIGNMENT.fullmatch(f"{name}="):
            raise ShellSyntaxError("Bad for loop variable", self._line() if token is None else token.line)
        self._at += 1
        self._newlines()
        self._take_keyword("in")
        words: list[Word] = []
        while isinstance(word := self._peek(), Word):
            words.append(word)
            self._at += 1
        self._operator(";")
        self._newlines()
        if self._peek() is None:
            raise self._ended()
        return For(name, tuple(words), self._do())

    def _do(self) -> CommandList:
        self._take_keyword("do")
        body = self._body("done")
        self._take_keyword("done")
        return body

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while redirect := self._redirect():
            found.append(redirect)
        return tuple(found)

    def _redirect(self) -> Redirect | None:
        operator = self._operator(">", ">>", ">&", "<")
        if operator is None:
            return None
        target = self._peek()
        if not isinstance(target, Word):
            raise (
                ShellSyntaxError("end of file unexpected", self._line())
                if target is None
                else self._unexpected(target)
            )
        self._at += 1
        kind = {">": "write", ">>": "append", ">&": "duplicate", "<": "read"}[operator.text]
        default = 0 if kind == "read" else 1
        return Redirect(default if operator.fd is None else operator.fd, kind, target)

    def _simple(self) -> Command:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        first = self._peek()
        while True:
            if redirect := self._redirect():
                redirects.append(redirect)
                continue
            token = self._peek()
            if not isinstance(token, Word):
                break
            self._at += 1
            assignment = None if words else _split_assignment(token)
            if assignment is not None:
                assignments.append(assignment)
            else:
                words.append(token)
        token = self._peek()
        if isinstance(token, Operator) and token.text in ("(", "|", "<<"):
            if token.text == "(" and len(words) == 1:
                raise ShellSyntaxError("a function", token.line, known=False)
            raise self._unexpected(token)
        if not (assignments or words or redirects):
            if token is None:
                raise self._ended()
            raise self._unexpected(token)
        line = first.line if first is not None else 1
        return Simple(tuple(assignments), tuple(words), tuple(redirects), line)


def _split_assignment(word: Word) -> tuple[str, Word] | None:
    """NAME and the word of its value, if the word is `NAME=...` with a NAME that is not quoted."""
    text = ""
    for index, piece in enumerate(word.pieces):
        if piece.quoted or piece.variable:
            return None
        text += piece.text
        if match := _ASSIGNMENT.match(text):
            rest = text[match.end() :]
            return match[1], Word((Piece(rest), *word.pieces[index + 1 :]), word.line)
    return None
