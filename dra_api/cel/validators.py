"""Checks of a type-checked expression that look at constants: literals of one type, patterns, durations, formats.

Source: cel-go `cel/validator.go` and `ext/formatting.go`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .ast import Call, Comprehension, Expr, ListExpr, Literal, MapExpr, Positions, Select, StructExpr
from .checker import Checked
from .errors import EvalError
from .library import regexes
from .library.text_format import ClauseError, parse, refused
from .library.times import parse_duration, parse_timestamp
from .source import Source
from .types import Kind, Type

_CLAUSES: Final = {
    "d": (Kind.INT, Kind.UINT),
    "f": (Kind.DOUBLE, Kind.STRING),
    "e": (Kind.DOUBLE, Kind.STRING),
    "b": (Kind.INT, Kind.UINT, Kind.BOOL),
    "x": (Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES),
    "o": (Kind.INT, Kind.UINT),
    "s": (
        Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES,
        Kind.DURATION, Kind.TYPE, Kind.NULL,
    ),
}  # fmt: skip


def validate(checked: Checked, source: Source, positions: Positions) -> None:
    """Report what is wrong with constants to the source."""
    _Validator(checked, source, positions).visit(checked.expr, exempt=False)


class _Validator:
    def __init__(self, checked: Checked, source: Source, positions: Positions) -> None:
        self._checked = checked
        self._source = source
        self._positions = positions

    def visit(self, node: Expr, *, exempt: bool) -> None:
        """Look at a node and all below; within the arguments of `format` elements may differ in type."""
        if isinstance(node, Call):
            self._call(node)
            exempt = exempt or node.function == "format"
        elif isinstance(node, ListExpr) and not exempt:
            self._list(node)
        elif isinstance(node, MapExpr) and not exempt:
            self._map(node)
        for child in _children(node):
            self.visit(child, exempt=exempt)

    def _report(self, id: int, message: str) -> None:
        self._source.report(self._positions.location(id), message)

    def _type(self, node: Expr) -> Type:
        return self._checked.type_of[node.id]

    def _differ(self, node: Expr, expected: Type, found: Type) -> bool:
        if _equivalent(expected, found):
            return False
        self._report(node.id, f"expected type '{expected.text}' but found '{found.text}'")
        return True

    def _list(self, node: ListExpr) -> None:
        expected: Type | None = None
        for index, element in enumerate(node.elements):
            kind = self._type(element)
            if index in node.optionals:
                kind = kind.parameters[0] if kind.parameters else kind
            if expected is None:
                expected = kind
            elif self._differ(element, expected, kind):
                break

    def _map(self, node: MapExpr) -> None:
        expected: tuple[Type, Type] | None = None
        for entry in node.entries:
            key, value = self._type(entry.key), self._type(entry.value)
            if entry.optional and value.parameters:
                value = value.parameters[0]
            if expected is None:
                expected = key, value
                continue
            self._differ(entry.key, expected[0], key)
            self._differ(entry.value, expected[1], value)

    def _call(self, node: Call) -> None:
        if node.function in ("duration", "timestamp", "matches") and node.args:
            self._constant(node, node.args[0])
        if (
            node.function == "format"
            and isinstance(node.target, Literal)
            and type(node.target.value) is str
            and len(node.args) == 1
            and isinstance(node.args[0], ListExpr)
            and "string_format" in self._checked.overloads.get(node.id, ("string_format",))
        ):
            self._format(node, node.target.value, node.args[0])

    def _constant(self, node: Call, arg: Expr) -> None:
        if not isinstance(arg, Literal):
            return
        value, valid = arg.value, True
        if node.function == "matches":
            valid = regexes.check(value) is None
        elif type(value) is str:
            try:
                parsed = parse_duration(value) if node.function == "duration" else parse_timestamp(value)
            except EvalError:
                parsed = None
            valid = parsed is not None
        elif node.function == "timestamp" and type(value) is int:
            valid = -62135596800 <= value <= 253402300799
        if not valid:
            self._report(arg.id, f"invalid {node.function} argument")

    def _format(self, node: Call, text: str, values: ListExpr) -> None:
        used: list[int] = []

        def check(clause: str, precision: int | None, index: int) -> str:
            used.append(index)
            self._check_clause(clause.lower(), values.elements[index])
            return ""

        try:
            parse(text, len(values.elements), check)
        except EvalError as error:
            id = error.id if isinstance(error, ClauseError) and error.id is not None else node.id
            self._report(id, str(error))
            return
        if len(values.elements) > len(used):
            self._report(
                node.id,
                "too many arguments supplied to string.format "
                f"(expected {len(used)}, got {len(values.elements)})",
            )

    def _check_clause(self, clause: str, node: Expr) -> None:
        kind = self._type(node)
        if kind.kind is not Kind.DYN and kind.kind not in _CLAUSES[clause]:
            raise refused(clause, kind.name, node.id)
        if clause == "s" and isinstance(node, ListExpr):
            for element in node.elements:
                self._check_clause(clause, element)
        elif clause == "s" and isinstance(node, MapExpr):
            for entry in node.entries:
                self._check_clause(clause, entry.key)
                self._check_clause(clause, entry.value)


def _children(node: Expr) -> Iterator[Expr]:
    match node:
        case Select():
            if node.resolved is None:
                yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListExpr():
            yield from node.elements
        case MapExpr():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case StructExpr():
            for entry in node.entries:
                yield entry.value
        case Comprehension():
            yield from (node.range, node.accu_init, node.condition, node.step, node.result)


def _equivalent(left: Type, right: Type) -> bool:
    """Whether types are the same but for the names of type parameters."""
    return left is right or (
        left.kind is right.kind
        and (left.kind is Kind.TYPE_PARAM or left.name == right.name)
        and len(left.parameters) == len(right.parameters)
        and all(map(_equivalent, left.parameters, right.parameters))
    )
