"""Strings: standard functions and the extension in version 2 (cel-go `common/stdlib`, `ext/strings.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError, no_such_overload
from ..types import Type
from ..values import StringList, shown
from .text_format import format_text

_S: Final = types.STRING
_I: Final = types.INT
_STRINGS: Final = types.list_of(types.STRING)
# White space as Go's unicode.IsSpace has it.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> EvalError:
    return EvalError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    if len(text.encode("utf-8", "surrogatepass")) < len(part.encode("utf-8", "surrogatepass")):
        return -1
    return _last_index_of_offset(text, part, len(text) - 1)


def _last_index_of_offset(text: str, part: str, offset: int) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if old or count == 0:
        return text.replace(old, new, count) if count != 0 else text
    # An empty string is found before each character and at the end.
    places = len(text) + 1 if count < 0 else min(count, len(text) + 1)
    head = "".join(new + char for char in text[:places])
    return head + (new if places > len(text) else text[places:])


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return StringList()
    if separator:
        return StringList(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count > len(text):
        return StringList(text)
    return StringList((*text[: count - 1], text[count - 1 :])) if text else StringList()


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _join(values: Sequence[Any], separator: str = "") -> str:
    for value in values:
        if type(value) is not str:
            raise EvalError(f"join: invalid input: {shown(value)}")
    return separator.join(values)


def _quote(text: str) -> str:
    return f'"{"".join(_QUOTES.get(char, char) for char in text)}"'


def _checked(call: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    """These functions check their arguments themselves, in fewer words."""

    def checked(text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_such_overload()
        return call(text, part)

    return checked


def _member(id: str, parameters: tuple[Type, ...], result: Type, call: Callable[..., Any]) -> Overload:
    return Overload(id, parameters, result, member=True, call=call)


def _test(name: str, id: str, call: Callable[[str, str], bool]) -> Function:
    return Function(name, (_member(id, (_S, _S), types.BOOL, _checked(call)),), guarded=False)


STRINGS: Final = library(
    _test("contains", "contains_string", lambda text, part: part in text),
    _test("endsWith", "ends_with_string", lambda text, part: text.endswith(part)),
    _test("startsWith", "starts_with_string", lambda text, part: text.startswith(part)),
    Function("charAt", (_member("string_char_at_int", (_S, _I), _S, _char_at),)),
    Function(
        "indexOf",
        (
            _member("string_index_of_string", (_S, _S), _I, _index_of),
            _member("string_index_of_string_int", (_S, _S, _I), _I, _index_of),
        ),
    ),
    Function(
        "lastIndexOf",
        (
            _member("string_last_index_of_string", (_S, _S), _I, _last_index_of),
            _member("string_last_index_of_string_int", (_S, _S, _I), _I, _last_index_of_offset),
        ),
    ),
    Function("lowerAscii", (_member("string_lower_ascii", (_S,), _S, lambda text: text.translate(_LOWER)),)),
    Function("upperAscii", (_member("string_upper_ascii", (_S,), _S, lambda text: text.translate(_UPPER)),)),
    Function(
        "replace",
        (
            _member("string_replace_string_string", (_S, _S, _S), _S, _replace),
            _member("string_replace_string_string_int", (_S, _S, _S, _I), _S, _replace),
        ),
    ),
    Function(
        "split",
        (
            _member("string_split_string", (_S, _S), _STRINGS, _split),
            _member("string_split_string_int", (_S, _S, _I), _STRINGS, _split),
        ),
    ),
    Function(
        "substring",
        (
            _member("string_substring_int", (_S, _I), _S, _substring),
            _member("string_substring_int_int", (_S, _I, _I), _S, _substring_range),
        ),
    ),
    Function("trim", (_member("string_trim", (_S,), _S, lambda text: text.strip(_SPACE)),)),
    Function(
        "format", (Overload("string_format", (_S, types.list_of(types.DYN)), _S, True, format_text, True),)
    ),
    Function("strings.quote", (Overload("strings_quote", (_S,), _S, call=_quote),)),
    Function(
        "join",
        (
            _member("list_join", (_STRINGS,), _S, _join),
            _member("list_join_string", (_STRINGS, _S), _S, _join),
        ),
    ),
)
"""Functions of strings."""
