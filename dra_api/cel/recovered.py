"""Turns what `recovery` found into the tree that correct expressions have; missing parts are None."""

from __future__ import annotations

from typing import Any

from . import tree
from .lexer import Token
from .recovery import Context


def as_tree(context: Context | None) -> tree.Node | None:
    """The tree of a context."""
    if context is None:
        return None
    found = context.found
    match context.rule:
        case "expr":
            return _conditional(context)
        case "conditionalOr" | "conditionalAnd":
            if not found.get("ops"):
                return as_tree(found.get("e"))
            function = "||" if context.rule == "conditionalOr" else "&&"
            rest = [_node(each) for each in found.get("rest", ())]
            return tree.Logical(context.start, function, as_tree(found.get("e")), found["ops"], rest)
        case "relation" | "calc":
            if context.alternative != "binary":
                return as_tree(found.get("e"))
            return tree.Binary(
                context.start, as_tree(found.get("e")), found.get("op"), as_tree(found.get("rhs"))
            )
        case "unary":
            if context.alternative in ("not", "negate"):
                return tree.Unary(context.start, found.get("ops", []), as_tree(found.get("e")))
            return as_tree(found.get("e")) if context.alternative else tree.BrokenUnary(context.start)
        case "member":
            return _member(context)
        case "primary":
            return _primary(context)
        case "literal":
            token = found.get("token")
            return None if token is None else tree.LiteralNode(context.start, token, "sign" in found)
    return as_tree(found.get("e"))


def _node(context: Context) -> tree.Node:
    return as_tree(context) or tree.Node(context.start)


def _conditional(context: Context) -> tree.Node | None:
    found = context.found
    condition = as_tree(found.get("e"))
    if "op" not in found:
        return condition
    return tree.Conditional(
        context.start, condition, found["op"], as_tree(found.get("e1")), as_tree(found.get("e2"))
    )


def _member(context: Context) -> tree.Node | None:
    found = context.found
    inner = as_tree(found.get("e"))
    match context.alternative:
        case "select":
            name = found.get("name")
            identifier = _identifier(name)
            unnamed = name.start if name is not None and identifier is None else None
            return tree.Member(context.start, inner, found.get("op"), "opt" in found, identifier, unnamed)
        case "call":
            return tree.MemberCall(
                context.start, inner, found.get("id"), found.get("open"), _arguments(found)
            )
        case "index":
            index = as_tree(found.get("index"))
            return tree.Index(context.start, inner, found.get("op"), "opt" in found, index)
    return inner


def _primary(context: Context) -> tree.Node | None:
    found, start = context.found, context.start
    match context.alternative:
        case "ident":
            return tree.Name(start, "dot" in found, found.get("id"))
        case "call":
            return tree.GlobalCall(
                start, "dot" in found, found.get("id"), found.get("open"), _arguments(found)
            )
        case "list":
            elements = _parts(found.get("elements"), "e")
            return tree.CreateList(
                start,
                found.get("op"),
                [("opt" in each.found, as_tree(each.found.get("e"))) for each in elements],
            )
        case "map":
            keys = [
                ("opt" in each.found, as_tree(each.found.get("e")))
                for each in _parts(found.get("entries"), "keys")
            ]
            columns, values = _entries(found.get("entries"))
            return tree.CreateMap(start, found.get("op"), keys, columns, values)
        case "message":
            fields = [
                ("opt" in each.found, _identifier(each.found.get("name")))
                for each in _parts(found.get("entries"), "keys")
            ]
            columns, values = _entries(found.get("entries"))
            inside = found["entries"].start if "entries" in found else start
            return tree.CreateMessage(
                start, "dot" in found, found.get("ids", []), found.get("op"), fields, columns, values, inside
            )
    return as_tree(found.get("e"))


def _identifier(context: Context | None) -> Token | None:
    token: Token | None = None if context is None else context.found.get("id")
    return token


def _parts(context: Context | None, label: str) -> list[Context]:
    return [] if context is None else context.found.get(label, [])


def _entries(context: Context | None) -> tuple[list[Token], list[tree.Node]]:
    if context is None:
        return [], []
    return context.found.get("cols", []), [_node(each) for each in context.found.get("values", [])]


def _arguments(found: dict[str, Any]) -> list[tree.Node | None]:
    return [as_tree(each) for each in _parts(found.get("args"), "e")]
