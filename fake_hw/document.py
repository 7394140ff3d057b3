"""Strict reading of a YAML document: every problem is collected, each with its line and path.

Scalars are kept as the text that was written and are converted by the field that holds them. YAML's own
guesses never apply: they would make a number to base 60 of the PCI address 0000:16:01.0, and 12.2 of 12.20.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import yaml

from fake_hw.errors import HardwareError

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: file, line from 1, path such as `pciRoots[0].id`, what is the matter."""

    source: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}: "
        return f"{where}{self.path}: {self.text}" if self.path else where + self.text


class TopologyError(HardwareError):
    """A topology document is wrong; `problems` lists everything found, the text has one line for each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not allowed: write the value out",
                problem_mark=self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        return super().compose_node(parent, index)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A hint `; did you mean "x"?`, or nothing when no allowed word is near."""
    near = difflib.get_close_matches(word, list(allowed), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


class Document:
    """A composed YAML document and the problems found in it so far."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self._seen: dict[tuple[str, str], str] = {}
        try:
            loader = _Loader(text)
            try:
                self.root: yaml.Node | None = loader.get_single_node()
            finally:
                loader.dispose()
        except yaml.reader.ReaderError as error:
            self._stop(1, f"not readable as YAML: {error.reason} at position {error.position}")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._stop(
                mark.line + 1 if mark else 1, f"not readable as YAML: {error.problem or error.context}"
            )
        except RecursionError:
            self._stop(1, "not readable as YAML: nested too deeply")

    def _stop(self, line: int, text: str) -> None:
        raise TopologyError([Problem(self.source, line, "", text)]) from None

    def add(self, node: yaml.Node | None, path: str, text: str) -> None:
        """Note a problem at a node."""
        self.problems.append(Problem(self.source, node.start_mark.line + 1 if node else 1, path, text))

    def unique(self, node: yaml.Node | None, path: str, what: str, value: str) -> None:
        """Note a problem when another place already has the same `value` of the kind `what`."""
        first = self._seen.setdefault((what, value), path)
        if first != path:
            self.add(node, path, f'{what} "{value}" is already used by {first}; each {what} must be unique')

    def finish(self) -> None:
        """Raise everything that was found, in the order of the lines."""
        if self.problems:
            raise TopologyError(sorted(self.problems, key=lambda problem: problem.line))


class Section:
    """A mapping with known fields. A field that is missing or wrong is noted and read as its fallback."""

    def __init__(
        self, document: Document, node: yaml.Node | None, path: str, fields: tuple[str, ...]
    ) -> None:
        self.document = document
        self.node = node
        self.path = path
        self._values: dict[str, yaml.Node] = {}
        if not isinstance(node, yaml.MappingNode):
            document.add(node, path, f"must be a mapping with the fields {', '.join(fields)}")
            self._broken = True
            return
        self._broken = False
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            if name in self._values:
                document.add(key, self.at(name), "is given twice")
            elif name not in fields:
                hint = did_you_mean(name, fields)
                document.add(key, self.at(name), f"unknown field; allowed: {', '.join(fields)}{hint}")
            else:
                self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def line_of(self, name: str) -> yaml.Node | None:
        """The node to blame for a field: its value, or the mapping when it is absent."""
        return self._values.get(name, self.node)

    def required(self, name: str, convert: Callable[[str], T], fallback: T) -> T:
        """A scalar that must be there."""
        if name not in self._values:
            self._missing(name)
            return fallback
        return self.optional(name, convert, fallback)

    def optional(self, name: str, convert: Callable[[str], T], fallback: T) -> T:
        """A scalar that may be left out. `convert` raises ValueError with what is allowed."""
        node = self._values.get(name)
        return fallback if node is None else scalar(self.document, node, self.at(name), convert, fallback)

    def section(self, name: str, fields: tuple[str, ...]) -> Section | None:
        """A nested mapping with known fields, or None when it is absent."""
        node = self._values.get(name)
        return None if node is None else Section(self.document, node, self.at(name), fields)

    def items(self, name: str, required: bool = False) -> list[tuple[yaml.Node, str]]:
        """The nodes of a list, each with its path."""
        node = self._values.get(name)
        if node is None:
            if required:
                self._missing(name)
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.document.add(node, self.at(name), "must be a list")
            return []
        return [(item, f"{self.at(name)}[{index}]") for index, item in enumerate(node.value)]

    def entries(self, name: str) -> list[tuple[str, yaml.Node, str]]:
        """The keys and nodes of a mapping with free keys, each with its path."""
        node = self._values.get(name)
        if node is None:
            return []
        if not isinstance(node, yaml.MappingNode):
            self.document.add(node, self.at(name), "must be a mapping")
            return []
        result: dict[str, tuple[str, yaml.Node, str]] = {}
        for key, value in node.value:
            text = key.value if isinstance(key, yaml.ScalarNode) else "?"
            path = f"{self.at(name)}.{text}"
            if text in result:
                self.document.add(key, path, "is given twice")
            result[text] = (text, value, path)
        return list(result.values())

    def _missing(self, name: str) -> None:
        if not self._broken:
            self.document.add(self.node, self.at(name), "is required")


def scalar(document: Document, node: yaml.Node, path: str, convert: Callable[[str], T], fallback: T) -> T:
    """The converted text of a scalar node; the fallback after noting a problem."""
    if not isinstance(node, yaml.ScalarNode):
        document.add(node, path, "must be a single value, not a list or mapping")
        return fallback
    try:
        return convert(node.value)
    except ValueError as error:
        document.add(node, path, f'"{node.value}" {error}')
        return fallback
