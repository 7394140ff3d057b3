"""Lists and maps that a body gives explicitly and empty, `devices: []`.

Decoding keeps them, because defaults and validation tell them from absent ones. What is shown or stored has
lost them: JSON leaves optional ones out, and storage (protobuf) knows no empty list or map at all.
"""

from __future__ import annotations

from typing import Any

from ..schema import GVK, Message, load
from .plans import JSONObject, plan_of
from .values import Respelled


class Thinned(list[Any]):
    """A list out of whose items empty lists or maps were left out: in Go's memory it differs from the stored one."""


def is_respelled(value: Any) -> bool:
    """Whether something in a decoded value shows the same as the stored one and yet was sent in another form."""
    if isinstance(value, dict):
        return any(map(is_respelled, value.values()))
    if isinstance(value, list):
        return isinstance(value, Thinned) or any(map(is_respelled, value))
    return isinstance(value, Respelled)


def same_form(stored: Any, sent: Any) -> bool:
    """Whether Go holds two values that show the same in the same form too."""
    if isinstance(sent, dict):
        return all(same_form(stored[key], item) for key, item in sent.items())
    if isinstance(sent, list):
        return not isinstance(sent, Thinned) and all(map(same_form, stored, sent))
    if isinstance(sent, Respelled):
        return isinstance(stored, Respelled) and sent.form.same_spelling(stored.form)
    return True


def as_read(value: Any) -> Any:
    """The value without the quantities that are respelled only beside what was written to storage."""
    if isinstance(value, dict):
        return {key: as_read(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [as_read(item) for item in value]
        return Thinned(items) if isinstance(value, Thinned) else items
    return str(value) if isinstance(value, Respelled) and value.is_as_read else value


def settled(value: Any) -> Any:
    """The value without the memory of how its quantities were spelled; itself when there is none."""
    if not is_respelled(value):
        return value
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return str(value)


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
        if not any(map(_differ, items, value)):
            return value
        return items if stored else Thinned(items)
    entries = {key: _struct(item, message, stored) for key, item in value.items()}
    return entries if any(map(_differ, entries.values(), value.values())) else value


def _differ(one: object, other: object) -> bool:
    return one is not other
