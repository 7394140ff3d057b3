"""Optional values (cel-go `cel/library.go`, optional types) and the insertion that `transformMap` needs."""

from __future__ import annotations

from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..values import MISSING, NONE, CelMap, Duration, MutableMap, OptionalValue, Timestamp, shown

_K: Final = types.parameter("K")
_V: Final = types.parameter("V")
_OPTIONAL: Final = types.optional_of(_V)
_LIST: Final = types.list_of(_V)
_MAP: Final = types.map_of(_K, _V)
_OPTIONALS: Final = types.list_of(_OPTIONAL)
_ZERO_TIME: Final = -62135596800 * 10**9


def _value(optional: OptionalValue) -> Any:
    if optional.value is MISSING:
        raise EvalError("optional.none() dereference")
    return optional.value


def _of_non_zero(value: Any) -> OptionalValue:
    return NONE if _is_zero(value) else OptionalValue(value)


def _is_zero(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, (bool, int, float)):
        return value == 0
    if isinstance(value, (str, bytes, list, CelMap)):
        return len(value) == 0
    if type(value) is Duration:
        return value.nanoseconds == 0
    return type(value) is Timestamp and value.nanoseconds == _ZERO_TIME


def _unwrap(values: list[Any]) -> list[Any]:
    for value in values:
        if type(value) is not OptionalValue:
            raise EvalError(f"value {shown(value)} is not optional")
    return [value.value for value in values if value.value is not MISSING]


def _first(values: list[Any]) -> OptionalValue:
    return OptionalValue(values[0]) if values else NONE


def _last(values: list[Any]) -> OptionalValue:
    return OptionalValue(values[-1]) if values else NONE


def _insert(target: CelMap, key: Any, value: Any) -> CelMap:
    if CelMap.find(target, key) is not MISSING:
        raise EvalError(f"insert failed: key {shown(key)} already exists")
    if type(target) is not MutableMap:
        target = CelMap(dict(target.data))
    target.put(key, value)
    return target


def _insert_all(target: CelMap, entries: CelMap) -> CelMap:
    for key, value in entries.items():
        target = _insert(target, key, value)
    return target


def _function(name: str, *overloads: Overload) -> Function:
    return Function(name, overloads)


OPTIONALS: Final = library(
    _function("optional.of", Overload("optional_of", (_V,), _OPTIONAL, call=OptionalValue)),
    _function(
        "optional.ofNonZeroValue", Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, call=_of_non_zero)
    ),
    _function("optional.none", Overload("optional_none", (), _OPTIONAL, call=lambda: NONE)),
    _function("value", Overload("optional_value", (_OPTIONAL,), _V, member=True, call=_value)),
    _function(
        "hasValue",
        Overload(
            "optional_hasValue",
            (_OPTIONAL,),
            types.BOOL,
            member=True,
            call=lambda optional: optional.value is not MISSING,
        ),
    ),
    _function("or", Overload("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, member=True)),
    _function("orValue", Overload("optional_orValue_value", (_OPTIONAL, _V), _V, member=True)),
    _function("_?._", Overload("select_optional_field", (types.DYN, types.STRING), _OPTIONAL)),
    _function(
        "_[?_]",
        Overload("list_optindex_optional_int", (_LIST, types.INT), _OPTIONAL),
        Overload("optional_list_optindex_optional_int", (types.optional_of(_LIST), types.INT), _OPTIONAL),
        Overload("map_optindex_optional_value", (_MAP, _K), _OPTIONAL),
        Overload("optional_map_optindex_optional_value", (types.optional_of(_MAP), _K), _OPTIONAL),
    ),
    _function(
        "_[_]",
        Overload("optional_list_index_int", (types.optional_of(_LIST), types.INT), _OPTIONAL),
        Overload("optional_map_index_value", (types.optional_of(_MAP), _K), _OPTIONAL),
    ),
    _function("last", Overload("list_last", (_LIST,), _OPTIONAL, member=True, call=_last)),
    _function("first", Overload("list_first", (_LIST,), _OPTIONAL, member=True, call=_first)),
    _function("optional.unwrap", Overload("optional_unwrap", (_OPTIONALS,), _LIST, call=_unwrap)),
    _function("unwrapOpt", Overload("optional_unwrapOpt", (_OPTIONALS,), _LIST, member=True, call=_unwrap)),
    _function(
        "cel.@mapInsert",
        Overload("@mapInsert_map_key_value", (_MAP, _K, _V), _MAP, call=_insert),
        Overload("@mapInsert_map_map", (_MAP, _MAP), _MAP, call=_insert_all),
    ),
)
"""Functions of optionals, and of maps that grow."""
