"""How values of a kind merge: what is a leaf, which lists have keys (api-machinery sections 4 and 8).

A shape is the merge view of a schema message. It answers three questions about a value: is it a scalar, a
list or a map; does it merge item by item or is it one leaf (`atomic`); and what do its parts look like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Final

from dra_api.schema import Field, Message


@dataclass(frozen=True)
class Slot:
    """A field of a struct: its shape, the default that completes list keys, and its strategic-merge tags."""

    shape: Shape
    default: Any = None
    strategies: tuple[str, ...] = ()
    merge_key: str = ""


@dataclass(frozen=True)
class Shape:
    """The merge view of one type.

    `kind` is `scalar`, `list`, `map`, `struct` or `any` (decided by the value at hand). `scalar` names what a
    scalar may be: `string`, `numeric`, `boolean`, `untyped`. A list with `keys` selects items by them,
    another list that is not atomic is a set. `element` is the shape of list items and map values.
    """

    kind: str
    name: str = ""
    scalar: str = "untyped"
    atomic: bool = False
    keys: tuple[str, ...] = ()
    element_of: Callable[[], Shape] | None = None
    fields_of: Callable[[], Mapping[str, Slot]] | None = None

    @cached_property
    def element(self) -> Shape:
        """The shape of list items and map values."""
        return self.element_of() if self.element_of is not None else ANY

    @cached_property
    def fields(self) -> Mapping[str, Slot]:
        """The fields of a struct by their JSON name; empty for everything else."""
        return self.fields_of() if self.fields_of is not None else {}

    def child(self, name: str) -> Shape:
        """The shape of a field or map value."""
        slot = self.fields.get(name)
        return slot.shape if slot is not None else self.element

    def declares(self, name: str) -> bool:
        """Whether a map of this shape may hold this key."""
        return self.kind != "struct" or name in self.fields

    def for_value(self, value: Any) -> Shape:
        """The shape itself, or for `any` what the value turns out to be."""
        if self.kind != "any" or self.atomic:
            return self
        if isinstance(value, dict):
            return _ANY_MAP
        return _ANY_LIST if isinstance(value, list) else _ANY_SCALAR


ANY: Final = Shape("any")
"""Free JSON: maps merge by key, lists are replaced whole."""

_ANY_SCALAR: Final = Shape("scalar")
_ANY_LIST: Final = Shape("list", atomic=True)
_ANY_MAP: Final = Shape("map", element_of=lambda: ANY)
RAW: Final = Shape("any", atomic=True)
"""Free JSON that is one leaf, such as an opaque configuration or the data of a device's status."""


_SCALARS: Final = {
    "string": "string",
    "bytes": "string",
    "bool": "boolean",
    "int32": "numeric",
    "int64": "numeric",
}


@cache
def _message_shape(message: Message, atomic: bool) -> Shape:
    return Shape("struct", message.struct, atomic=atomic, fields_of=partial(_slots, message))


def shape_of(message: Message) -> Shape:
    """The shape of a message of the schema."""
    return _message_shape(message, message.atomic)


def _slots(message: Message) -> dict[str, Slot]:
    return {
        name: Slot(_field_shape(entry), entry.default, entry.patch_strategy, entry.patch_merge_key)
        for name, entry in message.fields.items()
    }


def _field_shape(entry: Field) -> Shape:
    atomic = entry.map_type == "atomic"
    if entry.shape == "list":
        return Shape(
            "list",
            atomic=entry.list_type not in ("set", "map"),
            keys=entry.list_keys,
            element_of=partial(_value_shape, entry),
        )
    if entry.shape == "map":
        return Shape("map", atomic=atomic, element_of=partial(_value_shape, entry))
    return _value_shape(entry, atomic=atomic)


def _value_shape(entry: Field, *, atomic: bool = False) -> Shape:
    if entry.type == "message":
        return _message_shape(entry.message, atomic or entry.message.atomic)
    if entry.type in ("raw", "fieldsv1"):
        return RAW
    if entry.type == "strings":
        return Shape("list", atomic=True, element_of=lambda: _STRING)
    return Shape("scalar", scalar=_SCALARS.get(entry.type, "untyped"))


_STRING: Final = Shape("scalar", scalar="string")
