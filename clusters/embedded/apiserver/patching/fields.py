"""Sets of field paths and their wire form FieldsV1 (api-machinery section 8, managedFields).

A path is a tuple of elements. An element selects a field or map key (`f`), the item of a keyed list (`k`),
the item of a set (`v`) or an index (`i`). A set holds paths; that a path is in it
says nothing about its parents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

_KINDS: Final = "fkvi"
_CACHED: Final = 8192
"""Elements kept for use again: the same names come up in every write."""


class FieldsError(ValueError):
    """A FieldsV1 document that cannot be read."""


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _wire(value: Any) -> str:
    # Go's encoder escapes what HTML could misread.
    return _compact(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _plain(value: Any) -> Any:
    # 1 and 1.0 select the same item, as on the wire.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _order(value: Any) -> tuple[Any, ...]:
    """Sort key over JSON values: numbers, strings, booleans, lists, maps, null."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    if isinstance(value, list):
        return (3, tuple(_order(item) for item in value))
    if isinstance(value, dict):
        return (4, tuple((key, _order(value[key])) for key in sorted(value)))
    return (5,)


class Element:
    """One step of a path; equal and ordered by what it selects, never changed."""

    __slots__ = ("__dict__", "kind", "text", "value")

    def __init__(self, kind: str, value: Any) -> None:
        self.kind: Final = kind
        self.value: Final = value
        self.text: Final = kind + ":" + self._content()

    def _content(self) -> str:
        if self.kind == "f":
            return str(self.value)
        if self.kind == "k":
            return "{" + ",".join(f"{_wire(name)}:{_wire(item)}" for name, item in self.value) + "}"
        return _wire(self.value)

    @cached_property
    def order(self) -> tuple[Any, ...]:
        """Sort key: fields, then keys, then values, then indices."""
        rank = _KINDS.index(self.kind)
        if self.kind == "k":
            return (rank, tuple((name, _order(item)) for name, item in self.value))
        if self.kind == "v":
            return (rank, _order(self.value))
        return (rank, self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __lt__(self, other: Element) -> bool:
        return self.order < other.order

    def __str__(self) -> str:
        if self.kind == "f":
            return f".{self.value}"
        if self.kind == "k":
            return "[" + ",".join(f"{name}={_compact(item)}" for name, item in self.value) + "]"
        return f"[={_compact(self.value)}]" if self.kind == "v" else f"[{self.value}]"

    def __repr__(self) -> str:
        return self.text


Path: TypeAlias = tuple[Element, ...]


@lru_cache(maxsize=_CACHED)
def field(name: str) -> Element:
    """The element of a struct field or map key."""
    return Element("f", name)


def keyed(keys: Mapping[str, Any]) -> Element:
    """The element of an item of a keyed list."""
    return Element("k", tuple((name, _plain(keys[name])) for name in sorted(keys)))


def member(value: Any) -> Element:
    """The element of an item of a set."""
    return Element("v", _plain(value))


def path_text(path: Path) -> str:
    """A path as conflicts print it: `.spec.containers[name="a"].image`."""
    return "".join(str(element) for element in path)


class FieldSet:
    """A set of paths, as a tree: `members` end here, `children` go on.

    The operations return new sets or one of theirs that says the same; only `insert` changes one.
    """

    __slots__ = ("children", "members")

    def __init__(
        self, members: set[Element] | None = None, children: dict[Element, FieldSet] | None = None
    ) -> None:
        self.members = set() if members is None else members
        self.children = {} if children is None else children

    @classmethod
    def of(cls, *paths: Path) -> FieldSet:
        """The set of the given paths."""
        result = cls()
        for path in paths:
            result.insert(path)
        return result

    @classmethod
    def of_fields(cls, *paths: str) -> FieldSet:
        """The set of dotted field paths such as `metadata.name`."""
        return cls.of(*(tuple(field(name) for name in path.split(".")) for path in paths))

    def insert(self, path: Path) -> None:
        """Adds one path; its parents are not added. The empty path (the whole object) is never owned."""
        if not path:
            return
        node = self
        for element in path[:-1]:
            node = node.children.setdefault(element, FieldSet())
        node.members.add(path[-1])

    def has(self, path: Path) -> bool:
        """Whether exactly this path is a member."""
        node: FieldSet | None = self
        for element in path[:-1]:
            node = node.children.get(element) if node is not None else None
        return node is not None and bool(path) and path[-1] in node.members

    def below(self, element: Element) -> FieldSet:
        """The members below an element, without it."""
        return self.children.get(element, _NOTHING)

    def __bool__(self) -> bool:
        return bool(self.members) or any(self.children.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet) or self.members != other.members:
            return False
        mine = {key: child for key, child in self.children.items() if child}
        return mine == {key: child for key, child in other.children.items() if child}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(path_text(path) for path in self)})"

    def __iter__(self) -> Iterator[Path]:
        """All paths, members before children, each in element order."""
        for element in sorted(self.members):
            yield (element,)
        for element in sorted(self.children):
            for path in self.children[element]:
                yield (element, *path)

    def union(self, other: FieldSet) -> FieldSet:
        """Paths in either."""
        if not other.members and not other.children:
            return self
        children = dict(self.children)
        for element, child in other.children.items():
            mine = children.get(element)
            children[element] = child if mine is None else mine.union(child)
        return FieldSet(self.members | other.members, children)

    def intersection(self, other: FieldSet) -> FieldSet:
        """Paths in both."""
        children = {}
        for element in self.children.keys() & other.children.keys():
            child = self.children[element].intersection(other.children[element])
            if child:
                children[element] = child
        return FieldSet(self.members & other.members, children)

    def difference(self, other: FieldSet) -> FieldSet:
        """Paths of this set that are not in the other; a parent in the other leaves its children here."""
        if not other.members and not other.children:
            return self
        children = {}
        for element, child in self.children.items():
            theirs = other.children.get(element)
            rest = child if theirs is None else child.difference(theirs)
            if rest:
                children[element] = rest
        return FieldSet(self.members - other.members, children)

    def without(self, other: FieldSet) -> FieldSet:
        """Like `difference`, but a member of the other takes everything below it away too."""
        if not other.members and not other.children:
            return self
        children = {}
        for element, child in self.children.items():
            if element in other.members:
                continue
            theirs = other.children.get(element)
            rest = child if theirs is None else child.without(theirs)
            if rest:
                children[element] = rest
        return FieldSet(self.members - other.members, children)

    def to_json(self) -> dict[str, Any]:
        """The FieldsV1 document, keys in the order of a real server."""
        return self._content(with_self=False)

    def _content(self, *, with_self: bool) -> dict[str, Any]:
        result: dict[str, Any] = {".": {}} if with_self else {}
        for element in sorted(self.members | self.children.keys()):
            child = self.children.get(element)
            if child is None or not child:
                result[element.text] = {}
            else:
                result[element.text] = child._content(with_self=element in self.members)
        return result

    @classmethod
    def from_json(cls, document: Any) -> FieldSet:
        """Reads a FieldsV1 document; unknown kinds of elements are dropped, as a real server does.

        Raises FieldsError.
        """
        return cls._read(document)[0]

    @classmethod
    def _read(cls, document: Any) -> tuple[FieldSet, bool]:
        if document is None:
            return cls(), True
        if not isinstance(document, dict):
            raise FieldsError(f"fieldsV1 must consist of objects, got {_compact(document)}")
        result = cls()
        itself = "." in document
        for key, value in document.items():
            if key == ".":
                continue
            element = _read_element(key)
            if element is None:
                continue
            child, child_is_member = cls._read(value)
            if child_is_member:
                result.members.add(element)
            if child:
                result.children[element] = child
        return result, itself or not (result.members or result.children)


@lru_cache(maxsize=_CACHED)
def _read_element(text: str) -> Element | None:
    if len(text) < 2:
        raise FieldsError(f"path element must be 2 characters long: {text!r}")
    kind, separator, content = text[0], text[1], text[2:]
    if separator != ":":
        raise FieldsError(f"missing colon: {text}")
    if kind == "f":
        return field(content)
    if kind not in _KINDS:
        return None
    try:
        value = json.loads(content)
    except ValueError as error:
        raise FieldsError(f"parsing {text} as path element: {error}") from error
    if kind == "k":
        if not isinstance(value, dict):
            raise FieldsError(f"parsing {text} as path element: expected an object")
        return keyed(value)
    if kind == "i" and (isinstance(value, bool) or not isinstance(value, int)):
        raise FieldsError(f"parsing {text} as path element: expected an index")
    return Element("i", value) if kind == "i" else member(value)


_NOTHING: Final = FieldSet()
