"""Values as Go prints those of API types: in the order of the type's fields, without what omitempty hides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..decode.plans import plan_of
from ..schema import Message

_NAME: Final = re.compile(r"([^.\[\]]+)|\[[^\]]*\]")


def message_at(message: Message, path: str) -> Message | None:
    """The type of what stands at a path in an object of this type; None for what is no struct."""
    current: Message | None = message
    for name in filter(None, _NAME.findall(path)):
        field = current.fields.get(name) if current is not None else None
        current = field.message if field is not None and field.type == "message" else None
    return current


def go_json(value: Mapping[str, Any], message: Message) -> dict[str, Any]:
    """The struct as Go prints it. Fields that the type does not have are left out."""
    result: dict[str, Any] = {}
    for name, rule in plan_of(message).rules.items():
        item = value.get(name)
        if item is None or (rule.hides_empty and item in ([], {})):
            if rule.absent is not None:
                result[name] = rule.absent()
        elif rule.field.type != "message":
            result[name] = item
        elif rule.field.shape == "list":
            result[name] = [go_json(each, rule.field.message) for each in item]
        elif rule.field.shape == "map":
            result[name] = {key: go_json(each, rule.field.message) for key, each in item.items()}
        else:
            result[name] = go_json(item, rule.field.message)
    return result
