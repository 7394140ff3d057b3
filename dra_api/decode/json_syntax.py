"""The text with which Go refuses a malformed JSON document.

Only called for documents that Python's parser has refused, so speed does not matter here.
"""

from __future__ import annotations

from typing import Final

_END: Final = "unexpected end of JSON input"
_SPACE: Final = b" \t\r\n"
_ESCAPES: Final = b'"\\/bfnrt'
_HEX: Final = b"0123456789abcdefABCDEF"
_LITERALS: Final = (b"true", b"false", b"null")
_MAX_DEPTH: Final = 10000


class _SyntaxFailure(Exception):  # noqa: N818 - carries a text up the scan, nobody outside sees it
    pass


def syntax_error(data: bytes) -> str:
    """Go's words for the first fault of `data`; a text for a document without one names nesting."""
    try:
        _Scan(data).document()
    except _SyntaxFailure as failure:
        return str(failure)
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON document"


class _Scan:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def document(self) -> None:
        self.value()
        if self.peek_after_space() is not None:
            raise self.wrong("after top-level value")

    def value(self) -> None:
        char = self.need_after_space()
        if char == b"{":
            self.object()
        elif char == b"[":
            self.array()
        elif char == b'"':
            self.string()
        elif char == b"-" or char.isdigit():
            self.number()
        else:
            self.literal(char)

    def object(self) -> None:
        self.at += 1
        if self.need_after_space() == b"}":
            self.at += 1
            return
        while True:
            if self.need_after_space() != b'"':
                raise self.wrong("looking for beginning of object key string")
            self.string()
            if self.need_after_space() != b":":
                raise self.wrong("after object key")
            self.at += 1
            self.value()
            if self.follow(b"}", "after object key:value pair"):
                return

    def array(self) -> None:
        self.at += 1
        if self.need_after_space() == b"]":
            self.at += 1
            return
        while True:
            self.value()
            if self.follow(b"]", "after array element"):
                return

    def follow(self, end: bytes, where: str) -> bool:
        char = self.need_after_space()
        if char not in (end, b","):
            raise self.wrong(where)
        self.at += 1
        return char == end

    def string(self) -> None:
        self.at += 1
        while (char := self.need()) != b'"':
            if char < b" ":
                raise self.wrong("in string literal")
            self.at += 1
            if char == b"\\":
                escape = self.need()
                if escape != b"u" and escape not in _ESCAPES:
                    raise self.wrong("in string escape code")
                self.at += 1
                for _ in range(4 if escape == b"u" else 0):
                    if self.need() not in _HEX:
                        raise self.wrong("in \\u hexadecimal character escape")
                    self.at += 1
        self.at += 1

    def number(self) -> None:
        if self.need() == b"-":
            self.at += 1
            if not self.need().isdigit():
                raise self.wrong("in numeric literal")
        if self.need() == b"0":
            self.at += 1
        else:
            self.digits()
        if self.peek() == b".":
            self.at += 1
            if not self.need().isdigit():
                raise self.wrong("after decimal point in numeric literal")
            self.digits()
        if self.peek() in (b"e", b"E"):
            self.at += 1
            if self.need() in b"+-":
                self.at += 1
            if not self.need().isdigit():
                raise self.wrong("in exponent of numeric literal")
            self.digits()

    def digits(self) -> None:
        while (self.peek() or b"x").isdigit():
            self.at += 1

    def literal(self, first: bytes) -> None:
        word = next((word for word in _LITERALS if word.startswith(first)), None)
        if word is None:
            raise self.wrong("looking for beginning of value")
        for expected in word[1:]:
            self.at += 1
            if self.at == len(self.data):  # Go feeds a blank to the scanner at the end
                raise _SyntaxFailure(
                    f"invalid character ' ' in literal {word.decode()} (expecting '{chr(expected)}')"
                )
            if self.data[self.at] != expected:
                raise self.wrong(f"in literal {word.decode()} (expecting '{chr(expected)}')")
        self.at += 1

    def peek(self) -> bytes | None:
        return self.data[self.at : self.at + 1] or None

    def peek_after_space(self) -> bytes | None:
        while (char := self.peek()) is not None and char in _SPACE:
            self.at += 1
        return char

    def need(self) -> bytes:
        char = self.peek()
        if char is None:
            raise _SyntaxFailure(_END)
        return char

    def need_after_space(self) -> bytes:
        self.peek_after_space()
        return self.need()

    def wrong(self, where: str) -> _SyntaxFailure:
        char = chr(self.data[self.at])
        shown = {"'": r"'\''", '"': "'\"'", "\\": r"'\\'", "\n": r"'\n'", "\t": r"'\t'", "\r": r"'\r'"}.get(
            char
        )
        if shown is None:
            shown = f"'{char}'" if char.isprintable() else f"'\\x{ord(char):02x}'"
        return _SyntaxFailure(f"invalid character {shown} {where}")
