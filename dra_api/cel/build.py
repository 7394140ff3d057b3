"""Turns the tree of the grammar into expressions: literals, operators, reserved names, macros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from . import literals, tree
from .ast import Call, Entry, Expr, Ident, ListExpr, Literal, MapExpr, Positions, Select, StructExpr
from .lexer import Token
from .macros import MACROS, MacroError, MacroHelper
from .parser import MAX_DEPTH
from .source import NO_LOCATION, Source

_NO_PLACE: Final = -1
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_OPERATORS: Final = {
    **{op: f"_{op}_" for op in ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=")},
    "in": "@in",
}


class TreeTooDeepError(Exception):
    """The tree is too deep."""


class Builder:
    """Builds the expression of one source; problems are reported there."""

    def __init__(self, source: Source) -> None:
        self.positions = Positions(source)
        self._source = source
        self._depth = 0
        self._visits: Final[dict[type, Callable[[Any], Expr]]] = {
            tree.Conditional: self._conditional,
            tree.Logical: self._logical,
            tree.Binary: self._binary,
            tree.Unary: self._unary,
            tree.Member: self._member,
            tree.MemberCall: self._member_call,
            tree.Index: self._index,
            tree.Name: self._name,
            tree.GlobalCall: self._global_call,
            tree.CreateList: self._list,
            tree.CreateMap: self._map,
            tree.CreateMessage: self._message,
            tree.LiteralNode: self._literal,
            tree.BrokenUnary: lambda node: Literal(self._new(node.start), "<<error>>"),
        }

    def build(self, node: tree.Node | None) -> Expr:
        """The expression of a tree. Raises TreeTooDeepError."""
        visit = self._visits.get(type(node)) if node is not None else None
        if visit is not None:
            return visit(node)
        if not self._source.problem_count:
            return self._error(None, "unknown parse element encountered: <<nil>>")
        return Expr(self.positions.new(_NO_PLACE))

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TreeTooDeepError("max recursion depth exceeded")

    def _error(self, offset: int | None, message: str) -> Expr:
        """Report a problem at an offset, or without a place; the node stands for the broken part."""
        node = Expr(self.positions.new(_NO_PLACE if offset is None else offset))
        location = NO_LOCATION if offset is None else self._source.location(offset)
        self._source.report(location, message)
        return node

    def _new(self, place: int | Token | None) -> int:
        return self.positions.new(place.offset if isinstance(place, Token) else place)

    def _conditional(self, node: tree.Conditional) -> Expr:
        self._deeper()
        condition = self.build(node.e)
        id = self._new(node.op)
        chosen, other = self.build(node.e1), self.build(node.e2)
        self._depth -= 1
        return self._call(id, "_?_:_", None, (condition, chosen, other))

    def _logical(self, node: tree.Logical) -> Expr:
        terms = [self.build(node.e)]
        ids: list[int] = []
        for position, op in enumerate(node.ops):
            if position >= len(node.rest):
                return self._error(node.start, f"unexpected character, wanted '{node.function}'")
            terms.append(self.build(node.rest[position]))
            ids.append(self._new(op))
        return _balanced(f"_{node.function}_", terms, ids, 0, len(ids) - 1)

    def _binary(self, node: tree.Binary) -> Expr:
        self._deeper()
        function = _OPERATORS.get(node.op.text) if node.op is not None else None
        if function is None:
            found = self._error(node.start, "operator not found")
        else:
            lhs = self.build(node.lhs)
            id = self._new(node.op)
            found = self._call(id, function, None, (lhs, self.build(node.rhs)))
        self._depth -= 1
        return found

    def _unary(self, node: tree.Unary) -> Expr:
        if len(node.ops) % 2 == 0:
            return self.build(node.member)
        id = self._new(node.ops[0])
        target = self.build(node.member)
        return self._call(id, "!_" if node.ops[0].type == "!" else "-_", None, (target,))

    def _member(self, node: tree.Member) -> Expr:
        self._deeper()
        operand = self.build(node.member)
        self._depth -= 1
        if node.op is None or (node.id is None and node.unnamed is None):
            return Expr(self._new(node.start))
        if node.unnamed is not None:
            self._error(node.unnamed, "unsupported ident kind")
        name = "" if node.id is None else _unescaped(node.id)
        if not node.optional:
            return Select(self._new(node.op), operand, name)
        # The id of the name comes first, as arguments are evaluated before the call.
        field = Literal(self._new(node.unnamed if node.id is None else node.id), name)
        return Call(self._new(node.op), "_?._", (operand, field))

    def _member_call(self, node: tree.MemberCall) -> Expr:
        self._deeper()
        operand = self.build(node.member)
        if node.id is None:
            found: Expr = Expr(self._new(node.start))
        else:
            id = self._new(node.open)
            found = self._call(id, node.id.text, operand, [self.build(arg) for arg in node.args])
        self._depth -= 1
        return found

    def _index(self, node: tree.Index) -> Expr:
        self._deeper()
        target = self.build(node.member)
        if node.op is None:
            found: Expr = Expr(self._new(node.start))
        else:
            id = self._new(node.op)
            index = self.build(node.index)
            found = self._call(id, "_[?_]" if node.optional else "_[_]", None, (target, index))
        self._depth -= 1
        return found

    def _name(self, node: tree.Name) -> Expr:
        if node.id is None:
            return Expr(self._new(node.start))
        if node.id.text in _RESERVED:
            return self._error(node.start, f"reserved identifier: {node.id.text}")
        return Ident(self._new(node.id), f".{node.id.text}" if node.dot else node.id.text)

    def _global_call(self, node: tree.GlobalCall) -> Expr:
        if node.id is None:
            return Expr(self._new(node.start))
        if node.id.text in _RESERVED:
            return self._error(node.start, f"reserved identifier: {node.id.text}")
        name = f".{node.id.text}" if node.dot else node.id.text
        id = self._new(node.op)
        return self._call(id, name, None, [self.build(arg) for arg in node.args])

    def _list(self, node: tree.CreateList) -> Expr:
        id = self._new(node.op)
        elements = [self.build(element) for _, element in node.elements]
        return ListExpr(id, elements, [i for i, (optional, _) in enumerate(node.elements) if optional])

    def _map(self, node: tree.CreateMap) -> Expr:
        id = self._new(node.op)
        entries: list[Entry] = []
        for position, column in enumerate(node.columns):
            entry_id = self._new(column)
            if position >= len(node.keys) or position >= len(node.values):
                return MapExpr(id, [])
            optional, key = node.keys[position]
            built = self.build(key)
            entries.append(Entry(entry_id, built, self.build(node.values[position]), optional))
        return MapExpr(id, entries)

    def _message(self, node: tree.CreateMessage) -> Expr:
        name = ("." if node.dot else "") + ".".join(token.text for token in node.ids)
        id = self._new(node.op)
        entries: list[Entry] = []
        for position, (optional, field) in enumerate(node.fields):
            if position >= len(node.columns) or position >= len(node.values):
                return StructExpr(id, name, [])
            entry_id = self._new(node.columns[position])
            if field is None:
                self._error(node.inside, "unsupported ident kind")
                continue
            value = self.build(node.values[position])
            entries.append(Entry(entry_id, _unescaped(field), value, optional))
        return StructExpr(id, name, entries)

    def _literal(self, node: tree.LiteralNode) -> Expr:
        try:
            value = _value(node)
        except literals.LiteralError as error:
            found = self._error(node.start, str(error))
            if node.token.type not in ("STRING", "BYTES"):
                return found
            value = node.token.text
        return Literal(self._new(node.start), value)

    def _call(self, id: int, function: str, target: Expr | None, args: Sequence[Expr]) -> Expr:
        """A call, or what it expands to when it is a macro."""
        macro = MACROS.get((function, len(args), target is not None))
        if macro is None:
            return Call(id, function, args, target)
        helper = MacroHelper(self.positions, id)
        try:
            expanded = macro(helper, target if target is not None else args[0], args)
        except MacroError as error:
            offset = self.positions.offset(error.id)
            self.positions.drop(id)
            return self._error(offset, str(error))
        if expanded is None:
            return Call(id, function, args, target)
        self.positions.drop(id)
        return expanded


def _balanced(function: str, terms: Sequence[Expr], ids: Sequence[int], low: int, high: int) -> Expr:
    """A chain of terms as a balanced tree."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, ids, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, ids, middle + 1, high)
    return Call(ids[middle], function, (left, right))


def _unescaped(token: Token) -> str:
    return token.text[1:-1] if token.type == "ESC_IDENTIFIER" else token.text


def _value(node: tree.LiteralNode) -> Any:
    kind, text = node.token.type, node.token.text
    if kind == "NUM_INT":
        return literals.integer(text, negative=node.negative)
    if kind == "NUM_UINT":
        return literals.unsigned(text)
    if kind == "NUM_FLOAT":
        return literals.double(text, negative=node.negative)
    if kind == "STRING":
        return literals.string(text)
    if kind == "BYTES":
        return literals.octets(text[1:])
    return {"true": True, "false": False}.get(kind)
