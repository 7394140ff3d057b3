"""What an expression looks up in a device: with and without a guard, and what it compares with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from dra_api.cel import ast
from dra_api.cel.build import Builder
from dra_api.cel.reading import read
from dra_api.cel.source import Source

_COMPARISONS: Final = ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_")
_CONVERTED: Final = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}


@dataclass(frozen=True)
class Lookup:
    """`device.attributes[domain].name`, or `capacity`."""

    kind: Literal["attributes", "capacity"]
    domain: str
    name: str

    def __str__(self) -> str:
        return f'device.{self.kind}["{self.domain}"].{self.name}'


@dataclass(frozen=True)
class Comparison:
    """A lookup that is compared with a constant."""

    lookup: Lookup
    operator: str
    value: Any


def expression(text: str) -> ast.Expr | None:
    """The parsed expression; None when it cannot be parsed."""
    source = Source(text)
    found = read(source, Builder(source))
    return None if source.problem_count else found


def unguarded(expr: ast.Expr) -> list[Lookup]:
    """The lookups that fail when a device does not have what they look for, each once."""
    return list(dict.fromkeys(_unguarded(expr, frozenset())))


def comparisons(expr: ast.Expr) -> Iterator[Comparison]:
    """All comparisons of a lookup with a constant."""
    for node in _walk(expr):
        if not isinstance(node, ast.Call) or node.function not in _COMPARISONS or len(node.args) != 2:
            continue
        for one, other in (node.args, node.args[::-1]):
            found = _lookup(one) or _or_value(one)
            if found is not None and isinstance(other, ast.Literal):
                yield Comparison(found, _CONVERTED[node.function], other.value)


def _unguarded(expr: ast.Expr, guards: frozenset[Lookup]) -> Iterator[Lookup]:
    found = _lookup(expr)
    if found is not None:
        if found not in guards:
            yield found
        return
    if isinstance(expr, ast.Select) and expr.test_only:
        return  # has() asks whether it is there
    if isinstance(expr, ast.Call):
        if expr.function in ("_&&_", "_||_"):
            # A false part of && (a true one of ||) absorbs the errors of the others, whatever their order.
            wanted = expr.function == "_&&_"
            parts = list(_chain(expr, expr.function))
            known = [_guards(part, wanted) for part in parts]
            for index, part in enumerate(parts):
                others = frozenset[Lookup]().union(*(known[:index] + known[index + 1 :]))
                yield from _unguarded(part, guards | others)
            return
        if expr.function == "_?_:_" and len(expr.args) == 3:
            condition, then, otherwise = expr.args
            yield from _unguarded(condition, guards)
            yield from _unguarded(then, guards | _guards(condition, True))
            yield from _unguarded(otherwise, guards | _guards(condition, False))
            return
    for child in _children(expr):
        yield from _unguarded(child, guards)


def _guards(expr: ast.Expr, when: bool) -> frozenset[Lookup]:
    """The lookups that succeed when the expression is `when`."""
    if isinstance(expr, ast.Select) and expr.test_only and when:
        found = _lookup(ast.Select(0, expr.operand, expr.field))
        return frozenset([found]) if found else frozenset()
    if not isinstance(expr, ast.Call):
        return frozenset()
    if expr.function == "!_" and expr.args:
        return _guards(expr.args[0], not when)
    if expr.function == "@in" and when and isinstance(expr.args[0], ast.Literal):
        domain = _domain(expr.args[1])
        name = expr.args[0].value
        return frozenset([Lookup(*domain, name)]) if domain and isinstance(name, str) else frozenset()
    if expr.function == ("_&&_" if when else "_||_"):
        return frozenset[Lookup]().union(*(_guards(part, when) for part in _chain(expr, expr.function)))
    return frozenset()


def _chain(expr: ast.Expr, function: str) -> Iterator[ast.Expr]:
    if isinstance(expr, ast.Call) and expr.function == function:
        for part in expr.args:
            yield from _chain(part, function)
    else:
        yield expr


def _lookup(expr: ast.Expr) -> Lookup | None:
    """`DOMAIN.name` or `DOMAIN["name"]`."""
    if isinstance(expr, ast.Select) and not expr.test_only:
        domain = _domain(expr.operand)
        return Lookup(*domain, expr.field) if domain else None
    if isinstance(expr, ast.Call) and expr.function == "_[_]" and isinstance(expr.args[1], ast.Literal):
        domain, name = _domain(expr.args[0]), expr.args[1].value
        return Lookup(*domain, name) if domain and isinstance(name, str) else None
    return None


def _or_value(expr: ast.Expr) -> Lookup | None:
    """`DOMAIN.?name.orValue(x)` or `DOMAIN[?"name"].orValue(x)`."""
    if not isinstance(expr, ast.Call) or expr.function != "orValue" or not isinstance(expr.target, ast.Call):
        return None
    inner = expr.target
    if inner.function not in ("_?._", "_[?_]") or not isinstance(inner.args[1], ast.Literal):
        return None
    domain, name = _domain(inner.args[0]), inner.args[1].value
    return Lookup(*domain, name) if domain and isinstance(name, str) else None


def _domain(expr: ast.Expr) -> tuple[Literal["attributes", "capacity"], str] | None:
    """`device.attributes["domain"]` or `device.capacity["domain"]`."""
    if isinstance(expr, ast.Select):
        whole, name = expr.operand, expr.field
    elif isinstance(expr, ast.Call) and expr.function == "_[_]" and isinstance(expr.args[1], ast.Literal):
        whole, name = expr.args[0], expr.args[1].value
    else:
        return None
    if not isinstance(whole, ast.Select) or whole.test_only or not isinstance(name, str):
        return None
    if not isinstance(whole.operand, ast.Ident) or whole.operand.name != "device":
        return None
    if whole.field == "attributes":
        return "attributes", name
    return ("capacity", name) if whole.field == "capacity" else None


def _walk(expr: ast.Expr) -> Iterator[ast.Expr]:
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(list(_children(node)))


def _children(expr: ast.Expr) -> Iterator[ast.Expr]:
    if isinstance(expr, ast.Select):
        yield expr.operand
    elif isinstance(expr, ast.Call):
        if expr.target is not None:
            yield expr.target
        yield from expr.args
    elif isinstance(expr, ast.ListExpr):
        yield from expr.elements
    elif isinstance(expr, ast.MapExpr | ast.StructExpr):
        for entry in expr.entries:
            if isinstance(entry.key, ast.Expr):
                yield entry.key
            yield entry.value
    elif isinstance(expr, ast.Comprehension):
        yield from (expr.range, expr.accu_init, expr.condition, expr.step, expr.result)
