"""`matches`, `find` and `findAll` (cel-go `common/stdlib`, apiserver `pkg/cel/library/regex.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError, no_such_overload
from ..values import StringList
from .regex_machine import Regex, compile
from .regex_syntax import RegexError

_S: Final = types.STRING


def check(pattern: str) -> str | None:
    """What is wrong with a pattern, in Go's words."""
    try:
        compile(pattern)
    except RegexError as error:
        return str(error)
    return None


def _matches(text: str, pattern: Any) -> bool:
    if type(pattern) is not str:
        raise no_such_overload()
    try:
        return compile(pattern).search(text) is not None
    except RegexError as error:
        raise EvalError(str(error)) from None


def _compiled(pattern: str) -> Regex:
    try:
        return compile(pattern)
    except RegexError as error:
        raise EvalError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    span = _compiled(pattern).search(text)
    return "" if span is None else text[span[0] : span[1]]


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    found = StringList()
    for match in _compiled(pattern).find_all(text):
        if 0 <= count <= len(found):
            break
        found.append(match)
    return found


def _prepared_matches(pattern: str) -> Callable[..., bool]:
    search = compile(pattern).search

    def matches(text: Any, _: Any) -> bool:
        if type(text) is not str:
            raise no_such_overload()
        return search(text) is not None

    return matches


def _prepared_find(pattern: str) -> Callable[..., str]:
    def find(text: Any, _: Any) -> str:
        if type(text) is not str:
            raise no_such_overload()
        return _find(text, pattern)

    return find


def _prepared_find_all(pattern: str) -> Callable[..., list[str]]:
    def find_all(text: Any, _: Any, count: Any = -1) -> list[str]:
        if type(text) is not str or type(count) is not int:
            raise no_such_overload()
        return _find_all(text, pattern, count)

    return find_all


PREPARED: Final[dict[str, Callable[[str], Callable[..., Any]]]] = {
    "matches": _prepared_matches,
    "find": _prepared_find,
    "findAll": _prepared_find_all,
}
"""Function -> its implementation for one pattern, which must be correct."""

REGEXES: Final = library(
    Function(
        "matches",
        (
            Overload("matches", (_S, _S), types.BOOL),
            Overload("matches_string", (_S, _S), types.BOOL, member=True),
        ),
        _matches,
        frozenset((str,)),
    ),
    Function("find", (Overload("string_find_string", (_S, _S), _S, True, _find),)),
    Function(
        "findAll",
        (
            Overload("string_find_all_string", (_S, _S), types.list_of(_S), True, _find_all),
            Overload("string_find_all_string_int", (_S, _S, types.INT), types.list_of(_S), True, _find_all),
        ),
    ),
)
"""Functions with regular expressions."""
