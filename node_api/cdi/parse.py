"""Reading spec files: one YAML parser for every file, typed as the library 1.1.2 types it.

PyYAML's scanner, parser and composer give the node graph; what differs from the library's YAML decoder is
set right here: tabs between tokens, escapes, one document only, duplicate keys, types of scalars.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any, TypeVar

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from node_api.cdi.checks import SpecError, check_spec
from node_api.cdi.model import GO_NAMES, NULL_ENTRIES_STAY, Spec
from node_api.cdi.names import quote

_PLAIN = "plain"
_TAG = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Words of YAML 1.1 that count only where a truth value is expected.
_OLD_BOOLS = {
    **dict.fromkeys(("y", "Y", "yes", "on"), True),
    **dict.fromkeys(("n", "N", "no", "off"), False),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OLD_OCTAL = re.compile(r"([-+]?)0([0-7]+)")
_YAML_SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_RANGES = {
    "int64": (-(2**63), 2**63 - 1),
    "int": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
}

Record = TypeVar("Record")


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """Composes nodes; scalars without quotes and tag get the tag `plain`."""

    # The library's decoder does not know "\/".
    ESCAPE_REPLACEMENTS = {  # type: ignore[misc]  # noqa: RUF012
        key: value for key, value in Scanner.ESCAPE_REPLACEMENTS.items() if key != "/"
    }

    def __init__(self, data: bytes | str) -> None:
        Reader.__init__(self, data)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode:
            return _PLAIN if implicit[0] else f"{_TAG}str"
        return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        # Tabs separate tokens wherever they cannot be taken for indentation.
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def compose(data: bytes | str) -> Node | None:
    """Return the node graph of the first document, None if there is no document.

    Raises:
        SpecError: if the text is not YAML as the library reads it.
    """
    try:
        loader = _Loader(data)
        if not loader.check_node():
            return None
        node = loader.get_node()
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise SpecError(f"failed to unmarshal CDI Spec: yaml: {line}{error.problem}") from error
    except RecursionError as error:
        raise SpecError("failed to unmarshal CDI Spec: yaml: exceeded max depth") from error
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"failed to unmarshal CDI Spec: yaml: {reason}") from error
    return node


def short_tag(node: Node) -> str:
    """Return the node's type as the library's messages name it, for example "!!int"."""
    if isinstance(node, MappingNode):
        return "!!map"
    if isinstance(node, SequenceNode):
        return "!!seq"
    if node.tag != _PLAIN:
        return str(node.tag).replace(_TAG, "!!")
    if node.value in _NULLS:
        return "!!null"
    if node.value in _BOOLS:
        return "!!bool"
    number = _number(node.value)
    return "!!str" if number is None else "!!int" if isinstance(number, int) else "!!float"


def _number(text: str) -> int | float | None:
    """The number that an unquoted scalar stands for, None if it is text."""
    if text[:1] not in "+-.0123456789" or text == "":
        return None
    digits = text.replace("_", "")
    octal = _OLD_OCTAL.fullmatch(digits)
    if octal:
        return int(octal[1] + octal[2], 8)
    try:
        return int(digits, 0)
    except ValueError:
        pass
    if _FLOAT.fullmatch(digits):
        return float(digits)
    special = digits.lstrip("+-")
    if special in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"):
        return math.nan if special[1] in "nN" else math.inf
    return None


class _Decoder:
    """Turns nodes into records, collecting every problem as the library's decoder does."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._open: list[Node] = []

    def _fail(self, node: Node, text: str) -> None:
        self.problems.append(f"line {node.start_mark.line + 1}: {text}")

    def _mismatch(self, node: Node, target: str) -> None:
        value = ""
        if isinstance(node, ScalarNode):
            text = str(node.value)
            value = f" `{text[:7]}...`" if len(text) > 10 else f" `{text}`"
        self._fail(node, f"cannot unmarshal {short_tag(node)}{value} into {target}")

    def is_null(self, node: Node) -> bool:
        return isinstance(node, ScalarNode) and short_tag(node) == "!!null"

    def pairs(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        """Key -> (key node, value node) with merge keys resolved; own keys win over merged ones."""
        if node in self._open:
            raise SpecError("failed to unmarshal CDI Spec: yaml: anchor value contains itself")
        self._open.append(node)
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self._mismatch(key, "string")
                continue
            if key.tag == _PLAIN and key.value == "<<":
                sources = value.value if isinstance(value, SequenceNode) else [value]
                for source in sources:
                    if not isinstance(source, MappingNode):
                        raise SpecError(
                            "failed to unmarshal CDI Spec: yaml: map merge requires map or sequence of maps "
                            "as the value"
                        )
                    for name, pair in self.pairs(source).items():
                        merged.setdefault(name, pair)
                continue
            if key.value in own:
                first = own[key.value][0].start_mark.line + 1
                self._fail(key, f"mapping key {quote(key.value)} already defined at line {first}")
                continue
            own[key.value] = (key, value)
        self._open.pop()
        return merged | own

    def record(self, node: Node, cls: type[Record]) -> Record:
        """Decode a mapping into the dataclass; unknown keys are problems."""
        if self.is_null(node):
            return cls()
        if not isinstance(node, MappingNode):
            self._mismatch(node, GO_NAMES[cls])
            return cls()
        fields = _FIELDS[cls]
        values: dict[str, Any] = {}
        for key, (key_node, value) in self.pairs(node).items():
            known = fields.get(key)
            if known is None:
                self._fail(key_node, f"field {key} not found in type {GO_NAMES[cls]}")
            elif not self.is_null(value):
                values[known.name] = self._value(value, known.metadata)
        return cls(**values)

    def _value(self, node: Node, metadata: Any) -> Any:
        kind = metadata["kind"]
        if metadata.get("list"):
            return self._list(node, kind)
        if metadata.get("map"):
            return self._map(node)
        return self._single(node, kind)

    def _single(self, node: Node, kind: str | type) -> Any:
        return self.scalar(node, kind) if isinstance(kind, str) else self.record(node, kind)

    def _list(self, node: Node, kind: str | type) -> list[Any]:
        if not isinstance(node, SequenceNode):
            target = kind if isinstance(kind, str) else GO_NAMES[kind]
            pointer = "*" if kind in NULL_ENTRIES_STAY else ""
            self._mismatch(node, f"[]{pointer}{target}")
            return []
        if kind in NULL_ENTRIES_STAY:
            return [None if self.is_null(item) else self._single(item, kind) for item in node.value]
        return [self._single(item, kind) for item in node.value if not self.is_null(item)]

    def _map(self, node: Node) -> dict[str, str]:
        if not isinstance(node, MappingNode):
            self._mismatch(node, "map[string]string")
            return {}
        return {
            key: "" if self.is_null(value) else str(self.scalar(value, "string"))
            for key, (_, value) in self.pairs(node).items()
        }

    def scalar(self, node: Node, kind: str) -> Any:
        """Decode a scalar into Go's `string`, `bool`, `int`, `int64` or `uint32`."""
        if not isinstance(node, ScalarNode):
            self._mismatch(node, kind)
            return "" if kind == "string" else 0
        text = str(node.value)
        if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
            # Only an escape can have made a surrogate, the bytes were valid UTF-8.
            line = node.start_mark.line + 1
            reason = "found invalid Unicode character escape code"
            raise SpecError(f"failed to unmarshal CDI Spec: yaml: line {line}: {reason}")
        if kind == "string":
            return text
        plain = node.tag in (_PLAIN, f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool")
        if kind == "bool":
            if plain and text in _BOOLS:
                return _BOOLS[text]
            if text in _OLD_BOOLS:
                return _OLD_BOOLS[text]
        else:
            number = _number(text) if plain else None
            low, high = _RANGES[kind]
            # Go turns a negative float into a huge unsigned number, which is out of range again.
            if number is not None and math.isfinite(number) and low <= number <= high:
                return int(number)
        self._mismatch(node, kind)
        return 0


_FIELDS = {cls: {item.metadata["key"]: item for item in dataclasses.fields(cls)} for cls in GO_NAMES}


def spec_json(spec: dict[str, Any]) -> str:
    """Return the object as compact JSON that also the library's YAML decoder reads without change.

    Surrogate escapes are refused there, so characters beyond the BMP stay raw; controls that YAML refuses or
    takes for line breaks are escaped.
    """
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    return _YAML_SPECIAL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def decode_node(node: Node) -> Spec:
    """Turn a node graph into a spec without checking its rules.

    Raises:
        SpecError: naming every unknown key and wrong type with its line.
    """
    decoder = _Decoder()
    spec = decoder.record(node, Spec)
    if decoder.problems:
        listed = "".join(f"\n  {problem}" for problem in decoder.problems)
        raise SpecError(f"failed to unmarshal CDI Spec: yaml: unmarshal errors:{listed}")
    return spec


def decode_spec(data: bytes | str | dict[str, Any], path: str = "") -> Spec:
    """Decode a file's content, or an object meant for one, without checking its rules.

    Raises:
        SpecError: if the library's decoder refuses it.
    """
    node = compose(spec_json(data) if isinstance(data, dict) else data)
    if node is None:
        raise SpecError("failed to unmarshal CDI Spec: EOF")
    if isinstance(node, ScalarNode) and node.tag == _PLAIN and node.value in _NULLS:
        raise SpecError(f"failed to parse CDI Spec {quote(path)}, no Spec data")
    return decode_node(node)


def parse_spec(data: bytes | str | dict[str, Any], path: str = "") -> Spec:
    """Decode and check a spec file's content as a container runtime does when it loads the file.

    Args:
        data: the content; for an object, its JSON form.
        path: for messages.

    Raises:
        SpecError: with the library's reason.
    """
    spec = decode_spec(data, path)
    check_spec(spec)
    return spec
