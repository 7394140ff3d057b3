"""Actual costs of calls (cel-go `runtimecost.go`, apiserver `pkg/cel/library/cost.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from .values import MISSING, CelMap, OptionalValue, size

STRING_FACTOR: Final = 0.1
REGEX_FACTOR: Final = 0.25

_TRAVERSALS: Final = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"))
_ONE_PASS: Final = frozenset(
    (
        "url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey", "cidr", "isIP", "isCIDR",
        "quantity", "isQuantity", "semver", "isSemver",
    )
)  # fmt: skip
_NOMINAL: Final = frozenset(
    (
        "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
        "error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback",
        "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger",
        "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
        "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    )
)  # fmt: skip
UNIT_EQUALITY: Final[set[type]] = set()
"""Classes of Kubernetes values, the comparison of which costs 1; libraries add theirs."""


def passes(length: int, factor: float = STRING_FACTOR) -> int:
    """The cost of going through a string."""
    return ceil(float(length) * factor)


def call_cost(function: str, overload: str, args: Sequence[Any], result: Any) -> int:
    """The cost of one call."""
    cost = _extension_cost(overload, args, result)
    if cost is not None:
        return cost
    cost = _library_cost(function, overload, args, result)
    return _standard_cost(overload, args) if cost is None else cost


_SETS: Final = {"list_sets_contains_list": 1, "list_sets_intersects_list": 1, "list_sets_equivalent_list": 2}
LIST_COST: Final = 10
"""The cost of making a list."""
# A requirement of a selector is two characters at least; it costs a list and a struct.
_REQUIREMENT_COST: Final = 50
CHECK_COST: Final = 350_000
"""The cost of asking the authorizer."""


def _extension_cost(overload: str, args: Sequence[Any], result: Any) -> int | None:
    """Costs that the extensions of cel-go bring themselves."""
    factor = _SETS.get(overload)
    if factor is not None:
        return 1 + size(args[0]) * size(args[1]) * factor
    if overload in ("list_slice", "lists_range", "list_reverse"):
        return size(result) + 1 + LIST_COST
    if overload in ("list_flatten", "list_flatten_int"):
        depth = args[1] if len(args) == 2 and type(args[1]) is int else 1
        return int(float(size(args[0])) * (float(depth) if depth >= 0 else 1.0)) + 1 + LIST_COST
    if overload == "list_distinct" or overload.endswith("_sort"):
        return _self_comparison(args[0])
    return _self_comparison(args[1]) if overload.endswith("_sortByAssociatedKeys") else None


def _self_comparison(values: Any) -> int:
    length = size(values)
    factor = 2.0
    if length and isinstance(values, list) and type(values[0]) in (str, bytes):
        factor += STRING_FACTOR
    return int(float(length * length) * factor) + 1 + LIST_COST


def _library_cost(function: str, overload: str, args: Sequence[Any], result: Any) -> int | None:
    if function == "check":
        return CHECK_COST
    if function in _NOMINAL:
        return 1
    if function in _TRAVERSALS:
        return _traversal(args[0]) if args else 0
    if not args:
        return None
    if function in _ONE_PASS:
        return passes(size(args[0]))
    if function in ("replace", "split", "ip.isCanonical"):
        return passes(size(args[0]), 2 * STRING_FACTOR)
    if function == "join":
        return passes(size(result), 2 * STRING_FACTOR)
    if function == "ip":
        return 1 if overload == "cidr_ip" else passes(size(args[0]))
    if len(args) < 2:
        return None
    if function in ("fieldSelector", "labelSelector"):
        length = size(args[1])
        return LIST_COST + passes(length) + ceil(length / 2) * _REQUIREMENT_COST
    if function in ("find", "findAll"):
        return _regex(size(args[0]), size(args[1]))
    if function in ("containsIP", "containsCIDR"):
        base = size(args[0])
        cost = passes(base + base)
        if function == "containsCIDR":
            cost += passes(base) + 1
        if overload.endswith("_string"):
            cost += passes(size(args[1]))
        return cost
    if function == "validate":
        longest = getattr(args[0], "max_regex_size", None)
        return None if longest is None else _regex(size(args[1]), longest)
    if function == "_==_" and type(args[0]) in UNIT_EQUALITY:
        return 1
    return None


def _regex(text: int, pattern: int) -> int:
    return ceil((1.0 + float(text)) * STRING_FACTOR) * ceil(float(pattern) * REGEX_FACTOR)


_COMPARED: Final = frozenset(
    (
        "less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes",
        "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
    )
)  # fmt: skip


def _standard_cost(overload: str, args: Sequence[Any]) -> int:
    if overload in _COMPARED:
        return passes(min(_size(args[0]), _size(args[1])))
    if overload in ("starts_with_string", "ends_with_string"):
        return passes(_size(args[1]))
    if overload in ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"):
        return passes(_size(args[0]))
    if overload == "in_list":
        return _size(args[1])
    if overload in ("add_string", "add_bytes"):
        return passes(_size(args[0]) + _size(args[1]))
    if overload in ("matches", "matches_string"):
        return _regex(_size(args[0]), _size(args[1]))
    if overload == "contains_string":
        return passes(_size(args[0])) * passes(_size(args[1]))
    return 1


def _size(value: Any) -> int:
    """The size for standard functions, which look into optionals."""
    if type(value) is OptionalValue and value.value is not MISSING:
        return _size(value.value)
    return size(value)


def _traversal(value: Any) -> int:
    """The cost of going through a value with all that is in it."""
    if type(value) is str:
        return int(float(len(value.encode("utf-8", "surrogatepass"))) * STRING_FACTOR)
    if type(value) is bytes:
        return int(float(len(value)) * STRING_FACTOR)
    if isinstance(value, list):
        return sum(_traversal(each) for each in value)
    if isinstance(value, CelMap):
        return sum(_traversal(key) + _traversal(each) for key, each in value.items())
    return 1
