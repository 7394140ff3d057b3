"""Regular expressions as Go reads them: a parser with Go's limits and error texts (Go `regexp/syntax`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .regex_classes import (
    ALL,
    CATEGORIES,
    MAX_CODE,
    NO_NEWLINE,
    PERL,
    POSIX,
    Ranges,
    category,
    folded,
    negated,
)
from .regex_counts import bounds, copies, is_hex, run_of
from .regex_nodes import EMPTY, Assertion, Chars, Choice, Node, Repeat, Sequence

_MAX_REPEAT: Final = 1000
_MAX_DEPTH: Final = 1000
_SIMPLE_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}


class RegexError(ValueError):
    """A pattern that Go refuses."""

    def __init__(self, code: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {code}: `{part}`")


@dataclass
class _Flags:
    fold: bool = False
    one_line: bool = True
    dot_newline: bool = False
    swap_greedy: bool = False

    def copy(self) -> _Flags:
        return _Flags(self.fold, self.one_line, self.dot_newline, self.swap_greedy)


@dataclass
class _Group:
    """An open parenthesis: the options so far and the parts of the last one."""

    flags: _Flags
    options: list[Node]
    parts: list[Node]


def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises RegexError."""
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._flags = _Flags()
        self._groups = [_Group(self._flags, [], [])]

    def parse(self) -> Node:
        pattern = self._pattern
        last_repeat: int | None = None
        while self._at < len(pattern):
            char = pattern[self._at]
            repeated: int | None = None
            if char == "(":
                self._open()
            elif char == "|":
                self._at += 1
                group = self._groups[-1]
                group.options.append(_sequence(group.parts))
                group.parts = []
            elif char == ")":
                self._close()
            elif char in "*+?":
                repeated = self._at
                self._at += 1
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
                self._repeat(least, most, repeated, last_repeat)
            elif char == "{":
                repeated = self._braces(last_repeat)
            else:
                self._push(self._atom(char))
            last_repeat = repeated
        if len(self._groups) != 1:
            raise RegexError("missing closing )", pattern)
        return _finish(self._groups[0])

    def _push(self, node: Node) -> None:
        self._groups[-1].parts.append(node)

    def _atom(self, char: str) -> Node:
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        self._at += 1
        if char == "^":
            return Assertion("begin" if self._flags.one_line else "line_begin")
        if char == "$":
            return Assertion("end" if self._flags.one_line else "line_end")
        if char == ".":
            return Chars(ALL if self._flags.dot_newline else NO_NEWLINE)
        return Chars(((ord(char), ord(char)),), self._flags.fold)

    def _open(self) -> None:
        pattern, start = self._pattern, self._at
        if pattern[start + 1 : start + 2] != "?":
            self._at += 1
            self._enter(self._flags.copy())
            return
        rest = pattern[start:]
        named = 4 if len(rest) > 4 and rest[2:4] == "P<" else 3 if len(rest) > 3 and rest[2] == "<" else 0
        if named:
            end = rest.find(">")
            if end < 0:
                raise RegexError("invalid named capture", rest)
            name = rest[named:end]
            if not name or not all(char == "_" or (char.isascii() and char.isalnum()) for char in name):
                raise RegexError("invalid named capture", rest[: end + 1])
            self._at += end + 1
            self._enter(self._flags.copy())
            return
        self._set_flags(start)

    def _enter(self, outer: _Flags) -> None:
        self._groups.append(_Group(outer, [], []))
        if len(self._groups) > _MAX_DEPTH:
            raise RegexError("expression nests too deeply", self._pattern)

    def _set_flags(self, start: int) -> None:
        """`(?flags)` and `(?flags:...)`."""
        pattern, outer, flags = self._pattern, self._flags.copy(), self._flags.copy()
        self._at = start + 2
        value, seen = True, False
        while self._at < len(pattern):
            char = pattern[self._at]
            self._at += 1
            if char in "imsU":
                seen = True
                if char == "i":
                    flags.fold = value
                elif char == "m":
                    flags.one_line = not value
                elif char == "s":
                    flags.dot_newline = value
                else:
                    flags.swap_greedy = value
            elif char == "-" and value:
                value, seen = False, False
            elif char in ":)" and (value or seen):
                if char == ":":
                    self._enter(outer)
                self._flags = flags
                return
            else:
                break
        raise RegexError("invalid or unsupported Perl syntax", pattern[start : self._at])

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise RegexError("unexpected )", self._pattern)
        self._at += 1
        group = self._groups.pop()
        self._flags = group.flags
        self._push(_finish(group))

    def _braces(self, last_repeat: int | None) -> int | None:
        start = self._at
        found = bounds(self._pattern, start)
        if found is None:
            self._at += 1
            self._push(Chars(((123, 123),)))
            return None
        least, most, self._at = found
        if not 0 <= least <= _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
            raise RegexError("invalid repeat count", self._pattern[start : self._at])
        self._repeat(least, most, start, last_repeat)
        return start

    def _repeat(self, least: int, most: int | None, start: int, last_repeat: int | None) -> None:
        greedy = not self._flags.swap_greedy
        if self._pattern[self._at : self._at + 1] == "?":
            self._at += 1
            greedy = not greedy
        if last_repeat is not None:
            raise RegexError("invalid nested repetition operator", self._pattern[last_repeat : self._at])
        parts = self._groups[-1].parts
        if not parts:
            raise RegexError("missing argument to repetition operator", self._pattern[start : self._at])
        node = Repeat(parts.pop(), least, most, greedy)
        if max(least, most or 0) >= 2 and copies(node) > _MAX_REPEAT:
            raise RegexError("invalid repeat count", self._pattern[start : self._at])
        parts.append(node)

    def _escape(self) -> Node:
        pattern, start = self._pattern, self._at
        char = pattern[start + 1 : start + 2]
        if char and char in "AbBz":
            self._at += 2
            return Assertion({"A": "begin", "b": "word", "B": "no_word", "z": "end"}[char])
        if char == "C":
            raise RegexError("invalid escape sequence", "\\C")
        if char == "Q":
            end = pattern.find("\\E", start + 2)
            literal = pattern[start + 2 :] if end < 0 else pattern[start + 2 : end]
            self._at = len(pattern) if end < 0 else end + 2
            for each in literal[:-1]:
                self._push(Chars(((ord(each), ord(each)),), self._flags.fold))
            if not literal:
                return EMPTY
            return Chars(((ord(literal[-1]), ord(literal[-1])),), self._flags.fold)
        group = self._group_escape()
        if group is not None:
            return Chars(group, self._flags.fold)
        code = self._single()
        return Chars(((code, code),), self._flags.fold)

    def _group_escape(self) -> Ranges | None:
        """`\\d`, `\\pL` and the like, else None."""
        pattern, start = self._pattern, self._at
        char = pattern[start + 1 : start + 2]
        if char and char.lower() in PERL:
            self._at += 2
            ranges = PERL[char.lower()]
            return ranges if char.islower() else negated(ranges)
        if char not in ("p", "P") or len(pattern) < start + 3:
            return None
        if pattern[start + 2] == "{":
            end = pattern.find("}", start)
            if end < 0:
                raise RegexError("invalid character class range", pattern[start:])
            name, self._at = pattern[start + 3 : end], end + 1
        else:
            name, self._at = pattern[start + 2], start + 3
        inverse = char == "P"
        if name.startswith("^"):
            inverse, name = not inverse, name[1:]
        if name == "Any":
            ranges = ALL
        elif name in CATEGORIES:
            ranges = category(name)
        else:
            raise RegexError("invalid character class range", pattern[start : self._at])
        return negated(ranges) if inverse else ranges

    def _single(self) -> int:
        """A single character behind a backslash."""
        pattern, start = self._pattern, self._at
        if start + 1 >= len(pattern):
            raise RegexError("trailing backslash at end of expression", "")
        char = pattern[start + 1]
        self._at = start + 2
        if char in "01234567":
            digits = run_of(pattern, start + 1, "01234567", 3)
            if char == "0" or len(digits) > 1:
                self._at = start + 1 + len(digits)
                return int(digits, 8)
        elif char == "x":
            found = self._hexadecimal()
            if found is not None:
                return found
        elif char in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[char]
        elif char.isascii() and not char.isalnum():
            return ord(char)
        raise RegexError("invalid escape sequence", pattern[start : self._at])

    def _hexadecimal(self) -> int | None:
        pattern = self._pattern
        if self._at >= len(pattern):
            return None
        if pattern[self._at] != "{":
            digits = pattern[self._at : self._at + 2]
            self._at += len(digits)
            return int(digits, 16) if len(digits) == 2 and is_hex(digits) else None
        self._at += 1
        digits = ""
        while self._at < len(pattern):
            char = pattern[self._at]
            self._at += 1
            if char == "}":
                return int(digits, 16) if digits else None
            if not is_hex(char) or int(digits + char, 16) > MAX_CODE:
                return None
            digits += char
        return None

    def _class(self) -> Node:
        pattern, start = self._pattern, self._at
        self._at += 1
        inverse = pattern[self._at : self._at + 1] == "^"
        self._at += inverse
        found: list[tuple[int, int]] = []
        first = True
        while first or pattern[self._at : self._at + 1] != "]":
            first = False
            group = self._named_class()
            if group is None and pattern[self._at : self._at + 1] == "\\":
                group = self._group_escape()
            if group is not None:
                found.extend(group)
                continue
            begin = self._at
            low = high = self._class_char(start)
            if pattern[self._at : self._at + 1] == "-" and pattern[self._at + 1 : self._at + 2] not in (
                "",
                "]",
            ):
                self._at += 1
                high = self._class_char(start)
                if high < low:
                    raise RegexError("invalid character class range", pattern[begin : self._at])
            found.append((low, high))
        self._at += 1
        ranges = tuple(found)
        if inverse:
            if self._flags.fold:
                ranges = folded(ranges)
            return Chars(negated(ranges))
        return Chars(ranges, self._flags.fold)

    def _named_class(self) -> Ranges | None:
        pattern, start = self._pattern, self._at
        if pattern[start : start + 2] != "[:":
            return None
        end = pattern.find(":]", start + 2)
        if end < 0:
            return None
        name = pattern[start + 2 : end]
        ranges = POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise RegexError("invalid character class range", pattern[start : end + 2])
        self._at = end + 2
        return negated(ranges) if name.startswith("^") else ranges

    def _class_char(self, start: int) -> int:
        if self._at >= len(self._pattern):
            raise RegexError("missing closing ]", self._pattern[start:])
        char = self._pattern[self._at]
        if char == "\\":
            return self._single()
        self._at += 1
        return ord(char)


def _sequence(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _finish(group: _Group) -> Node:
    last = _sequence(group.parts)
    return Choice((*group.options, last)) if group.options else last
