"""Finds the types of all parts of an expression and what its names and calls mean (cel-go `checker`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from . import types, unify
from .ast import (
    Call,
    Comprehension,
    Entry,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Positions,
    Select,
    StructExpr,
    qualified_name,
)
from .declarations import Function
from .errors import CompileError
from .source import Source
from .types import Kind, Type
from .values import RUNTIME_TYPES

_MESSAGES: Final = frozenset(
    (
        "Any", "BoolValue", "BytesValue", "DoubleValue", "Duration", "FloatValue", "Int32Value", "Int64Value",
        "ListValue", "StringValue", "Struct", "Timestamp", "UInt32Value", "UInt64Value", "Value",
    )
)  # fmt: skip
_COMPARES: Final = ("_&&_", "_||_")

# The types of the Kubernetes provider that the checker knows by these names, too, but the evaluation does not.
PROVIDED: Final = {"duration": types.DURATION, "timestamp": types.TIMESTAMP}


@dataclass(frozen=True)
class Names:
    """What an expression may refer to.

    `structs` are object types by name with their fields; `type_names` are names of other types.
    """

    variables: Mapping[str, Type]
    functions: Mapping[str, Function]
    structs: Mapping[str, Mapping[str, Type]]
    type_names: Mapping[str, Type]


@dataclass
class Checked:
    """An expression with the type of each node and the overloads of each call, by id."""

    expr: Expr
    type_of: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, tuple[str, ...]] = field(default_factory=dict)
    type_names: dict[int, str] = field(default_factory=dict)

    @property
    def output(self) -> Type:
        """The type of the whole."""
        return self.type_of[self.expr.id]


def check(expr: Expr, source: Source, positions: Positions, names: Names) -> Checked:
    """Check an expression; problems are reported to the source."""
    checker = _Checker(expr, source, positions, names)
    checker.check(expr)
    for id, kind in checker.found.type_of.items():
        checker.found.type_of[id] = unify.substitute(checker.mapping, kind, free_to_dyn=True)
    return checker.found


class _Checker:
    def __init__(self, expr: Expr, source: Source, positions: Positions, names: Names) -> None:
        self.found = Checked(expr)
        self.mapping: unify.Mapping = {}
        self._source = source
        self._positions = positions
        self._names = names
        self._scopes: list[dict[str, Type]] = []
        self._free = 0
        self._checks: Final[dict[type, Any]] = {
            Literal: self._literal,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            ListExpr: self._list,
            MapExpr: self._map,
            StructExpr: self._struct,
            Comprehension: self._comprehension,
        }

    def check(self, node: Expr) -> Type:
        """The type of a node."""
        check = self._checks.get(type(node))
        if check is None:
            self._report(node.id, "unexpected unspecified type: expr")
            kind = types.ERROR
        else:
            kind = check(node)
        self.found.type_of[node.id] = kind
        return kind

    def _report(self, id: int, message: str) -> None:
        self._source.report(self._positions.location(id), message)

    def _undeclared(self, node: Expr, name: str) -> Type:
        self._report(node.id, f"undeclared reference to '{name}' (in container '')")
        return types.ERROR

    def _substitute(self, kind: Type) -> Type:
        return unify.substitute(self.mapping, kind)

    def _assignable(self, left: Type, right: Type) -> bool:
        mapping = unify.assignable(self.mapping, (left,), (right,))
        if mapping is None:
            return False
        self.mapping = mapping
        return True

    def _fresh(self) -> Type:
        kind = types.parameter(f"_var{self._free}")
        self._free += 1
        return kind

    def _literal(self, node: Literal) -> Type:
        return RUNTIME_TYPES[type(node.value)]

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _global(self, name: str) -> Type | None:
        if name not in self._names.type_names:
            _refuse_message(name)
        found = self._names.variables.get(name)
        if found is None:
            named = self._names.type_names.get(name)
            if named is not None:
                return types.type_of(named)
            if name in self._names.structs:
                return types.type_of(_struct_type(name))
        return found

    def _ident(self, node: Ident) -> Type:
        name = node.name.removeprefix(".")
        local = self._local(node.name)
        if local is not None:
            return local
        kind = self._global(name)
        if kind is None:
            return self._undeclared(node, node.name)
        if node.name != name and self._local(name) is None:
            node.name = name
        if kind.kind is Kind.TYPE:
            self.found.type_names[node.id] = name
        return kind

    def _select(self, node: Select) -> Type:
        parts = qualified_name(node)
        if parts is not None and self._local(parts[0]) is None:
            name = ".".join(parts).removeprefix(".")
            kind = self._global(name)
            if kind is not None:
                node.resolved = name
                if kind.kind is Kind.TYPE:
                    self.found.type_names[node.id] = name
                return kind
        result = self._field(node, node.operand, node.field, optional=False)
        return types.BOOL if node.test_only else self._substitute(result)

    def _field(self, node: Expr, operand: Expr, name: str, *, optional: bool) -> Type:
        target, unwrapped = types.unwrap_optional(self._substitute(self.check(operand)))
        result = types.ERROR
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif target.kind is Kind.STRUCT:
            result = self._struct_field(node.id, target.name, name) or types.ERROR
        elif target.kind is Kind.TYPE_PARAM:
            self._assignable(types.DYN, target)
            result = types.DYN
        else:
            if not types.is_dyn_or_error(target):
                self._report(node.id, f"type '{target.text}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if unwrapped or optional else result

    def _struct_field(self, id: int, struct: str, name: str) -> Type | None:
        fields = self._names.structs.get(struct)
        if fields is None and struct in self._names.type_names:
            fields = {}
        if fields is None:
            self._report(id, f"unexpected failed resolution of '{struct}'")
            return None
        found = fields.get(name)
        if found is None:
            self._report(id, f"undefined field '{name}'")
        return found

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            result = self._field(node, node.args[0], node.args[1].value, optional=True)  # type: ignore[attr-defined]
            self.found.overloads[node.id] = ("select_optional_field",)
            return self._substitute(result)
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            function = self._names.functions.get(node.function.removeprefix("."))
            if function is None:
                return self._undeclared(node, node.function)
            node.function = function.name
            return self._resolve(node, function)
        prefix = qualified_name(node.target)
        if prefix is not None:
            function = self._names.functions.get(".".join([*prefix, node.function]).removeprefix("."))
            if function is not None:
                node.target = None
                node.function = function.name
                return self._resolve(node, function)
        self.check(node.target)
        function = self._names.functions.get(node.function.removeprefix("."))
        if function is None:
            return self._undeclared(node, node.function)
        return self._resolve(node, function)

    def _resolve(self, node: Call, function: Function) -> Type:
        nodes = node.args if node.target is None else (node.target, *node.args)
        args = [self.found.type_of[each.id] for each in nodes]
        if function.name in _COMPARES:
            return self._resolve_logical(node, function, args)
        result: Type | None = None
        matching: list[str] = []
        for overload in function.overloads:
            if overload.member is (node.target is None):
                continue
            parameters, returned = overload.parameters, overload.result
            if overload.type_parameters:
                fresh = {name: self._fresh() for name in overload.type_parameters}
                parameters = tuple(unify.substitute(fresh, each) for each in parameters)
                returned = unify.substitute(fresh, returned)
            mapping = unify.assignable(self.mapping, args, parameters)
            if mapping is None:
                continue
            self.mapping = mapping
            matching.append(overload.id)
            returned = self._substitute(returned)
            if result is None:
                result = returned
            elif not types.is_dyn(result) and not returned.same(result):
                result = types.DYN
        if result is None:
            shown = [unify.substitute(self.mapping, each, free_to_dyn=True).text for each in args]
            receiver = "" if node.target is None else shown.pop(0) + "."
            self._report(
                node.id,
                f"found no matching overload for '{function.name}' applied to '{receiver}({', '.join(shown)})'",
            )
            return types.ERROR
        self.found.overloads[node.id] = tuple(matching)
        return result

    def _resolve_logical(self, node: Call, function: Function, args: list[Type]) -> Type:
        correct = True
        for arg, kind in zip(node.args, args, strict=True):
            if not self._assignable(kind, types.BOOL):
                self._mismatch(arg, types.BOOL, kind)
                correct = False
        if not correct:
            return types.ERROR
        self.found.overloads[node.id] = (function.overloads[0].id,)
        return types.BOOL

    def _mismatch(self, node: Expr, expected: Type, found: Type) -> None:
        self._report(node.id, f"expected type '{expected.text}' but found '{found.text}'")

    def _join(self, previous: Type | None, current: Type) -> Type:
        """The common type of elements."""
        if previous is None:
            return current
        if self._assignable(previous, current):
            return unify.most_general(previous, current)
        return types.DYN

    def _unwrapped(self, node: Expr, kind: Type) -> Type:
        inner, optional = types.unwrap_optional(kind)
        if not optional and not types.is_dyn(inner):
            self._mismatch(node, types.optional_of(inner), inner)
        return inner

    def _list(self, node: ListExpr) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            kind = self.check(element)
            if index in node.optionals:
                kind = self._unwrapped(element, kind)
            joined = self._join(joined, kind)
        return types.list_of(joined if joined is not None else self._fresh())

    def _map(self, node: MapExpr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self.check(entry.key))
            kind = self.check(entry.value)
            if entry.optional:
                kind = self._unwrapped(entry.value, kind)
            values = self._join(values, kind)
        if keys is None or values is None:
            keys, values = self._fresh(), self._fresh()
        return types.map_of(keys, values)

    def _struct(self, node: StructExpr) -> Type:
        name = node.name.removeprefix(".")
        _refuse_message(name)
        named = self._names.type_names.get(name)
        if named is None and name not in self._names.structs:
            return self._undeclared(node, node.name)
        node.name = name
        result = _struct_type(name)
        if named is not None:
            self._report(node.id, f"'{named.name}' is not a message type")
            result = types.ERROR
        for entry in node.entries:
            self._struct_entry(name, entry)
        return result

    def _struct_entry(self, struct: str, entry: Entry) -> None:
        kind = self.check(entry.value)
        expected = self._struct_field(entry.id, struct, entry.key) or types.ERROR
        if entry.optional:
            kind = self._unwrapped(entry.value, kind)
        if not self._assignable(expected, kind):
            self._report(
                entry.id,
                f"expected type of field '{entry.key}' is '{expected.text}' but provided type is '{kind.text}'",
            )

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._substitute(self.check(node.range))
        accu = self.check(node.accu_init)
        over = self._substitute(over)
        first, second = self._iterated(node, over)
        self._scopes.append({node.accu_var: accu})
        inner = {node.iter_var: first}
        if node.iter_var2:
            inner[node.iter_var2] = second
        self._scopes.append(inner)
        condition = self.check(node.condition)
        if not self._assignable(types.BOOL, condition):
            self._mismatch(node.condition, types.BOOL, condition)
        step = self.check(node.step)
        if not self._assignable(accu, step):
            self._mismatch(node.step, accu, step)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self._substitute(result)

    def _iterated(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of the loop variables."""
        if over.kind is Kind.LIST:
            element = over.parameters[0]
            return (types.INT, element) if node.iter_var2 else (element, types.DYN)
        if over.kind is Kind.MAP:
            return over.parameters[0], over.parameters[1]
        if over.kind in (Kind.DYN, Kind.ERROR, Kind.TYPE_PARAM):
            self._assignable(types.DYN, over)
            return types.DYN, types.DYN
        self._report(
            node.range.id,
            f"expression of type '{over.text}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR


def _struct_type(name: str) -> Type:
    return PROVIDED.get(name) or types.struct(name)


def _refuse_message(name: str) -> None:
    """Protobuf messages as such are not supported, which must not look like an unknown name."""
    prefix, dot, message = name.rpartition(".")
    if dot and prefix == "google.protobuf" and message in _MESSAGES:
        raise CompileError(
            f"expressions with the message type {name} are not supported by drakit", "Internal"
        )
