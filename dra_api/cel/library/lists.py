"""Lists and sets (cel-go `ext/lists.go` version 3, `ext/sets.go`; apiserver `pkg/cel/library/lists.go`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from .. import types
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..types import Type
from ..values import LISTS, RUNTIME_TYPES, Duration, UInt, contains, equal
from .operators import add, compare

_T: Final = types.parameter("T")
_A: Final = types.parameter("A")
_LIST: Final = types.list_of(_T)
_LIST_A: Final = types.list_of(_A)
_DYNAMIC: Final = types.list_of(types.DYN)
_I: Final = types.INT
_COMPARABLE: Final[tuple[tuple[str, Type], ...]] = (
    ("int", types.INT),
    ("uint", types.UINT),
    ("double", types.DOUBLE),
    ("bool", types.BOOL),
    ("duration", types.DURATION),
    ("timestamp", types.TIMESTAMP),
    ("string", types.STRING),
    ("bytes", types.BYTES),
)
COMPARABLE_NAMES: Final = tuple(kind.name for _, kind in _COMPARABLE)
"""Names of the types that can be sorted, as overload ids show them."""
_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration(0)}


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(values: Any, *levels: Any) -> list[Any]:
    depth = levels[0] if levels else 1
    if not isinstance(values, list) or type(depth) is not int:
        given = ", ".join(str(RUNTIME_TYPES[type(level)]) for level in levels)
        raise EvalError(f"no such overload: {RUNTIME_TYPES[type(values)]}.flatten({given})")
    if depth < 0:
        raise EvalError("level must be non-negative")
    found: list[Any] = []
    for value in values:
        if isinstance(value, list) and depth:
            found.extend(_flatten(value, depth - 1))
        else:
            found.append(value)
    return found


def _sort(values: list[Any]) -> list[Any]:
    return _sort_by_keys(values, values)


def _sort_by_keys(values: list[Any], keys: list[Any]) -> list[Any]:
    if len(values) != len(keys):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    first = RUNTIME_TYPES[type(keys[0])]
    if first.name not in COMPARABLE_NAMES:
        raise EvalError("list elements must be comparable")

    def order(left: int, right: int) -> int:
        if any(RUNTIME_TYPES[type(keys[index])] is not first for index in (left, right)):
            raise EvalError("list elements must have the same type")
        try:
            return compare(keys[left], keys[right])
        except EvalError:
            return 0

    return [values[index] for index in sorted(range(len(values)), key=cmp_to_key(order))]


def _range(count: int) -> list[int]:
    if count < 0:
        raise EvalError(f"lists.range: size must be non-negative, got {count}")
    return list(range(count))


def _distinct(values: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for value in values:
        if not any(equal(value, other) is True for other in unique):
            unique.append(value)
    return unique


def _is_sorted(values: Sequence[Any]) -> bool:
    for left, right in pairwise(values):
        try:
            if compare(left, right) > 0:
                return False
        except EvalError:
            continue  # values that do not compare are not out of order
    return True


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def summed(values: list[Any]) -> Any:
        total = zero
        for value in values:
            total = add(total, value)
        return total

    return summed


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def found(values: list[Any]) -> Any:
        if not values:
            raise EvalError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            try:
                if compare(best, value) == sign:
                    best = value
            except EvalError:
                continue
        return best

    return found


def _index_of(values: list[Any], element: Any) -> int:
    return next((index for index, value in enumerate(values) if equal(value, element) is True), -1)


def _last_index_of(values: list[Any], element: Any) -> int:
    indices = range(len(values) - 1, -1, -1)
    return next((index for index in indices if equal(values[index], element) is True), -1)


def _includes(target: Any, element: Any) -> bool:
    if isinstance(target, list):
        return any(equal(value, element) is True for value in target)
    return equal(target, element) is True


def _sets_contain(values: list[Any], part: list[Any]) -> bool:
    return all(contains(values, element) for element in part)


def _member(name: str, *overloads: tuple[str, tuple[Type, ...], Type, Callable[..., Any]]) -> Function:
    return Function(
        name,
        tuple(Overload(id, parameters, result, True, call) for id, parameters, result, call in overloads),
    )


def _each(
    name: str,
    id: str,
    result: Callable[[Type], Type],
    call: Callable[[str], Callable[..., Any]],
    kinds: Sequence[tuple[str, Type]] = _COMPARABLE,
) -> Function:
    return _member(
        name,
        *((id.format(short), (types.list_of(kind),), result(kind), call(short)) for short, kind in kinds),
    )


_ANY_LIST: Final = frozenset(LISTS)

LISTS_EXTENSION: Final = library(
    _member("slice", ("list_slice", (_LIST, _I, _I), _LIST, _slice)),
    Function(
        "flatten",
        (
            Overload("list_flatten", (types.list_of(_LIST),), _LIST, True, _flatten),
            Overload("list_flatten_int", (_DYNAMIC, _I), _DYNAMIC, True, _flatten),
        ),
        guarded=False,
    ),
    Function(
        "sort",
        tuple(
            Overload(f"list_{kind.name}_sort", (types.list_of(kind),), types.list_of(kind), True)
            for _, kind in _COMPARABLE
        ),
        _sort,
        _ANY_LIST,
    ),
    Function(
        "@sortByAssociatedKeys",
        tuple(
            Overload(f"list_{kind.name}_sortByAssociatedKeys", (_LIST, types.list_of(kind)), _LIST, True)
            for _, kind in _COMPARABLE
        ),
        _sort_by_keys,
        _ANY_LIST,
    ),
    Function("lists.range", (Overload("lists_range", (_I,), types.list_of(_I), call=_range),)),
    _member("reverse", ("list_reverse", (_LIST,), _LIST, lambda values: values[::-1])),
    _member("distinct", ("list_distinct", (_LIST,), _LIST, _distinct)),
)
"""The list extension of cel-go."""

KUBERNETES_LISTS: Final = library(
    _each("isSorted", "list_{}_is_sorted_bool", lambda kind: types.BOOL, lambda short: _is_sorted),
    _each(
        "sum",
        "list_{0}_sum_{0}",
        lambda kind: kind,
        lambda short: _sum(_ZEROS[short]),
        [row for row in _COMPARABLE if row[0] in _ZEROS],
    ),
    _each("max", "list_{0}_max_{0}", lambda kind: kind, lambda short: _extreme("max", -1)),
    _each("min", "list_{0}_min_{0}", lambda kind: kind, lambda short: _extreme("min", 1)),
    _member("indexOf", ("list_a_index_of_int", (_LIST_A, _A), _I, _index_of)),
    _member("lastIndexOf", ("list_a_last_index_of_int", (_LIST_A, _A), _I, _last_index_of)),
)
"""The list functions of Kubernetes, version 0."""

INCLUDES: Final = library(
    _member("includes", ("list_includes_dyn_dyn", (types.DYN, types.DYN), types.BOOL, _includes))
)
"""`includes`, version 1 of the list functions of Kubernetes."""

SETS: Final = library(
    Function(
        "sets.contains",
        (Overload("list_sets_contains_list", (_LIST, _LIST), types.BOOL, call=_sets_contain),),
    ),
    Function(
        "sets.equivalent",
        (
            Overload(
                "list_sets_equivalent_list",
                (_LIST, _LIST),
                types.BOOL,
                call=lambda left, right: _sets_contain(left, right) and _sets_contain(right, left),
            ),
        ),
    ),
    Function(
        "sets.intersects",
        (
            Overload(
                "list_sets_intersects_list",
                (_LIST, _LIST),
                types.BOOL,
                call=lambda left, right: any(contains(right, element) for element in left),
            ),
        ),
    ),
)
"""Functions of lists as sets."""
