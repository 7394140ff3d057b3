"""`matches`, `find` and `findAll` (cel-go `common/stdlib`, apiserver `pkg/cel/library/regex.go`)."""

from __future__ import annotations

from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError, no_such_overload
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
    found: list[str] = []
    for match in _compiled(pattern).find_all(text):
        if 0 <= count <= len(found):
            break
        found.append(match)
    return found


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
