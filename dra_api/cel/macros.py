"""Macros: calls that the parser replaces by loops and presence tests.

Sources: cel-go `parser/macro.go`, `ext/bindings.go`, `ext/comprehensions.go` and the optional library of
`cel/library.go`. The order in which nodes get their ids is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

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
)

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
UNUSED: Final = "#unused"
SORTED: Final = "@__sortBy_input__"
_OVERWRITES: Final = "iteration variable overwrites accumulator variable"


class MacroError(Exception):
    """Arguments that a macro does not take; `id` is that of the node at fault."""

    def __init__(self, id: int, message: str) -> None:
        super().__init__(message)
        self.id = id


class MacroHelper:
    """Makes nodes at the place of one macro call."""

    def __init__(self, positions: Positions, id: int) -> None:
        self._positions = positions
        self._offset = positions.offset(id)

    def _id(self) -> int:
        return self._positions.new(self._offset)

    def literal(self, value: Any) -> Expr:
        """A constant."""
        return Literal(self._id(), value)

    def list(self, *elements: Expr) -> Expr:
        """A list."""
        return ListExpr(self._id(), elements)

    def map(self) -> Expr:
        """An empty map."""
        return MapExpr(self._id(), ())

    def ident(self, name: str) -> Expr:
        """A name."""
        return Ident(self._id(), name)

    def accumulator(self) -> Expr:
        """The result so far."""
        return Ident(self._id(), ACCUMULATOR)

    def call(self, function: str, *args: Expr) -> Expr:
        """A global call."""
        return Call(self._id(), function, args)

    def member_call(self, function: str, target: Expr, *args: Expr) -> Expr:
        """A call with a receiver."""
        return Call(self._id(), function, args, target)

    def presence(self, operand: Expr, field: str) -> Expr:
        """A test whether a field is there."""
        return Select(self._id(), operand, field, test_only=True)

    def loop(
        self,
        over: Expr,
        names: Sequence[str],
        accu: str,
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr,
    ) -> Expr:
        """A comprehension with one or two variables."""
        first, second = names[0], names[1] if len(names) > 1 else ""
        return Comprehension(self._id(), over, first, second, accu, init, condition, step, result)

    def copy(self, node: Expr) -> Expr:
        """The same expression with fresh ids."""
        id = self._positions.new(self._positions.offset(node.id))
        match node:
            case Literal():
                return Literal(id, node.value)
            case Ident():
                return Ident(id, node.name)
            case Select():
                return Select(id, self.copy(node.operand), node.field, node.test_only)
            case Call():
                args = [self.copy(arg) for arg in node.args]
                target = None if node.target is None else self.copy(node.target)
                return Call(id, node.function, args, target)
            case ListExpr():
                return ListExpr(id, [self.copy(each) for each in node.elements], tuple(node.optionals))
            case MapExpr():
                return MapExpr(id, [self._copy_entry(entry, self.copy(entry.key)) for entry in node.entries])
            case StructExpr():
                return StructExpr(
                    id, node.name, [self._copy_entry(entry, entry.key) for entry in node.entries]
                )
            case Comprehension():
                parts = (node.range, node.accu_init, node.condition, node.step, node.result)
                over, init, condition, step, result = (self.copy(part) for part in parts)
                return Comprehension(
                    id, over, node.iter_var, node.iter_var2, node.accu_var, init, condition, step, result
                )
        return Expr(id)

    def _copy_entry(self, entry: Entry, key: Any) -> Entry:
        return Entry(self._id(), key, self.copy(entry.value), entry.optional)


_Macro = Callable[[MacroHelper, Expr, Sequence[Expr]], Expr | None]
"""Makes the expansion for a receiver (for global macros any node) and arguments; None leaves the call as it is."""


def _variables(args: Sequence[Expr], count: int) -> list[str]:
    """The names of the loop variables of a quantifier, checked."""
    names: list[str] = []
    for arg in args[:count]:
        if not isinstance(arg, Ident):
            raise MacroError(arg.id, "argument must be a simple name")
        names.append(arg.name)
    if count == 2 and names[0] == names[1]:
        raise MacroError(args[1].id, f"duplicate variable name: {names[0]}")
    for name, arg in zip(names, args, strict=False):
        if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise MacroError(arg.id, _OVERWRITES)
    return names


def _variable(args: Sequence[Expr]) -> str:
    """The name of the loop variable of `map` and `filter`, checked."""
    arg = args[0]
    if not isinstance(arg, Ident):
        raise MacroError(arg.id, "argument is not an identifier")
    if arg.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(arg.id, _OVERWRITES)
    return arg.name


def _has(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
    arg = args[0]
    if isinstance(arg, Select):
        return make.presence(arg.operand, arg.field)
    raise MacroError(arg.id, "invalid argument to has() macro")


def _all(count: int) -> _Macro:
    def expand(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
        names = _variables(args, count)
        init = make.literal(True)
        inner = make.accumulator()
        condition = make.call("@not_strictly_false", inner)
        step = make.call("_&&_", make.accumulator(), args[count])
        return make.loop(target, names, ACCUMULATOR, init, condition, step, make.accumulator())

    return expand


def _exists(count: int) -> _Macro:
    def expand(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
        names = _variables(args, count)
        init = make.literal(False)
        condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
        step = make.call("_||_", make.accumulator(), args[count])
        return make.loop(target, names, ACCUMULATOR, init, condition, step, make.accumulator())

    return expand


def _exists_one(count: int) -> _Macro:
    def expand(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
        names = _variables(args, count)
        init, condition = make.literal(0), make.literal(True)
        step = make.call(
            "_?_:_", args[count], make.call("_+_", make.accumulator(), make.literal(1)), make.accumulator()
        )
        result = make.call("_==_", make.accumulator(), make.literal(1))
        return make.loop(target, names, ACCUMULATOR, init, condition, step, result)

    return expand


def _map(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
    name = _variable(args)
    init, condition = make.list(), make.literal(True)
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    if len(args) == 3:
        step = make.call("_?_:_", args[1], step, make.accumulator())
    return make.loop(target, [name], ACCUMULATOR, init, condition, step, make.accumulator())


def _filter(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
    name = _variable(args)
    init, condition = make.list(), make.literal(True)
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    step = make.call("_?_:_", args[1], step, make.accumulator())
    return make.loop(target, [name], ACCUMULATOR, init, condition, step, make.accumulator())


def _transform(kind: str) -> _Macro:
    """`transformList`, `transformMap` and `transformMapEntry`, with a filter when there are four arguments."""

    def expand(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
        names = _variables(args, 2)
        transform = args[-1]
        if kind == "list":
            step = make.call("_+_", make.accumulator(), make.list(transform))
        elif kind == "map":
            step = make.call("cel.@mapInsert", make.accumulator(), make.ident(names[0]), transform)
        else:
            step = make.call("cel.@mapInsert", make.accumulator(), transform)
        if len(args) == 4:
            step = make.call("_?_:_", args[2], step, make.accumulator())
        init = make.list() if kind == "list" else make.map()
        condition = make.literal(True)
        return make.loop(target, names, ACCUMULATOR, init, condition, step, make.accumulator())

    return expand


def _bind(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = args[0]
    if not isinstance(name, Ident):
        raise MacroError(name.id, "cel.bind() variable names must be simple identifiers")
    over, condition = make.list(), make.literal(False)
    return make.loop(over, [UNUSED], name.name, args[1], condition, make.ident(name.name), args[2])


def _sort_by(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
    variable = make.ident(SORTED)
    if not isinstance(target, (ListExpr, Select, Ident, Comprehension, Call)):
        raise MacroError(
            target.id,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(make, make.copy(variable), args)
    call = make.member_call("@sortByAssociatedKeys", make.copy(variable), keys)
    over, condition = make.list(), make.literal(False)
    return make.loop(over, [UNUSED], SORTED, target, condition, variable, call)


def _optional_map(function: str) -> _Macro:
    def expand(make: MacroHelper, target: Expr, args: Sequence[Expr]) -> Expr:
        name = args[0]
        if not isinstance(name, Ident):
            raise MacroError(name.id, f"{function}() variable name must be a simple identifier")
        present = make.member_call("hasValue", target)
        over = make.list()
        init = make.member_call("value", make.copy(target))
        condition, step = make.literal(False), make.ident(name.name)
        mapped = make.loop(over, [UNUSED], name.name, init, condition, step, args[1])
        if function == "optMap":
            mapped = make.call("optional.of", mapped)
        return make.call("_?_:_", present, mapped, make.call("optional.none"))

    return expand


MACROS: Final[dict[tuple[str, int, bool], _Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(1),
    ("exists", 2, True): _exists(1),
    ("exists_one", 2, True): _exists_one(1),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("all", 3, True): _all(2),
    ("exists", 3, True): _exists(2),
    ("exists_one", 3, True): _exists_one(2),
    ("existsOne", 3, True): _exists_one(2),
    ("transformList", 3, True): _transform("list"),
    ("transformList", 4, True): _transform("list"),
    ("transformMap", 3, True): _transform("map"),
    ("transformMap", 4, True): _transform("map"),
    ("transformMapEntry", 3, True): _transform("entry"),
    ("transformMapEntry", 4, True): _transform("entry"),
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map("optMap"),
    ("optFlatMap", 2, True): _optional_map("optFlatMap"),
}
"""(function, number of arguments, with a receiver) -> expansion."""
