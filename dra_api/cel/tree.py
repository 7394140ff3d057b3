"""What the grammar finds, before macros and literals are understood. `start` is the first token's offset.

Parts that are missing because of a syntax error are None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .lexer import Token


@dataclass(slots=True)
class Node:
    """Any part; as itself one in which nothing could be recognised."""

    start: int


@dataclass(slots=True)
class Conditional(Node):
    """`e ? e1 : e2`."""

    e: Node | None
    op: Token
    e1: Node | None
    e2: Node | None


@dataclass(slots=True)
class Logical(Node):
    """A chain of `||` or `&&`."""

    function: str
    e: Node | None
    ops: list[Token] = field(default_factory=list)
    rest: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Binary(Node):
    """A relation or calculation; `op` may be None after a syntax error."""

    lhs: Node | None
    op: Token | None
    rhs: Node | None


@dataclass(slots=True)
class Unary(Node):
    """One or more `!` or `-`."""

    ops: list[Token]
    member: Node | None


@dataclass(slots=True)
class BrokenUnary(Node):
    """An operand in which nothing could be recognised."""


@dataclass(slots=True)
class Member(Node):
    """`member.id` or `member.?id`; `unnamed` is where a name was looked for in vain."""

    member: Node | None
    op: Token | None
    optional: bool
    id: Token | None
    unnamed: int | None = None


@dataclass(slots=True)
class MemberCall(Node):
    """`member.id(args)`."""

    member: Node | None
    id: Token | None
    open: Token | None
    args: list[Node | None]


@dataclass(slots=True)
class Index(Node):
    """`member[index]` or `member[?index]`."""

    member: Node | None
    op: Token | None
    optional: bool
    index: Node | None


@dataclass(slots=True)
class Name(Node):
    """A name, perhaps with a dot before it."""

    dot: bool
    id: Token | None


@dataclass(slots=True)
class GlobalCall(Node):
    """`id(args)`."""

    dot: bool
    id: Token | None
    op: Token | None
    args: list[Node | None]


@dataclass(slots=True)
class CreateList(Node):
    """`[...]`; elements are (optional, expression)."""

    op: Token | None
    elements: list[tuple[bool, Node | None]]


@dataclass(slots=True)
class CreateMap(Node):
    """`{...}`; keys are (optional, expression)."""

    op: Token | None
    keys: list[tuple[bool, Node | None]]
    columns: list[Token]
    values: list[Node]


@dataclass(slots=True)
class CreateMessage(Node):
    """`Name{...}`; fields are (optional, identifier), the first at `inside`."""

    dot: bool
    ids: list[Token]
    op: Token | None
    fields: list[tuple[bool, Token | None]]
    columns: list[Token]
    values: list[Node]
    inside: int = 0


@dataclass(slots=True)
class LiteralNode(Node):
    """A number, string, bytes, bool or null; `negative` when a minus sign belongs to it."""

    token: Token
    negative: bool = False
