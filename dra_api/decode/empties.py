"""Lists and maps that a body gives explicitly and empty, `devices: []`.

Decoding keeps them, because defaults and validation tell them from absent ones. What is shown or stored has
lost them: JSON leaves optional ones out, and storage (protobuf) knows no empty list or map at all.
"""

from __future__ import annotations

from typing import Any

from ..schema import GVK, Message, load
from .plans import JSONObject, plan_of


def as_json(obj: JSONObject) -> JSONObject:
    """A decoded object as its JSON shows it: without empty lists and maps that are optional.

    The argument stays as it is; it is returned itself when nothing is to be left out.
    """
    return _object(obj, stored=False)


def as_stored(obj: JSONObject) -> JSONObject:
    """A decoded object as it comes back from storage: empty lists and maps are absent, or null when required.

    The argument stays as it is; it is returned itself when nothing changes.
    """
    return _object(obj, stored=True)


def _object(obj: JSONObject, *, stored: bool) -> JSONObject:
    message = load().kind(GVK.of(obj["apiVersion"], obj["kind"]))
    return obj if message is None else _struct(obj, message, stored)


def _struct(value: JSONObject, message: Message, stored: bool) -> JSONObject:
    rules = plan_of(message).rules
    result = value
    for name, item in value.items():
        if not isinstance(item, dict | list):
            continue
        rule = rules.get(name)
        if rule is None:
            continue
        field = rule.field
        if field.shape != "one" and not item:
            if rule.hides_empty or stored:
                result = dict(value) if result is value else result
                if rule.hides_empty:
                    del result[name]
                else:
                    result[name] = None
        elif field.type == "message":
            changed = _member(item, field.shape, field.message, stored)
            if changed is not item:
                result = dict(value) if result is value else result
                result[name] = changed
    return result


def _member(value: Any, shape: str, message: Message, stored: bool) -> Any:
    """The value of a field whose items are structs; the value itself when nothing in it changes."""
    if shape == "one":
        return _struct(value, message, stored)
    if shape == "list":
        items = [_struct(item, message, stored) for item in value]
        return items if any(map(_differ, items, value)) else value
    entries = {key: _struct(item, message, stored) for key, item in value.items()}
    return entries if any(map(_differ, entries.values(), value.values())) else value


def _differ(one: object, other: object) -> bool:
    return one is not other
