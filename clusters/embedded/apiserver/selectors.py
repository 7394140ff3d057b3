"""Label and field selectors of list, watch and deletecollection (api-machinery section 10)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from clusters.api_status import bad_request
from clusters.request_info import FieldRequirement, parse_field_selector
from dra_api.validation.names import label_key_problems, label_value_problems

_SPECIAL: Final = "=!(),><"
_OPERATORS: Final = {"=": "in", "==": "in", "in": "in", "!=": "notin", "notin": "notin", ">": "gt", "<": "lt"}
_OPERATOR_LIST: Final = "in, notin, =, ==, !=, gt, lt"


class Token(NamedTuple):
    """One lexical element: `kind` is `id`, `end` or the symbol or keyword itself."""

    kind: str
    text: str


class LabelRequirement(NamedTuple):
    """One term of a label selector; `operator` is in, notin, exists, absent, gt or lt."""

    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels fulfils this term."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "absent":
            return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        try:
            left, right = int(value), int(next(iter(self.values)))
        except ValueError:
            return False
        return left > right if self.operator == "gt" else left < right


@dataclass(frozen=True)
class LabelSelector:
    """The terms of a label selector; all must hold."""

    terms: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether labels (None = no labels) match."""
        found = labels or {}
        return all(term.matches(found) for term in self.terms)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char.isspace():
            at += 1
            continue
        if char in _SPECIAL:
            symbol = text[at : at + 2] if text[at : at + 2] in ("==", "!=") else char
            tokens.append(Token(symbol, symbol))
            at += len(symbol)
            continue
        end = at
        while end < len(text) and text[end] not in _SPECIAL and not text[end].isspace():
            end += 1
        word = text[at:end]
        tokens.append(Token(word if word in ("in", "notin") else "id", word))
        at = end
    tokens.append(Token("end", ""))
    return tokens


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _peek(self) -> Token:
        token = self._tokens[min(self._at, len(self._tokens) - 1)]
        # A key or a value may be called `in`; only between key and values is it an operator.
        return Token("id", token.text) if token.kind in ("in", "notin") else token

    def _take(self) -> Token:
        token = self._peek()
        self._at += 1
        return token

    def parse(self) -> LabelSelector:
        terms: list[LabelRequirement] = []
        while True:
            token = self._peek()
            if token.kind == "end":
                return LabelSelector(tuple(terms))
            if token.kind not in ("id", "!"):
                raise ValueError(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                terms.append(self._term())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from error
            token = self._take()
            if token.kind == "end":
                return LabelSelector(tuple(terms))
            if token.kind != ",":
                raise ValueError(f"found '{token.text}', expected: ',' or 'end of string'")
            token = self._peek()
            if token.kind not in ("id", "!"):
                raise ValueError(f"found '{token.text}', expected: identifier after ','")

    def _term(self) -> LabelRequirement:
        token = self._take()
        absent = token.kind == "!"
        if absent:
            token = self._take()
        if token.kind != "id":
            raise ValueError(f"found '{token.text}', expected: identifier")
        key = token.text
        problems = label_key_problems(key)
        if problems:
            raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if absent or self._peek().kind in ("end", ","):
            return LabelRequirement(key, "absent" if absent else "exists", frozenset())
        operator = self._tokens[self._at]
        self._at += 1
        if operator.kind not in _OPERATORS:
            raise ValueError(f"found '{operator.text}', expected: {_OPERATOR_LIST}")
        values = self._set() if operator.kind in ("in", "notin") else frozenset({self._exact()})
        name = _OPERATORS[operator.kind]
        for value in sorted(values):
            if name in ("gt", "lt") and not re.fullmatch(r"[+-]?[0-9]+", value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise ValueError(f'values[0]: Invalid value: "{value}": {why}')
            problems = label_value_problems(value)
            if problems:
                raise ValueError(f'values[0][{key}]: Invalid value: "{value}": {"; ".join(problems)}')
        return LabelRequirement(key, name, values)

    def _exact(self) -> str:
        token = self._peek()
        if token.kind in ("end", ","):
            return ""
        if token.kind != "id":
            raise ValueError(f"found '{token.text}', expected: identifier")
        return self._take().text

    def _set(self) -> frozenset[str]:
        token = self._take()
        if token.kind != "(":
            raise ValueError(f"found '{token.text}' expected: '('")
        values: set[str] = set()
        expect_value = True
        while True:
            token = self._take()
            if token.kind == "id" and expect_value:
                values.add(token.text)
                expect_value = False
            elif token.kind == ",":
                if expect_value:
                    values.add("")
                expect_value = True
            elif token.kind == ")":
                if expect_value:
                    values.add("")
                return frozenset(values)
            else:
                raise ValueError(f"found '{token.text}', expected: ',' or ')'")


def parse_labels(text: str) -> LabelSelector:
    """A label selector from its query form; raises ApiError 400 with the server's text."""
    if not text:
        return LabelSelector()
    try:
        return _LabelParser(text).parse()
    except ValueError as error:
        raise bad_request(str(error)) from error


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    """The terms of a field selector; raises ApiError 400."""
    try:
        return parse_field_selector(text)
    except ValueError as error:
        raise bad_request(str(error)) from error


def compile_fields(
    terms: tuple[FieldRequirement, ...], getters: Mapping[str, Callable[[Mapping[str, Any]], str]]
) -> Callable[[Mapping[str, Any]], bool]:
    """A predicate for terms whose keys are all in `getters`."""
    checks = [(getters[term.field], term.operator == "=", term.value) for term in terms]

    def matches(obj: Mapping[str, Any]) -> bool:
        return all((getter(obj) == value) == wanted for getter, wanted, value in checks)

    return matches
