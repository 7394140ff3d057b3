"""The order in which declarative rules report: that of the fields in the API types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ..errors import FieldError
from ..schema import Message

_PART: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")


def declared_order(message: Message) -> Callable[[FieldError], tuple[int, ...]]:
    """A sort key for errors of one kind; map keys and unknown parts keep the order in which they were found."""

    def key(error: FieldError) -> tuple[int, ...]:
        position: list[int] = []
        current: Message | None = message
        parts = list(_PART.finditer(error.field))
        for part in parts:
            name, index = part.groups()
            if name is None:
                # Duplicates of a list come before what is wrong within its items.
                whole_item = error.type == "Duplicate" and part is parts[-1]
                position += [0 if whole_item else 1, int(index) if index.isdecimal() else 0]
                continue
            fields = current.fields if current is not None else {}
            field = fields.get(name)
            position.append(list(fields).index(name) if field is not None else 0)
            current = field.message if field is not None and field.type == "message" else None
        return tuple(position)

    return key
