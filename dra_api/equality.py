"""Semantic equality: when the API server regards two values as unchanged (apimachinery `api/equality`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .quantity import Quantity, QuantityError
from .schema import Field, Message


def semantic_equal(new: Any, old: Any, message: Message) -> bool:
    """Whether two objects of one message are equal.

    Quantities and times are compared by value, empty lists and maps equal absent ones, and a field at its
    zero value equals an absent one unless the API tells the two apart (pointers in Go).
    """
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return bool(new == old)
    for name in new.keys() | old.keys():
        field = message.fields.get(name)
        if field is None:
            if new.get(name) != old.get(name):
                return False
        elif not _field_equal(new.get(name), old.get(name), field):
            return False
    return True


def _field_equal(new: Any, old: Any, field: Field) -> bool:
    if field.shape == "list":
        mine, theirs = new or [], old or []
        return len(mine) == len(theirs) and all(map(lambda a, b: _value_equal(a, b, field), mine, theirs))
    if field.shape == "map":
        left, right = new or {}, old or {}
        return left.keys() == right.keys() and all(_value_equal(left[key], right[key], field) for key in left)
    if field.pointer and (new is None) != (old is None):
        return False
    if field.type == "message" and not field.pointer:
        return semantic_equal(new or {}, old or {}, field.message)
    return _value_equal(new, old, field)


def _value_equal(new: Any, old: Any, field: Field) -> bool:
    if new == old:
        return True
    if field.type == "message":
        return semantic_equal(new, old, field.message)
    if field.type == "quantity":
        return bool(_quantity(new) == _quantity(old))
    if field.type in ("time", "microtime"):
        return bool(_instant(new) == _instant(old))
    if field.type == "raw":
        return False
    # Outside pointers, lists and maps a zero value and an absent one are the same in Go.
    return field.shape == "one" and not field.pointer and not new and not old


def _quantity(value: Any) -> Any:
    try:
        return Quantity.parse(str(value)) if value is not None else Quantity(0)
    except QuantityError:
        return value


def _instant(value: Any) -> Any:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return value
