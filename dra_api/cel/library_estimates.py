"""Estimated costs of library functions (apiserver `pkg/cel/library/cost.go`, cel-go `ext`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from .ast import Expr, Literal
from .device_sizes import size_of
from .estimates import MAX, ONE, UNKNOWN, CallEstimate, Range, fixed
from .types import Kind, Type
from .values import QUANTITY, SEMVER

_STRING: Final = 0.1
_REGEX: Final = 0.25
_LIST_COST: Final = fixed(10)
_LONGEST_NAME_PATTERN: Final = 128
_LONGEST_FORMAT: Final = 64
_AUTHORIZATION: Final = frozenset(
    (
        "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason",
        "error", "errored",
    )
)  # fmt: skip
_NOMINAL: Final = _AUTHORIZATION | frozenset(
    (
        "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
        "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
        "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
        "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery",
    )
)  # fmt: skip
_LIST_FUNCTIONS: Final = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"))
_PARSED: Final = frozenset(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"))


@dataclass(frozen=True)
class Node:
    """A part of an expression for estimates; `size` is what is known from the expression itself."""

    expr: Expr | None
    path: tuple[str, ...] | None
    type: Type
    size: Range | None

    @property
    def size_or_unknown(self) -> Range:
        """The size as far as it is known."""
        return UNKNOWN if self.size is None else self.size

    @property
    def bounded(self) -> Range:
        """The size, also from the limits of the API."""
        if self.size is not None:
            return self.size
        return size_of(self.path) or UNKNOWN


def estimate(function: str, overload: str, target: Node | None, args: Sequence[Node]) -> CallEstimate | None:
    """The estimate for a call without its arguments, None for functions that are not from a library."""
    found = _extension(overload, target, args)
    if found is not None:
        return found
    if function in _NOMINAL:
        return CallEstimate(ONE)
    if function == "_==_":
        return _equality(args)
    if target is not None and function in _MEMBERS:
        return _MEMBERS[function](function, overload, target, args)
    return _global(function, overload, args)


def _literal(node: Node, default: int) -> int:
    """A constant int, negative ones as 0."""
    if isinstance(node.expr, Literal) and type(node.expr.value) is int:
        return max(node.expr.value, 0)
    return default


def _allocating(factor: float, size: Range) -> CallEstimate:
    return CallEstimate(size.scaled(factor).plus(ONE).plus(_LIST_COST), size)


def _extension(overload: str, target: Node | None, args: Sequence[Node]) -> CallEstimate | None:
    """Lists and sets of cel-go."""
    if overload.startswith("list_sets_") and len(args) == 2:
        factor = 2.0 if overload == "list_sets_equivalent_list" else 1.0
        return CallEstimate(args[0].bounded.times(args[1].bounded).scaled(factor).plus(ONE))
    if overload == "lists_range":
        return _allocating(1.0, fixed(_literal(args[0], MAX)))
    if target is None:
        return None
    size = target.bounded
    if overload == "list_slice":
        length = (_literal(args[1], size.high) - _literal(args[0], 0)) % (MAX + 1)
        return _allocating(1.0, fixed(length))
    if overload == "list_reverse":
        return _allocating(1.0, size)
    if overload in ("list_flatten", "list_flatten_int"):
        return _allocating(float(_literal(args[0], MAX) if args else 1), size)
    if overload == "list_distinct":
        return _allocating(2.0, size.times(size))
    for suffix, node in (("_sort", target), ("_sortByAssociatedKeys", args[0] if args else target)):
        if overload.startswith("list_") and overload.endswith(suffix):
            kind = overload.removeprefix("list_").removesuffix(suffix)
            factor = 2.0 + (_STRING if kind in ("string", "bytes") else 0.0)
            size = node.bounded
            return _allocating(factor, size.times(size))
    return None


def _element(node: Node) -> Node | None:
    """The elements of a list (or the keys of a map, as upstream has it)."""
    if not node.type.parameters:
        return None
    path = None if node.path is None else (*node.path, "@items")
    return Node(None, path, node.type.parameters[0], None)


def _traversal(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    size, each, element = target.bounded, ONE, _element(target)
    if element is not None:
        if element.type.kind in (Kind.STRING, Kind.BYTES):
            each = each.plus(element.bounded.scaled(_STRING))
        return CallEstimate(size.times(each))
    if function == "includes":
        return CallEstimate(size.times(each))
    return CallEstimate(size.scaled(_STRING))


def _same_size(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    size = target.bounded
    return CallEstimate(size.scaled(_STRING), size)


def _replace(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    size, old, new = target.bounded, args[0].bounded, args[1].bounded
    if old.low == 0:
        most, kept_most = min(size.high + 1, MAX), size.high
    elif new.high <= old.low:
        most, kept_most = 0, size.high
    else:
        most, kept_most = _quotient(size.high, old.low), 0
    if old.high == 0:
        least, kept_least = min(size.low + 1, MAX), size.low
    elif old.high <= new.low:
        least, kept_least = 0, size.low
    else:
        least, kept_least = _quotient(size.low, old.high), 0
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return CallEstimate(size.scaled(2 * _STRING), result)


def _quotient(number: int, divisor: int) -> int:
    return min(ceil(float(number) / float(divisor)), MAX)


def _split(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    size = target.bounded
    most = size.high
    if len(args) > 1 and isinstance(args[1].expr, Literal) and type(args[1].expr.value) is int:
        most = args[1].expr.value % (MAX + 1)
    return CallEstimate(size.scaled(2 * _STRING), Range(0, most))


def _join(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    count, element, size = target.bounded, _element(target), Range(0, 0)
    if element is not None:
        size = count.times(element.bounded)
    if args:
        separators = Range(max(count.low - 1, 0), max(count.high - 1, 0))
        size = size.plus(args[0].bounded.times(separators))
    return CallEstimate(size.scaled(_STRING), size)


def _find(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    size = target.bounded
    cost = size.plus(ONE).scaled(_STRING).times(args[0].bounded.scaled(_REGEX))
    return CallEstimate(cost, Range(0, size.high))


def _contains(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    length = Range(4, 16)
    cost = length.plus(length).scaled(_STRING)
    if function == "containsCIDR":
        cost = cost.plus(length.scaled(_STRING)).plus(ONE)
    if overload.endswith("_string"):
        cost = cost.plus(args[0].bounded.scaled(_STRING))
    return CallEstimate(cost)


def _validate(function: str, overload: str, target: Node, args: Sequence[Node]) -> CallEstimate:
    return CallEstimate(args[0].bounded.scaled(_STRING).scaled(_LONGEST_NAME_PATTERN * _REGEX))


_MEMBERS: Final = {
    **dict.fromkeys(_LIST_FUNCTIONS, _traversal),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _contains,
    "containsCIDR": _contains,
    "validate": _validate,
}


def _global(function: str, overload: str, args: Sequence[Node]) -> CallEstimate | None:
    if function == "ip" and overload == "cidr_ip":
        return CallEstimate(ONE)
    if not args:
        return None
    size = args[0].bounded
    if function == "url":
        return CallEstimate(size.scaled(_STRING), size)
    if function in _PARSED or function == "ip":
        return CallEstimate(size.scaled(_STRING))
    if function == "ip.isCanonical":
        return CallEstimate(size.scaled(2 * _STRING))
    return None


def _equality(args: Sequence[Node]) -> CallEstimate | None:
    """Comparison of Kubernetes values of the same type."""
    if len(args) != 2 or args[0].type.name != args[1].type.name:
        return None
    kind = args[0].type
    if kind.kind is Kind.OPAQUE and kind.name in ("net.IP", "net.CIDR"):
        return CallEstimate(ONE)
    if kind.kind is Kind.STRUCT:
        return _struct_equality(kind, args[1])
    return None


def _struct_equality(kind: Type, right: Node) -> CallEstimate | None:
    if kind is QUANTITY or kind is SEMVER:
        return CallEstimate(ONE)
    if kind.name == "kubernetes.NamedFormat":
        return CallEstimate(Range(1, _LONGEST_FORMAT).scaled(_STRING))
    if kind.name == "kubernetes.URL":
        most = 1 if right.size is None else right.size.high
        return CallEstimate(Range(1, most).scaled(_STRING))
    return None
