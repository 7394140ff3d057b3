"""Types of API objects for checks of expressions: what upstream makes of the OpenAPI schemas of built-in kinds.

Fields whose schema has no single type, which is what quantities have, are not known to it.
Source: apiserver v0.37.2 `pkg/cel/common/schemas.go`, `pkg/cel/types.go`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..schema import GVK, Field, Message, load
from . import types
from .types import Type

Structs = dict[str, dict[str, Type]]

_SCALARS: Final = {
    "string": types.STRING,
    "bool": types.BOOL,
    "int32": types.INT,
    "int64": types.INT,
    "bytes": types.BYTES,
    "time": types.TIMESTAMP,
    "microtime": types.TIMESTAMP,
    "intorstring": types.DYN,
    "strings": types.list_of(types.STRING),
}
_OBJECTS: Final = ("raw", "fieldsv1")
_KEYWORDS: Final = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
        "let", "loop", "package", "namespace", "return", "var", "void", "while",
    )
)  # fmt: skip


@lru_cache(maxsize=64)
def object_types(gvk: GVK) -> tuple[Type, Structs] | None:
    """The type of a kind and all object types that it consists of; None for a kind that is not known."""
    message = load().kind(gvk)
    if message is None:
        return None
    structs: Structs = {}
    # Upstream makes the name unique by a number.
    return _struct(message, f"{gvk.kind}1", structs), structs


def _struct(message: Message, name: str, structs: Structs) -> Type:
    fields: dict[str, Type] = {}
    structs[name] = fields
    for field in message.fields.values():
        kind = _type(field, f"{name}.{field.name}", structs)
        if kind is None:
            continue
        fields[field.name] = kind
        if field.name in _KEYWORDS:
            fields[f"__{field.name}__"] = kind
    return types.struct(name)


def _type(field: Field, name: str, structs: Structs) -> Type | None:
    if field.shape == "list":
        element = _single(field, f"{name}.@idx", structs)
        return None if element is None else types.list_of(element)
    if field.shape == "map":
        element = _single(field, f"{name}.@elem", structs)
        return None if element is None else types.map_of(types.STRING, element)
    return _single(field, name, structs)


def _single(field: Field, name: str, structs: Structs) -> Type | None:
    if field.type == "message":
        return _struct(field.message, name, structs)
    if field.type in _OBJECTS:
        structs[name] = {}
        return types.struct(name)
    return _SCALARS.get(field.type)
