"""Strict reading of drakit's own YAML documents: every problem at once, each with its place and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from dra_api.nearest import nearest

T = TypeVar("T")


class DocumentError(Exception):
    """A document that cannot be used; `problems` are complete sentences, one per line."""

    def __init__(self, source: str, problems: Iterable[str]) -> None:
        self.source = source
        self.problems = list(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe loader that refuses a key given twice, since the second would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f'key "{key_node.value}" is given twice', key_node.start_mark
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def load_yaml(path: Path) -> Any:
    """The content of one YAML file. Raises DocumentError when it cannot be read or parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(str(path), ["no such file"]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(
            str(path), [f"cannot be read: {getattr(error, 'strerror', None) or error}"]
        ) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """The one document in `text`. Raises DocumentError with line and column on a syntax error."""
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader subclass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        if error.problem == "but found another document":
            raise DocumentError(source, [f"{place}a second document; there must be one in a file"]) from None
        raise DocumentError(source, [f"{place}not valid YAML: {error.problem}"]) from None
    except yaml.YAMLError as error:
        raise DocumentError(source, [f"not valid YAML: {error}"]) from None
    except RecursionError:
        raise DocumentError(source, ["not valid YAML: nested too deeply"]) from None


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A hint ready to append, or the empty string."""
    near = nearest(word, allowed)
    return f'; did you mean "{near}"?' if near else ""


_NAMES: Mapping[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "a mapping",
    float: "a number",
}


def _type_name(value: Any) -> str:
    if value is None:
        return "nothing"
    return _NAMES.get(type(value), type(value).__name__)


class Reader:
    """Walks one mapping of a document, collecting problems in a list shared with its children.

    `finish()` of the outermost reader raises everything that was found.
    """

    def __init__(self, value: Any, source: str, path: str = "", problems: list[str] | None = None) -> None:
        self.source = source
        self.path = path
        self.problems: list[str] = [] if problems is None else problems
        self._taken: set[str] = set()
        if isinstance(value, dict):
            self._value: dict[str, Any] = value
        else:
            self._value = {}
            self.problem("", f"must be a mapping, got {_type_name(value)}")

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key

    def problem(self, key: str, text: str) -> None:
        """Record a problem of the field `key` ("" for the mapping itself)."""
        place = self._at(key)
        self.problems.append(f"{place}: {text}" if place else text)

    def has(self, key: str) -> bool:
        """Whether the field is present and not null."""
        return self._value.get(key) is not None

    def take(self, key: str, kind: type[T], default: T | None = None, *, required: bool = False) -> T:
        """The field's value when it has the wanted type; otherwise the default, with the problem recorded."""
        self._taken.add(key)
        value = self._value.get(key)
        fallback: T = kind() if default is None else default
        if value is None:
            if required:
                self.problem(key, f"is required: {_NAMES[kind]}")
            return fallback
        wrong_bool = isinstance(value, bool) and kind is not bool
        if kind is float and isinstance(value, int) and not wrong_bool:
            return kind(value)  # type: ignore[call-arg]
        if not isinstance(value, kind) or wrong_bool:
            self.problem(key, f"must be {_NAMES[kind]}, got {_type_name(value)}")
            return fallback
        if required and kind is str and not value:
            self.problem(key, "must not be empty")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str = "", *, required: bool = False) -> str:
        """A string out of `allowed`."""
        options = list(allowed)
        value = self.take(key, str, default, required=required)
        if self.has(key) and isinstance(self._value[key], str) and value not in options:
            self.problem(key, f'"{value}" is not one of {", ".join(options)}{did_you_mean(value, options)}')
        return value

    def strings(self, key: str, *, required: bool = False, allowed: Iterable[str] | None = None) -> list[str]:
        """A list of strings, each out of `allowed` when given."""
        options = None if allowed is None else list(allowed)
        result: list[str] = []
        for index, item in enumerate(self.take(key, list, required=required)):
            if not isinstance(item, str):
                self.problem(f"{key}[{index}]", f"must be a string, got {_type_name(item)}")
            elif options is not None and item not in options:
                self.problem(
                    f"{key}[{index}]",
                    f'"{item}" is not one of {", ".join(options)}{did_you_mean(item, options)}',
                )
            else:
                result.append(item)
        return result

    def child(self, key: str, *, required: bool = False) -> Reader:
        """A reader for a nested mapping (an empty one when absent)."""
        value = self.take(key, dict, required=required)
        return Reader(value, self.source, self._at(key), self.problems)

    def children(self, key: str, *, required: bool = False) -> list[Reader]:
        """Readers for a list of mappings."""
        items = self.take(key, list, required=required)
        return [
            Reader(item, self.source, self._at(f"{key}[{index}]"), self.problems)
            for index, item in enumerate(items)
        ]

    def keys(self) -> list[str]:
        """All keys present."""
        return list(self._value)

    def each(self, key: str, convert: Callable[[Reader], T]) -> tuple[T, ...]:
        """`convert` applied to every mapping of a list."""
        return tuple(convert(child) for child in self.children(key))

    def end(self, *, allow: Iterable[str] = ()) -> None:
        """Report every field that nobody asked for."""
        known = self._taken | set(allow)
        for key in self._value:
            if key not in known:
                options = ", ".join(sorted(known))
                self.problem(
                    str(key), f"unknown field{did_you_mean(str(key), known)} (known here: {options})"
                )

    def finish(self) -> None:
        """Raise DocumentError when any reader of this document recorded a problem."""
        if self.problems:
            raise DocumentError(self.source, self.problems)
