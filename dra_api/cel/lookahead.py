"""Decides between alternatives of the grammar by looking ahead, as far as a generated parser would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .grammar import State, network
from .lexer import Token as Input
from .lexer import Unreadable

_NUMBERS: Final = ("NUM_INT", "NUM_FLOAT")


class FailureError(Exception):
    """A rule cannot go on; the message is what is reported unless the parser is out of step already."""

    def __init__(self, state: State, offset: int, message: str) -> None:
        super().__init__(message)
        self.state = state
        self.offset = offset


class Lookahead:
    """A place in the tokens of an expression, and the state of the grammar there."""

    def __init__(self, tokens: Sequence[Input], text: str, unreadable: Sequence[Unreadable]) -> None:
        self._tokens = tokens
        self._text = text
        self._unreadable = unreadable
        self._at = 0
        self._network = network()
        self._state = State()

    def _la(self, distance: int = 1) -> str:
        return self._peek(distance).type

    def _peek(self, distance: int = 1) -> Input:
        return self._tokens[min(self._at + distance - 1, len(self._tokens) - 1)]

    def _consume(self) -> None:
        if self._at < len(self._tokens) - 1:
            self._at += 1

    def _choose_tail(self, name: str) -> int:
        kind, second = self._la(), self._la(2)
        if name == "calc":
            return 0 if kind in ("*", "/", "%") else 1
        if name == "relation":
            return 0
        if kind == "[":
            return 2
        if second in ("?", "ESC_IDENTIFIER"):
            return 0
        if second == "IDENTIFIER":
            return 1 if self._la(3) == "(" else 0
        raise self._no_way(2)

    def _choose(self, rule: str) -> int:
        kind = self._la()
        if rule == "unary":
            return self._choose_unary(kind)
        if rule == "literal":
            return self._choose_literal(kind)
        if rule == "escapeIdent":
            if kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
                raise self._no_way(1)
            return 0 if kind == "IDENTIFIER" else 1
        if kind in ("(", "[", "{"):
            return {"(": 2, "[": 3, "{": 4}[kind]
        if kind not in (".", "IDENTIFIER"):
            if kind not in self._network.next_tokens(self._state):
                raise self._no_way(1)
            return 6
        return self._choose_name()

    def _choose_name(self) -> int:
        """A name, a call or a message."""
        distance = 2 if self._la() == "." else 1
        if self._la(distance) != "IDENTIFIER":
            raise self._no_way(distance)
        following = self._la(distance + 1)
        if following == "(":
            return 1
        while following == "." and self._la(distance + 2) == "IDENTIFIER":
            distance += 2
            following = self._la(distance + 1)
        return 5 if following == "{" else 0

    def _choose_unary(self, kind: str) -> int:
        if kind == "!":
            return 1
        if kind != "-":
            if kind not in self._network.next_tokens(self._state):
                raise self._no_way(1)
            return 0
        second = self._la(2)
        if second in _NUMBERS:
            return 0
        if second == "!" or second not in self._network.next_tokens(self._state):
            raise self._no_way(2)
        return 2

    def _choose_literal(self, kind: str) -> int:
        order = ("NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES", "true", "false", "null")
        if kind != "-":
            if kind not in order:
                raise self._no_way(1)
            return order.index(kind)
        second = self._la(2)
        if second not in _NUMBERS:
            raise self._no_way(2)
        return order.index(second)

    def _no_way(self, distance: int) -> FailureError:
        """No alternative fits the tokens from here to one ahead."""
        first, last = self._peek(), self._peek(distance)
        if first.type == "EOF":
            shown = "<EOF>"
        else:
            end = last.offset + (len(last.text) if last.type != "EOF" else 0)
            shown = self._readable(first.offset, end)
        message = f"no viable alternative at input {quoted(shown)}"
        for word in ("true", "false", "null"):
            if len(shown) == len(word) + 1 and shown.endswith(word):
                message = f"mismatched input '{word}' expecting IDENTIFIER"
        return FailureError(self._state, last.offset, message)

    def _readable(self, begin: int, end: int) -> str:
        """The text without what is no token."""
        parts: list[str] = []
        for each in self._unreadable:
            if begin <= each.offset < end:
                parts.append(self._text[begin : each.offset])
                begin = each.end
        return "".join(parts) + self._text[begin:end]


def quoted(text: str) -> str:
    """Text as messages show it."""
    return "'" + text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"
