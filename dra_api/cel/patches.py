"""Patches as values: what expressions of MutatingAdmissionPolicies make.

Source: apiserver v0.37.2 `pkg/cel/mutation`, `pkg/cel/library/jsonpatch.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import types
from .declarations import Function, Overload, library
from .errors import EvalError
from .types import Type
from .values import EQUALITY, GO_NAMES, MISSING, RUNTIME_TYPES, CelMap, OptionalValue, UInt

OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"
OBJECT_TYPE: Final = types.struct(OBJECT)
PATCHES_TYPE: Final = types.list_of(types.struct(JSON_PATCH))
_TEXTS: Final = ("op", "path", "from")
_PATCH_FIELDS: Final[Mapping[str, Type]] = {**dict.fromkeys(_TEXTS, types.STRING), "value": types.DYN}
# Upstream has no type for other fields, and says so by an empty name.
_NO_TYPE: Final = types.struct("")

Make = Callable[[dict[str, Any]], Any]


class PatchError(Exception):
    """A value that cannot become part of an object."""


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """`Object.spec{...}`: `name` is the type as it is written."""

    name: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JsonPatchValue:
    """`JSONPatch{...}`; `value` is MISSING when it is not given."""

    op: str = ""
    path: str = ""
    source: str = ""
    value: Any = MISSING


RUNTIME_TYPES[ObjectValue] = OBJECT_TYPE
RUNTIME_TYPES[JsonPatchValue] = types.struct(JSON_PATCH)
GO_NAMES[ObjectValue] = "*dynamic.ObjectVal"
GO_NAMES[JsonPatchValue] = "*mutation.JSONPatchVal"
EQUALITY[ObjectValue] = lambda left, right: left == right
EQUALITY[JsonPatchValue] = lambda left, right: left == right


class _PatchFields(dict[str, Type]):
    """Fields of a JSON patch."""

    def get(self, name: str, default: Any = None) -> Any:
        """Unknown ones have a type that nothing fits."""
        return _PATCH_FIELDS.get(name, _NO_TYPE)


class _AnyFields(dict[str, Type]):
    """Fields of an object that is not typed."""

    def get(self, name: str, default: Any = None) -> Any:
        """Any name is a field."""
        return types.DYN


class PatchStructs(dict[str, Mapping[str, Type]]):
    """Object types of an environment, with those of patches: `Object` and all names below it."""

    def get(self, name: str, default: Any = None) -> Any:
        """The fields of a type."""
        if name == JSON_PATCH:
            return _PatchFields()
        return _AnyFields() if _is_object(name) else super().get(name, default)

    def __contains__(self, name: object) -> bool:
        return (
            name == JSON_PATCH or (isinstance(name, str) and _is_object(name)) or super().__contains__(name)
        )


def _is_object(name: str) -> bool:
    return name == OBJECT or name.startswith(f"{OBJECT}.")


def maker_of(name: str) -> Make | None:
    """What makes a value of a named type; None for a type that has no values."""
    if name == JSON_PATCH:
        return _json_patch
    return (lambda fields: ObjectValue(name, fields)) if _is_object(name) else None


def _json_patch(fields: dict[str, Any]) -> JsonPatchValue:
    for name in _TEXTS:
        if name in fields and type(fields[name]) is not str:
            shown = GO_NAMES.get(type(fields[name]), type(fields[name]).__name__)
            raise EvalError(f"unexpected type {shown} for JSONPatchType '{name}' field")
    op, path, source = (fields.get(name, "") for name in _TEXTS)
    return JsonPatchValue(op, path, source, fields.get("value", MISSING))


def check_names(value: ObjectValue) -> None:
    """The types of nested objects must be named after the fields in which they stand. Raises PatchError."""
    problems = list(_misnamed(value, value.name))
    if problems:
        raise PatchError("type mismatch: " + "\n".join(problems))


def _misnamed(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, ObjectValue):
        if value.name != path:
            yield (
                f'unexpected type name "{value.name}", expected "{path}", which matches field name path from root '
                "Object type"
            )
        for name, field in value.fields.items():
            yield from _misnamed(field, f"{path}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from _misnamed(each, path)
    elif isinstance(value, CelMap):
        for _, each in value.items():
            yield from _misnamed(each, path)


def to_json(value: Any) -> Any:
    """A value as JSON. Raises PatchError."""
    if isinstance(value, ObjectValue):
        return {name: to_json(field) for name, field in value.fields.items()}
    if isinstance(value, CelMap):
        entries = {}
        for key, each in value.items():
            if type(key) is not str:
                raise PatchError(f"map key {key!r} is not a string")
            entries[key] = to_json(each)
        return entries
    if isinstance(value, list):
        return [to_json(each) for each in value]
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value == int(value) else value
    if isinstance(value, OptionalValue) and value.value is not MISSING:
        return to_json(value.value)
    raise PatchError(f"a value of type {RUNTIME_TYPES[type(value)].name} is not JSON")


def _escape(key: str) -> str:
    # In one pass: what is escaped is not escaped again.
    return "".join({"/": "~1", "~": "~0"}.get(sign, sign) for sign in key)


JSON_PATCHES: Final = library(
    Function(
        "jsonpatch.escapeKey",
        (Overload("string_jsonpatch_escapeKey_string", (types.STRING,), types.STRING, False, _escape),),
    )
)
"""Functions for JSON patches."""
