"""Members that Go always serialises, such as an empty spec or a null list, put into an object.

Field ownership sees them: a container that was there before, however empty, is not added by the first write
into it.
"""

from __future__ import annotations

from typing import Any, Final

from dra_api.schema import Field, Message

_SCALARS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "quantity": "0",
    "intorstring": 0,
    "duration": "0s",
}


def complete(value: Any, message: Message) -> Any:
    """The object with the always-serialised members that it lacks, at every depth; the input stays."""
    if not isinstance(value, dict):
        return value
    result = {}
    for name, item in value.items():
        entry = message.fields.get(name)
        result[name] = item if entry is None else _complete_field(item, entry)
    for name, entry in message.fields.items():
        if name not in result and _is_always_there(entry):
            result[name] = _zero(entry)
    return result


def _complete_field(value: Any, entry: Field) -> Any:
    if entry.type != "message":
        return value
    message = entry.message
    if entry.repeated and isinstance(value, list):
        return [complete(item, message) for item in value]
    if entry.map and isinstance(value, dict):
        return {name: complete(item, message) for name, item in value.items()}
    return complete(value, message)


def _is_always_there(entry: Field) -> bool:
    if entry.omitzero or (entry.omitempty and (entry.pointer or entry.shape != "one")):
        return False
    # Go's omitempty never omits a struct.
    return not entry.omitempty or entry.type in ("message", "quantity", "intorstring")


def _zero(entry: Field) -> Any:
    if entry.pointer or entry.shape != "one":
        return None
    if entry.type == "message":
        return complete({}, entry.message)
    return _SCALARS.get(entry.type)
