"""Reads correct expressions quickly: precedence climbing over tokens, three frames a nesting level.

Incorrect ones make it give up (`NotCorrectError`); `recovery` then finds what is wrong, and where, as cel-go's
generated parser does. Both make the same tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from . import tree
from .lexer import Token

MAX_DEPTH: Final = 250
_RELATIONS: Final = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
_SUMS: Final = frozenset("+-")
_PRODUCTS: Final = frozenset("*/%")
_OPERATORS: Final = _RELATIONS | _SUMS | _PRODUCTS
LITERALS: Final = frozenset(("NUM_INT", "NUM_UINT", "NUM_FLOAT", "STRING", "BYTES", "true", "false", "null"))


class NotCorrectError(Exception):
    """The tokens do not follow the grammar."""


class TooDeepError(Exception):
    """The expression is nested too deeply."""

    def __init__(self) -> None:
        super().__init__(f"expression recursion limit exceeded: {MAX_DEPTH}")


def parse(tokens: Sequence[Token]) -> tree.Node:
    """The tree of a correct expression.

    Raises NotCorrectError for a wrong one and TooDeepError for nesting beyond the limits of cel-go.
    """
    parser = _Parser(tokens)
    node = parser.expression()
    parser.expect("EOF")
    return node


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depths = {"expr": 0, "relation": 0, "calc": 0}

    def expect(self, type: str) -> Token:
        token = self._tokens[self._next]
        if token.type != type:
            raise NotCorrectError
        self._next += 1
        return token

    def _accept(self, type: str) -> Token | None:
        token = self._tokens[self._next]
        if token.type != type:
            return None
        self._next += 1
        return token

    def _enter(self, rule: str) -> None:
        self._depths[rule] += 1
        if self._depths[rule] > MAX_DEPTH:
            raise TooDeepError

    def expression(self) -> tree.Node:
        self._enter("expr")
        start = self._tokens[self._next].offset
        node = self._logical()
        op = self._accept("?")
        if op is not None:
            chosen = self._logical()
            self.expect(":")
            node = tree.Conditional(start, node, op, chosen, self.expression())
        self._depths["expr"] -= 1
        return node

    def _logical(self) -> tree.Node:
        start = self._tokens[self._next].offset
        alternatives = tree.Logical(start, "||", None)
        while True:
            first = self._tokens[self._next].offset
            terms = tree.Logical(first, "&&", self._relation(0))
            while (op := self._accept("&&")) is not None:
                terms.ops.append(op)
                terms.rest.append(self._relation(0))
            node = terms if terms.ops else terms.e
            if alternatives.e is None:
                alternatives.e = node
            elif node is not None:
                alternatives.rest.append(node)
            op = self._accept("||")
            if op is None:
                break
            alternatives.ops.append(op)
        return alternatives if alternatives.ops or alternatives.e is None else alternatives.e

    def _relation(self, least: int) -> tree.Node:
        """A relation (least 0), a sum (1), a product (2) or an operand (3)."""
        start = self._tokens[self._next].offset
        opened = ("relation", "calc") if least == 0 else ("calc",)
        for rule in opened:
            self._enter(rule)
        node = self._operand()
        calculating = True
        while True:
            op = self._tokens[self._next]
            if op.type not in _OPERATORS:
                break
            level = 0 if op.type in _RELATIONS else 1 if op.type in _SUMS else 2
            if level < least:
                break
            self._next += 1
            if level == 0 and calculating:
                # The calculation left of the relation is complete, so its rule was left.
                self._depths["calc"] -= 1
                calculating = False
            rhs = self._right_of_relation() if level == 0 else self._relation(level + 1)
            node = tree.Binary(start, node, op, rhs)
        for rule in opened:
            if rule != "calc" or calculating:
                self._depths[rule] -= 1
        return node

    def _right_of_relation(self) -> tree.Node:
        self._enter("relation")
        node = self._relation(1)
        self._depths["relation"] -= 1
        return node

    def _operand(self) -> tree.Node:
        tokens = self._tokens
        start = tokens[self._next].offset
        ops: list[Token] = []
        first = tokens[self._next]
        if first.type == "!" or (
            first.type == "-" and tokens[self._next + 1].type not in ("NUM_INT", "NUM_FLOAT")
        ):
            while tokens[self._next].type == first.type:
                ops.append(tokens[self._next])
                self._next += 1
        inner = tokens[self._next].offset
        node = self._primary(inner)
        while True:
            op = tokens[self._next]
            if op.type == ".":
                self._next += 1
                optional = self._accept("?") is not None
                name = tokens[self._next]
                if name.type not in ("IDENTIFIER", "ESC_IDENTIFIER"):
                    raise NotCorrectError
                self._next += 1
                opened = tokens[self._next]
                if opened.type == "(" and name.type == "IDENTIFIER" and not optional:
                    self._next += 1
                    node = tree.MemberCall(inner, node, name, opened, self._arguments())
                else:
                    node = tree.Member(inner, node, op, optional, name)
            elif op.type == "[":
                self._next += 1
                optional = self._accept("?") is not None
                index = self.expression()
                self.expect("]")
                node = tree.Index(inner, node, op, optional, index)
            else:
                break
        return tree.Unary(start, ops, node) if ops else node

    def _arguments(self) -> list[tree.Node | None]:
        args: list[tree.Node | None] = []
        if self._accept(")") is None:
            args.append(self.expression())
            while self._accept(",") is not None:
                args.append(self.expression())
            self.expect(")")
        return args

    def _primary(self, start: int) -> tree.Node:
        token = self._tokens[self._next]
        kind = token.type
        if kind in LITERALS:
            self._next += 1
            return tree.LiteralNode(start, token)
        if kind == "-" and self._tokens[self._next + 1].type in ("NUM_INT", "NUM_FLOAT"):
            self._next += 2
            return tree.LiteralNode(start, self._tokens[self._next - 1], negative=True)
        if kind == "(":
            self._next += 1
            node = self.expression()
            self.expect(")")
            return node
        if kind == "[":
            self._next += 1
            return self._list(start, token)
        if kind == "{":
            self._next += 1
            return self._map(start, token)
        if kind in (".", "IDENTIFIER"):
            return self._name(start)
        raise NotCorrectError

    def _name(self, start: int) -> tree.Node:
        dot = self._accept(".") is not None
        name = self.expect("IDENTIFIER")
        if (opened := self._accept("(")) is not None:
            return tree.GlobalCall(start, dot, name, opened, self._arguments())
        tokens, position, ids = self._tokens, self._next, [name]
        while tokens[position].type == "." and tokens[position + 1].type == "IDENTIFIER":
            ids.append(tokens[position + 1])
            position += 2
        if tokens[position].type == "{":
            self._next = position + 1
            return self._message(tree.CreateMessage(start, dot, ids, tokens[position], [], [], []))
        return tree.Name(start, dot, name)

    def _list(self, start: int, op: Token) -> tree.Node:
        elements: list[tuple[bool, tree.Node | None]] = []
        while self._accept("]") is None:
            if elements or self._tokens[self._next].type == ",":
                self.expect(",")
                if self._accept("]") is not None:
                    break
                if not elements:
                    raise NotCorrectError
            optional = self._accept("?") is not None
            elements.append((optional, self.expression()))
        return tree.CreateList(start, op, elements)

    def _map(self, start: int, op: Token) -> tree.Node:
        node = tree.CreateMap(start, op, [], [], [])
        while self._accept("}") is None:
            if node.keys or self._tokens[self._next].type == ",":
                self.expect(",")
                if self._accept("}") is not None:
                    break
                if not node.keys:
                    raise NotCorrectError
            optional = self._accept("?") is not None
            node.keys.append((optional, self.expression()))
            node.columns.append(self.expect(":"))
            node.values.append(self.expression())
        return node

    def _message(self, node: tree.CreateMessage) -> tree.Node:
        while self._accept("}") is None:
            if node.fields or self._tokens[self._next].type == ",":
                self.expect(",")
                if self._accept("}") is not None:
                    break
                if not node.fields:
                    raise NotCorrectError
            optional = self._accept("?") is not None
            name = self._tokens[self._next]
            if name.type not in ("IDENTIFIER", "ESC_IDENTIFIER"):
                raise NotCorrectError
            self._next += 1
            node.fields.append((optional, name))
            node.columns.append(self.expect(":"))
            node.values.append(self.expression())
        return node
