"""The worst cost of an expression before it runs (cel-go `checker/cost.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from .ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from .checker import Checked
from .device_sizes import size_of
from .estimates import MAX, ONE, UNKNOWN, ZERO, CallEstimate, Range, fixed
from .library_estimates import Node, estimate
from .macros import ACCUMULATOR
from .types import ERROR, Kind, Type, unwrap_optional

_SCALARS: Final = frozenset((Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT))
_STRING: Final = 0.1
_REGEX: Final = 0.25
_COMPARED: Final = frozenset(
    (
        "less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes",
        "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals",
    )
)  # fmt: skip


@dataclass(frozen=True)
class _Entries:
    """Sizes of what a list or map contains."""

    kind: Kind
    key: Range
    value: Range


@dataclass(frozen=True)
class _Local:
    """A variable of a loop."""

    path: tuple[str, ...]
    size: Range | None
    entries: _Entries | None


def worst_cost(checked: Checked) -> int:
    """The upper bound of the cost."""
    return _Coster(checked).cost(checked.expr).high


class _Coster:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._paths: dict[int, tuple[str, ...]] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._costs: Final[dict[type, Any]] = {
            Literal: lambda node: ZERO,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            ListExpr: self._list,
            MapExpr: self._map,
            StructExpr: self._struct,
            Comprehension: self._comprehension,
        }

    def cost(self, node: Expr) -> Range:
        """The cost of a node with all below it."""
        found: Range = self._costs[type(node)](node)
        return found

    def _type(self, node: Expr) -> Type:
        # The name in an optional selection has no type.
        return self._checked.type_of.get(node.id, ERROR)

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _path(self, node: Expr) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(node.id, ())

    def _node(self, node: Expr) -> Node:
        path: tuple[str, ...] | None = self._path(node)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = None
        return Node(node, path, self._type(node), self._size(node))

    def _size(self, node: Expr) -> Range | None:
        known = self._sizes.get(node.id)
        if known is not None:
            return known
        literal = _literal_size(node)
        if literal is not None:
            return fixed(literal)
        known = size_of(self._path(node))
        if known is not None:
            self._sizes[node.id] = known
            return known
        if _is_scalar(self._type(node)):
            return ONE
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.size
        return None

    def _size_or_unknown(self, node: Expr) -> Range:
        found = self._size(node)
        return UNKNOWN if found is None else found

    def _entry_sizes(self, node: Expr) -> _Entries | None:
        found = self._entries.get(node.id)
        if found is None and isinstance(node, Ident):
            local = self._local(node.name)
            return None if local is None else local.entries
        return found

    def _set(self, node: Expr, size: Range | None, entries: _Entries | None = None) -> None:
        if size is not None:
            self._sizes[node.id] = size
        if entries is not None:
            self._entries[node.id] = entries

    def _ident(self, node: Ident) -> Range:
        local = self._local(node.name)
        self._paths[node.id] = (node.name,) if local is None else local.path
        return ONE

    def _select(self, node: Select) -> Range:
        if node.resolved is not None:
            self._paths[node.id] = (node.resolved,)
            return ONE
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        if self._type(node.operand).kind in (Kind.MAP, Kind.STRUCT, Kind.TYPE_PARAM):
            cost = cost.plus(ONE)
        self._paths[node.id] = (*self._path(node.operand), node.field)
        return cost

    def _list(self, node: ListExpr) -> Range:
        total, size = ZERO, Range(MAX if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus(self.cost(element))
            size = size.union(self._size_or_unknown(element))
        self._set(node, None, _Entries(Kind.LIST, ONE, size))
        return total.plus(fixed(10))

    def _map(self, node: MapExpr) -> Range:
        least = MAX if node.entries else 0
        total, keys, values = ZERO, Range(least, 0), Range(least, 0)
        for entry in node.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self._set(node, None, _Entries(Kind.MAP, keys, values))
        return total.plus(fixed(30))

    def _struct(self, node: StructExpr) -> Range:
        total = ZERO
        for entry in node.entries:
            total = total.plus(self.cost(entry.value))
        return total.plus(fixed(40))

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]).plus(ONE)
            self._set(node, self._size(node.args[0]), self._entry_sizes(node.args[0]))
            return cost
        args: list[Node] = []
        arguments = ZERO
        costs: list[Range] = []
        for arg in node.args:
            costs.append(self.cost(arg))
            args.append(self._node(arg))
            arguments = arguments.plus(costs[-1])
        overloads = self._checked.overloads.get(node.id, ())
        if not overloads:
            return ZERO
        total, target = ZERO, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._node(node.target)
        found, size = Range(MAX, 0), None
        for overload in overloads:
            estimated = self._overload(node, overload, target, args, costs, arguments)
            found = found.union(estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else size.union(estimated.size)
            if overload in ("index_list", "index_map") and node.args:
                entries = self._entry_sizes(node.args[0])
                size = None if entries is None else entries.value
                part = "@items" if overload == "index_list" else "@values"
                self._paths[node.id] = (*self._path(node.args[0]), part)
            if size is None:
                size = self._size(node)
        self._set(node, size)
        return total.plus(found)

    def _overload(
        self,
        node: Call,
        overload: str,
        target: Node | None,
        args: Sequence[Node],
        costs: Sequence[Range],
        arguments: Range,
    ) -> CallEstimate:
        found = estimate(node.function, overload, target, args)
        if found is None:
            found = self._standard(node, overload, target, args)
        if found is not None:
            return CallEstimate(found.cost.plus(arguments), found.size)
        if overload in ("logical_or", "logical_and"):
            return CallEstimate(Range(costs[0].low, costs[0].plus(costs[1]).high))
        if overload == "conditional":
            return self._conditional(node, args, costs)
        return CallEstimate(arguments.plus(ONE))

    def _conditional(self, node: Call, args: Sequence[Node], costs: Sequence[Range]) -> CallEstimate:
        size = args[1].size_or_unknown.union(args[2].size_or_unknown)
        self._set(
            node, None, _union(*(self._entry_sizes(arg.expr) for arg in args[1:] if arg.expr is not None))
        )
        return CallEstimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _standard(
        self, node: Call, overload: str, target: Node | None, args: Sequence[Node]
    ) -> CallEstimate | None:
        """The cost of standard functions that look at their arguments."""
        sizes = [arg.size_or_unknown for arg in args]
        if overload == "string_format" and target is not None:
            return CallEstimate(target.size_or_unknown.scaled(_STRING))
        if overload == "string_to_bytes":
            # Each character may take four bytes; upstream lets this overflow.
            return CallEstimate(sizes[0].scaled(_STRING), Range(sizes[0].low, sizes[0].high * 4 % (MAX + 1)))
        if overload == "bytes_to_string":
            return CallEstimate(sizes[0].scaled(_STRING), Range(sizes[0].low // 4, sizes[0].high))
        if overload == "strings_quote":
            most = (sizes[0].high * 2 + 2) % (MAX + 1)
            return CallEstimate(sizes[0].scaled(_STRING), Range((sizes[0].low + 2) % (MAX + 1), most))
        if overload in ("starts_with_string", "ends_with_string"):
            return CallEstimate(sizes[0].scaled(_STRING))
        if overload == "in_list":
            return CallEstimate(sizes[1].scaled(1.0))
        if overload in ("matches", "matches_string"):
            text = sizes[0] if target is None else target.size_or_unknown
            return CallEstimate(text.plus(ONE).scaled(_STRING).times(sizes[-1].scaled(_REGEX)))
        if overload == "contains_string" and target is not None:
            return CallEstimate(target.size_or_unknown.scaled(_STRING).times(sizes[0].scaled(_STRING)))
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._addition(node, overload, sizes)
        if overload in _COMPARED:
            most = min(sizes[0].high, sizes[1].high)
            return CallEstimate(Range(1 if most > 0 else 0, most).scaled(_STRING))
        return None

    def _addition(self, node: Call, overload: str, sizes: Sequence[Range]) -> CallEstimate:
        total = sizes[0].plus(sizes[1])
        self._set(node, None, _union(*(self._entry_sizes(arg) for arg in node.args)))
        return CallEstimate(ONE if overload == "add_list" else total.scaled(_STRING), total)

    def _comprehension(self, node: Comprehension) -> Range:
        if _is_binding(node):
            return self._binding(node)
        total = self.cost(node.range).plus(self.cost(node.accu_init))
        self._push(node.accu_var, self._of(node.accu_init))
        names = [node.iter_var]
        if node.iter_var2:
            names.append(node.iter_var2)
            self._push(node.iter_var, self._element(node.range, keys=True))
            self._push(node.iter_var2, self._element(node.range, keys=False))
        else:
            self._push(node.iter_var, self._single(node.range))
        each = self.cost(node.condition)
        each = self.cost(node.step).plus(each)
        for name in names:
            self._locals[name].pop()
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        count = self._size_or_unknown(node.range)
        total = total.plus(count.times(each))
        if isinstance(node.accu_init, Literal):
            self._set(node, self._size(node.accu_init))
        elif isinstance(node.accu_init, (ListExpr, MapExpr)):
            self._set(node, count, self._entry_sizes(node.step))
        return total

    def _binding(self, node: Comprehension) -> Range:
        total = self.cost(node.range).plus(self.cost(node.accu_init))
        self._push(node.accu_var, self._of(node.accu_init))
        total = total.plus(self.cost(node.result))
        self._locals[node.accu_var].pop()
        self._set(node, self._size(node.result), self._entry_sizes(node.result))
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _of(self, node: Expr) -> _Local:
        return _Local(self._path(node), self._size(node), self._entry_sizes(node))

    def _kind(self, over: Expr, entries: _Entries | None) -> Kind:
        return self._type(over).kind if entries is None else entries.kind

    def _element(self, over: Expr, *, keys: bool) -> _Local:
        """A variable of a loop with two."""
        entries = self._entry_sizes(over)
        is_list = self._kind(over, entries) is Kind.LIST
        if keys:
            part, size = "@indices" if is_list else "@keys", None if entries is None else entries.key
        else:
            part, size = "@items" if is_list else "@values", None if entries is None else entries.value
        return _Local((*self._path(over), part), size, None)

    def _single(self, over: Expr) -> _Local:
        """The variable of a loop with one: elements of a list or keys of a map."""
        entries = self._entry_sizes(over)
        is_list = self._kind(over, entries) is Kind.LIST
        size = None if entries is None else entries.value if is_list else entries.key
        return _Local((*self._path(over), "@items" if is_list else "@keys"), size, None)


def _union(left: _Entries | None = None, right: _Entries | None = None) -> _Entries | None:
    if left is None or right is None:
        return None
    return _Entries(left.kind, left.key.union(right.key), left.value.union(right.value))


def _literal_size(node: Expr) -> int | None:
    if isinstance(node, Literal):
        return len(node.value) if isinstance(node.value, (str, bytes)) else 1
    if isinstance(node, ListExpr):
        return len(node.elements)
    return len(node.entries) if isinstance(node, MapExpr) else None


def _is_scalar(kind: Type) -> bool:
    inner, optional = unwrap_optional(kind)
    return _is_scalar(inner) if optional else kind.kind in _SCALARS


def _is_binding(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListExpr)
        and not node.range.elements
        and isinstance(node.condition, Literal)
        and node.condition.value is False
        and node.accu_var != "__result__"
    )
