"""Where in a kind there is a field of some name."""

from __future__ import annotations

from collections import deque

from dra_api.schema import Message

_DEPTH = 7


def elsewhere(message: Message, name: str) -> str | None:
    """The place nearest to the root at which users set a field of that name, first items for lists; None for none."""
    waiting = deque([("", message, 0)])
    while waiting:
        path, current, depth = waiting.popleft()
        for field_name, field in current.fields.items():
            if not path and field_name in ("status", "metadata"):
                continue
            place = f"{path}.{field_name}" if path else field_name
            if field_name == name and path:
                return place
            if field.type == "message" and field.shape != "map" and depth < _DEPTH:
                inner = place + ("[0]" if field.shape == "list" else "")
                waiting.append((inner, field.message, depth + 1))
    return None
