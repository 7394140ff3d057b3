"""Static types of expressions and how they print (cel-go `common/types` and `checker/format`)."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Kind(Enum):
    """General category of a type."""

    DYN = auto()
    ANY = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    DURATION = auto()
    ERROR = auto()
    INT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    OPAQUE = auto()
    STRING = auto()
    STRUCT = auto()
    TIMESTAMP = auto()
    TYPE = auto()
    TYPE_PARAM = auto()
    UINT = auto()


_PRINTED: Final = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}


class Type:
    """A type; equal types have equal `text`.

    `name` is the name at run time (`google.protobuf.Timestamp`), `text` how messages of the checker print it
    (`timestamp`). `wrapper` marks the nullable variant of a primitive.
    """

    __slots__ = ("_text", "kind", "name", "parameters", "wrapper")

    def __init__(
        self, kind: Kind, name: str, parameters: tuple[Type, ...] = (), *, wrapper: bool = False
    ) -> None:
        self.kind = kind
        self.name = name
        self.parameters = parameters
        self.wrapper = wrapper
        self._text: str | None = None

    @property
    def text(self) -> str:
        """How messages of the checker print the type."""
        if self._text is None:
            printed = _PRINTED.get(self.kind)
            if printed is None:
                printed = f"wrapper({self.name})" if self.wrapper else self.name
                if self.parameters:
                    printed = f"{self.name}({', '.join(each.text for each in self.parameters)})"
            self._text = printed
        return self._text

    def __str__(self) -> str:
        """How messages outside of the checker print the type."""
        if self.kind is Kind.TYPE_PARAM:
            return f"<{self.name}>"
        name = f"wrapper({self.name})" if self.wrapper else self.name
        return f"{name}({', '.join(map(str, self.parameters))})" if self.parameters else name

    def __repr__(self) -> str:
        return f"Type({self.text})"

    def same(self, other: Type) -> bool:
        """Whether both are exactly the same type."""
        return self is other or (
            self.kind is other.kind
            and self.name == other.name
            and len(self.parameters) == len(other.parameters)
            and all(mine.same(theirs) for mine, theirs in zip(self.parameters, other.parameters, strict=True))
        )


DYN: Final = Type(Kind.DYN, "dyn")
ANY: Final = Type(Kind.ANY, "google.protobuf.Any")
BOOL: Final = Type(Kind.BOOL, "bool")
BYTES: Final = Type(Kind.BYTES, "bytes")
DOUBLE: Final = Type(Kind.DOUBLE, "double")
DURATION: Final = Type(Kind.DURATION, "google.protobuf.Duration")
ERROR: Final = Type(Kind.ERROR, "error")
INT: Final = Type(Kind.INT, "int")
NULL: Final = Type(Kind.NULL, "null_type")
STRING: Final = Type(Kind.STRING, "string")
TIMESTAMP: Final = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE: Final = Type(Kind.TYPE, "type")
UINT: Final = Type(Kind.UINT, "uint")


def list_of(element: Type) -> Type:
    """A list."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """A map."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """An optional value."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(value: Type) -> Type:
    """The type of a type name used as a value."""
    return Type(Kind.TYPE, "type", (value,))


def parameter(name: str) -> Type:
    """A type parameter of an overload."""
    return Type(Kind.TYPE_PARAM, name)


def struct(name: str) -> Type:
    """An object type."""
    return Type(Kind.STRUCT, name)


def opaque(name: str, *parameters: Type) -> Type:
    """A type of a library."""
    return Type(Kind.OPAQUE, name, parameters)


def is_dyn(kind: Type) -> bool:
    """Whether values of any type may come out."""
    return kind.kind is Kind.DYN or kind.kind is Kind.ANY


def is_dyn_or_error(kind: Type) -> bool:
    """Like is_dyn, also for the type of a part in which an error was found."""
    return is_dyn(kind) or kind.kind is Kind.ERROR


def unwrap_optional(kind: Type) -> tuple[Type, bool]:
    """The type inside of an optional, and whether it was one."""
    if kind.kind is Kind.OPAQUE and kind.name == "optional_type":
        return kind.parameters[0], True
    return kind, False
