"""Expressions after parsing, macros expanded. Every node has an id; `Positions` knows where ids come from.

Ids are given in the order of cel-go: one of its error texts shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .source import NO_LOCATION, Location, Source


class Expr:
    """Any node; as itself a part that could not be parsed."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id


class Literal(Expr):
    """A constant: bool, int, UInt, float, str, bytes or None."""

    __slots__ = ("value",)

    def __init__(self, id: int, value: Any) -> None:
        super().__init__(id)
        self.value = value


class Ident(Expr):
    """A name; the checker puts the resolved one, with a leading dot where a local one hides it."""

    __slots__ = ("name",)

    def __init__(self, id: int, name: str) -> None:
        super().__init__(id)
        self.name = name


class Select(Expr):
    """`operand.field`, or with `test_only` whether it is there.

    `resolved` is set by the checker when the whole is a qualified name and no selection.
    """

    __slots__ = ("field", "operand", "resolved", "test_only")

    def __init__(self, id: int, operand: Expr, field: str, test_only: bool = False) -> None:
        super().__init__(id)
        self.operand = operand
        self.field = field
        self.test_only = test_only
        self.resolved: str | None = None


class Call(Expr):
    """A function or operator; `target` is the receiver of a member call."""

    __slots__ = ("args", "function", "target")

    def __init__(self, id: int, function: str, args: Sequence[Expr], target: Expr | None = None) -> None:
        super().__init__(id)
        self.function = function
        self.args = tuple(args)
        self.target = target


class ListExpr(Expr):
    """`[a, ?b]`; `optionals` are the indices of elements with a question mark."""

    __slots__ = ("elements", "optionals")

    def __init__(self, id: int, elements: Sequence[Expr], optionals: Sequence[int] = ()) -> None:
        super().__init__(id)
        self.elements = tuple(elements)
        self.optionals = frozenset(optionals)


class Entry(Expr):
    """One `key: value` of a map or `field: value` of a message."""

    __slots__ = ("key", "optional", "value")

    def __init__(self, id: int, key: Any, value: Expr, optional: bool) -> None:
        super().__init__(id)
        self.key = key
        self.value = value
        self.optional = optional


class MapExpr(Expr):
    """`{key: value}`."""

    __slots__ = ("entries",)

    def __init__(self, id: int, entries: Sequence[Entry]) -> None:
        super().__init__(id)
        self.entries = tuple(entries)


class StructExpr(Expr):
    """`Name{field: value}`."""

    __slots__ = ("entries", "name")

    def __init__(self, id: int, name: str, entries: Sequence[Entry]) -> None:
        super().__init__(id)
        self.name = name
        self.entries = tuple(entries)


class Comprehension(Expr):
    """A loop over `range`: what macros expand to. `iter_var2` is empty for loops with one variable."""

    __slots__ = ("accu_init", "accu_var", "condition", "iter_var", "iter_var2", "range", "result", "step")

    def __init__(
        self,
        id: int,
        range: Expr,
        iter_var: str,
        iter_var2: str,
        accu_var: str,
        accu_init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> None:
        super().__init__(id)
        self.range = range
        self.iter_var = iter_var
        self.iter_var2 = iter_var2
        self.accu_var = accu_var
        self.accu_init = accu_init
        self.condition = condition
        self.step = step
        self.result = result


def qualified_name(node: Expr) -> list[str] | None:
    """The parts of `a.b.c`, when the node is nothing else."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    parts.append(node.name)
    return parts[::-1]


class Positions:
    """Gives ids and remembers the character at which each node starts."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offsets: dict[int, int] = {}
        self._next = 1

    def new(self, offset: int | None) -> int:
        """A fresh id; `None` is no place."""
        id = self._next
        self._next += 1
        if offset is not None:
            self._offsets[id] = offset
        return id

    def drop(self, id: int) -> None:
        """Forget an id; it is given again when it was the latest."""
        self._offsets.pop(id, None)
        if id == self._next - 1:
            self._next -= 1

    def offset(self, id: int) -> int | None:
        """The character at which a node starts."""
        return self._offsets.get(id)

    def location(self, id: int) -> Location:
        """The place of a node."""
        offset = self._offsets.get(id)
        return NO_LOCATION if offset is None else self._source.location(offset)
