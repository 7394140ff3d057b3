"""YAML bodies and manifests in the YAML 1.1 of Go's parser: `y` is true, `0777` is octal, a date is text."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from .json_text import RawFloat
from .problems import DecodeError

_STANDARD: Final = "tag:yaml.org,2002:"
_PLAIN: Final = "plain"
_INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NOT_FINITE: Final = re.compile(r"(?:([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
# Go reads longer integers as floats, and none of that length is finite. Binary ones of 64 bits fit in.
_MAX_DIGITS: Final = 400
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}


class _Loader(yaml.CSafeLoader):
    """Composes nodes; the tag of an untagged plain scalar is `plain`."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: Any) -> str:
        """Called by the parser for nodes without a tag."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else f"{_STANDARD}str"
        return f"{_STANDARD}map" if kind is yaml.MappingNode else f"{_STANDARD}seq"


class Document:
    """One YAML document: its `value` as JSON would hold it, and its `duplicates`.

    A duplicate is such as `line 3: key "name" already set in map`. `line` is where it starts, from 1.
    """

    def __init__(self, node: yaml.Node | None) -> None:
        self._node = node
        self.duplicates: list[str] = []
        self.line = node.start_mark.line + 1 if node is not None else 1
        self._open: set[int] = set()
        self._known: set[int] = set()
        self._alias_depth = self._built = self._built_from_aliases = 0
        self.value: Any = None if node is None else self._build(node)

    def line_of(self, path: str) -> int:
        """The line of a field such as `spec.devices[0].name`, or of what stands nearest around it."""
        best, line = 0, self.line
        pending: list[tuple[str, yaml.Node, int]] = [("", self._node, self.line)] if self._node else []
        while pending:
            prefix, node, at = pending.pop()
            if path != prefix and not path.startswith((f"{prefix}.", f"{prefix}[")) and prefix:
                continue
            if len(prefix) >= best:
                best, line = len(prefix), at
            if isinstance(node, yaml.SequenceNode):
                for index, item in enumerate(node.value):
                    pending.append((f"{prefix}[{index}]", item, item.start_mark.line + 1))
            elif isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    name = f"{prefix}.{key.value}" if prefix else str(key.value)
                    pending.append((name, value, key.start_mark.line + 1))
        return line

    def _build(self, node: yaml.Node) -> Any:
        if id(node) not in self._known:
            self._known.add(id(node))
            return self._count_and_build(node)
        self._alias_depth += 1
        built = self._count_and_build(node)
        self._alias_depth -= 1
        return built

    def _count_and_build(self, node: yaml.Node) -> Any:
        self._built += 1
        self._built_from_aliases += self._alias_depth > 0
        if _excessive(self._built_from_aliases, self._built):
            raise DecodeError("yaml: document contains excessive aliasing")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.tag, node.value)
        if id(node) in self._open:
            raise DecodeError("yaml: anchor value contains itself")
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            built: Any = self._mapping(node)
        else:
            built = [self._build(item) for item in node.value]
        self._open.discard(id(node))
        return built

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merged += self._merged(value_node)
                continue
            key = self._build(key_node)
            value = self._build(value_node)
            name = _key(key, value)
            if name in result:
                shown = json.dumps(key, ensure_ascii=False)
                line = value_node.start_mark.line + 1
                self.duplicates.append(f"line {line}: key {shown} already set in map")
            result[name] = value
        for source in merged:
            result = source | result
        return result

    def _merged(self, node: yaml.Node) -> list[dict[str, Any]]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        values = [self._build(source) for source in sources]
        if not all(isinstance(value, dict) for value in values):
            raise DecodeError("yaml: map merge requires map or sequence of maps as the value")
        return values


def _excessive(from_aliases: int, built: int) -> bool:
    """Whether aliases multiply a document beyond Go's limit: a few hundred bytes could fill the memory."""
    if from_aliases <= 100 or built <= 1000:
        return False
    beyond = min(max(built - 400_000, 0) / 3_600_000, 1)
    return from_aliases / built > 0.99 - 0.89 * beyond


def documents(data: bytes | str) -> Iterator[Document]:
    """The documents of a text, one after the other.

    Raises DecodeError with the words of Go's parser when it comes to a fault.
    """
    try:
        loader = _Loader(data)
        while loader.check_node():
            yield Document(loader.get_node())
    except yaml.composer.ComposerError as error:
        raise DecodeError(_unknown_anchor(data, error)) from None
    except yaml.YAMLError as error:
        raise DecodeError(_in_words_of_go(error)) from None
    except RecursionError:
        raise DecodeError("yaml: exceeded max depth of 10000") from None


def parse_yaml(data: bytes) -> Document:
    """The first document of a request body, which is all that an API server reads; an empty body is null."""
    return next(documents(data), None) or Document(None)


def decode_yaml(data: bytes) -> tuple[Any, list[str]]:
    """The first document, and its duplicates (at most one text, as a server reports them); the last one wins.

    Raises DecodeError.
    """
    document = parse_yaml(data)
    if not document.duplicates:
        return document.value, []
    return document.value, ["yaml: unmarshal errors:\n  " + "\n  ".join(document.duplicates)]


def _scalar(tag: str, text: str) -> Any:
    if tag == _PLAIN:
        return _plain(text)
    kind = tag.removeprefix(_STANDARD)
    if kind == "binary":
        try:
            return base64.b64decode(text).decode("utf-8", "replace")
        except ValueError:
            raise DecodeError("yaml: !!binary value contains invalid base64 data") from None
    if kind not in ("int", "float", "bool", "null"):
        return text
    value = _plain(text)
    actual = {bool: "bool", int: "int", RawFloat: "float", type(None): "null"}.get(type(value), "str")
    if actual != kind and (kind, actual) != ("float", "int"):
        raise DecodeError(f"yaml: cannot decode !!{actual} `{text}` as a !!{kind}")
    return value


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if _INTEGER.match(digits):
        return _integer(digits)
    if _FLOAT.match(digits):
        return _number(float(digits))
    if found := _NOT_FINITE.match(text):
        shown = "NaN" if found[1] is None else f"{found[1] or '+'}Inf"
        raise DecodeError(f"json: unsupported value: {shown}")
    return text


def _integer(digits: str) -> Any:
    body = digits.lstrip("+-")
    if len(body) > _MAX_DIGITS:
        return _number(float(f"{digits[0] if digits[0] in '+-' else ''}inf"))
    octal = len(body) > 1 and body[0] == "0" and body[1].isdigit()
    value = int(body, 8 if octal else 0)
    value = -value if digits[0] == "-" else value
    return value if -(2**63) <= value < 2**64 else _number(float(value))


def _number(value: float) -> Any:
    """A number as it stands in the JSON that Go makes of the YAML first: 1.0 becomes 1."""
    if math.isinf(value):
        raise DecodeError(f"json: unsupported value: {'+' if value > 0 else '-'}Inf")
    if value.is_integer() and abs(value) < 1e21:
        return int(value)
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return RawFloat(mantissa)
    sign = "-" if exponent[0] == "-" else "+"
    return RawFloat(f"{mantissa}e{sign}{exponent.lstrip('+-0')}")


def _key(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, RawFloat):
        return key.text
    if key is None:
        shown = json.dumps(value, ensure_ascii=False)
        raise DecodeError(f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {shown}")
    go_type = "[]interface {}" if isinstance(key, list) else "map[interface {}]interface {}"
    shown = ", ".join(json.dumps(item, ensure_ascii=False) for item in key)
    raise DecodeError(f"yaml: invalid map key: {go_type}{{{shown}}}")


def _in_words_of_go(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unknown problem"
    mark = getattr(error, "problem_mark", None)
    context = getattr(error, "context_mark", None)
    line = 0
    if mark is not None and mark.line:
        # Go counts the lines of scanner errors from 1, those of parser errors from 0.
        line = mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif context is not None:
        line = context.line
    return f"yaml: line {line}: {problem}" if line else f"yaml: {problem}"


def _unknown_anchor(data: bytes | str, error: yaml.composer.ComposerError) -> str:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    mark = error.problem_mark
    rest = text.splitlines()[mark.line][mark.column :] if mark is not None else ""
    name = re.match(r"\*([\w-]*)", rest)
    return f"yaml: unknown anchor '{name[1]}' referenced" if name else _in_words_of_go(error)
