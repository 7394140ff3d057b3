"""Plans the evaluation of a checked expression: slots for variables, constants folded (cel-go `planner`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import dispatch
from .ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from .attributes import ConstantQualifier, Qualifier
from .calls import CallStep, MembershipStep, OptionalOrStep
from .checker import Checked
from .constructors import ListStep, MapStep, StructStep
from .declarations import Function
from .errors import CompileError, EvalError, InternalError
from .fold import FoldStep, InitStep
from .frame import Frame
from .library import regexes
from .steps import (
    AttributeStep,
    ConstantStep,
    EqualityStep,
    LogicalStep,
    Meter,
    Step,
    computed,
    conditional,
    relative,
    variable,
)
from .types import Type
from .values import GO_NAMES, UInt

_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_KEYS: Final = (str, int, UInt, bool, float)
_SET_ELEMENTS: Final = (str, int, UInt, bool, float)
_NO_FRAME: Final = Frame(None, 1)


class Planner:
    """Plans one expression. `constants` run before: regular expressions and the like are checked by libraries."""

    def __init__(
        self,
        checked: Checked,
        functions: Mapping[str, Function],
        type_names: Mapping[str, Type],
        variables: Sequence[str] = ("device",),
    ) -> None:
        """`variables` of the environment have the first slots, in this order."""
        self._checked = checked
        self._functions = functions
        self._type_names = type_names
        self._scopes: list[dict[str, tuple[int, Step | None]]] = [
            {name: (slot, None) for slot, name in enumerate(variables)}
        ]
        self.slots = len(variables)
        self._plans: Final[dict[type, Any]] = {
            Literal: self._literal,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            ListExpr: self._list,
            MapExpr: self._map,
            StructExpr: self._struct,
            Comprehension: self._comprehension,
        }

    def plan(self, node: Expr) -> Step:
        """The step of a node. Raises CompileError."""
        plan = self._plans.get(type(node))
        if plan is None:
            raise _failed("unknown type")
        step: Step = plan(node)
        return step

    def _literal(self, node: Literal) -> Step:
        return ConstantStep(node.id, node.value)

    def _type(self, id: int) -> Step | None:
        name = self._checked.type_names.get(id)
        if name is None:
            return None
        if name not in self._type_names:
            raise _failed(f"reference to undefined type: {name}")
        return ConstantStep(id, self._type_names[name])

    def _ident(self, node: Ident) -> Step:
        named = self._type(node.id)
        if named is not None:
            return named
        scopes = self._scopes[:1] if node.name.startswith(".") else reversed(self._scopes)
        name = node.name.removeprefix(".")
        for scope in scopes:
            if name in scope:
                slot, init = scope[name]
                step = variable(node.id, slot, init)
                step.observed = not node.name.startswith(".")
                return step
        raise _failed(f"no such attribute(s): {name}")

    def _select(self, node: Select) -> Step:
        named = self._type(node.id)
        if named is not None:
            return named
        if node.resolved is not None:
            # A variable with dots in its name.
            step = variable(node.id, *self._scopes[0][node.resolved])
            if node.test_only:
                raise _failed("invalid presence test of a variable")
            return step
        step = self._as_attribute(self.plan(node.operand))
        key = node.field
        step.add(node.id, lambda meter: ConstantQualifier(node.id, key, False))
        if node.test_only:
            step.presence_id = node.id
        return step

    def _as_attribute(self, step: Step) -> AttributeStep:
        return step if isinstance(step, AttributeStep) else relative(step.id, step)

    def _call(self, node: Call) -> Step:
        nodes = node.args if node.target is None else (node.target, *node.args)
        args = [self.plan(each) for each in nodes]
        match node.function:
            case "_&&_" | "_||_":
                return LogicalStep(node.id, args, node.function == "_||_")
            case "_?_:_":
                return conditional(node.id, *args)
            case "_==_" | "_!=_":
                return EqualityStep(node.id, *args, negated=node.function == "_!=_")
            case "_[_]":
                return self._index(node.id, args[0], args[1], optional=False)
            case "_?._" | "_[?_]":
                return self._index(node.id, args[0], args[1], optional=True)
        overloads = self._checked.overloads.get(node.id, ())
        overload = overloads[0] if len(overloads) == 1 else ""
        if node.function in ("or", "orValue") and len(args) == 2:
            return OptionalOrStep(node.id, *args, value=node.function == "orValue")
        step = CallStep(
            node.id, node.function, overload, args, dispatch.find(self._functions, node.function, overload)
        )
        return self._optimised(step)

    def _index(self, id: int, operand: Step, index: Step, *, optional: bool) -> Step:
        step = self._as_attribute(operand)
        if isinstance(index, ConstantStep):
            key = index.value
            if type(key) not in _KEYS:
                name = GO_NAMES.get(type(key), type(key).__name__)
                raise _failed(f"invalid qualifier type: {name}")

            def constant(meter: Meter | None) -> Qualifier:
                return ConstantQualifier(id, key, optional)

            step.add(id, constant)
        else:
            step.add(id, computed(id, index, optional))
        return step

    def _optimised(self, step: CallStep) -> Step:
        if step.overload == "in_list":
            return _membership(step)
        if step.function in regexes.PREPARED and len(step.args) > 1:
            return _prepared(step)
        if step.function in _CONVERSIONS and len(step.args) == 1 and isinstance(step.args[0], ConstantStep):
            return _folded(step)
        return step

    def _list(self, node: ListExpr) -> Step:
        elements = [self.plan(each) for each in node.elements]
        step = ListStep(node.id, elements, node.optionals)
        return _folded(step) if all(isinstance(each, ConstantStep) for each in elements) else step

    def _map(self, node: MapExpr) -> Step:
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in node.entries]
        step = MapStep(node.id, entries)
        constant = all(isinstance(part, ConstantStep) for key, value, _ in entries for part in (key, value))
        return _folded(step) if constant else step

    def _struct(self, node: StructExpr) -> Step:
        entries = [(entry.key, self.plan(entry.value), entry.optional) for entry in node.entries]
        return StructStep(node.id, node.name, entries)

    def _comprehension(self, node: Comprehension) -> Step:
        init = InitStep(self.plan(node.accu_init))
        over = self.plan(node.range)
        first = self.slots
        self.slots += 3
        self._scopes.append({node.accu_var: (first, init)})
        names: dict[str, tuple[int, Step | None]] = {node.iter_var: (first + 1, None)}
        if node.iter_var2:
            names[node.iter_var2] = (first + 2, None)
        self._scopes.append(names)
        condition, step = self.plan(node.condition), self.plan(node.step)
        self._scopes.pop()
        result = self.plan(node.result)
        self._scopes.pop()
        return FoldStep(
            node.id,
            over,
            init,
            condition,
            step,
            result,
            (first, first + 1, first + 2),
            pairs=bool(node.iter_var2),
        )


def _failed(reason: str) -> CompileError:
    return CompileError(f"program instantiation failed: {reason}", "Internal")


def _prepared(step: CallStep) -> CallStep:
    """Patterns known beforehand are compiled beforehand."""
    pattern = step.args[1]
    if isinstance(pattern, ConstantStep) and type(pattern.value) is str:
        problem = regexes.check(pattern.value)
        if problem is not None:
            raise _failed(problem)
        step.implementation = dispatch.Implementation(
            regexes.PREPARED[step.function](pattern.value), stops_early=True
        )
    return step


def _folded(step: Step) -> ConstantStep:
    try:
        return ConstantStep(step.id, step.compile(None)(_NO_FRAME))
    except (EvalError, InternalError) as error:
        raise _failed(str(error)) from None


def _membership(step: CallStep) -> Step:
    """`in` with a list of constants as a look into a set."""
    element, values = step.args
    if not isinstance(values, ConstantStep):
        return step
    if not values.value:
        return ConstantStep(step.id, False)
    found: set[tuple[type, Any]] = set()
    for value in values.value:
        kind = type(value)
        if kind not in _SET_ELEMENTS:
            return step
        found.add((kind, value))
        if kind is float:
            if value == value and abs(value) != float("inf") and value == int(value):
                found |= _integers(int(value))
        elif kind in (int, UInt):
            found.add((float, float(value)))
            found |= _integers(int(value))
    return MembershipStep(step.id, element, frozenset(found))


def _integers(number: int) -> set[tuple[type, Any]]:
    found: set[tuple[type, Any]] = set()
    if -(2**63) <= number < 2**63:
        found.add((int, number))
    if 0 <= number < 2**64:
        found.add((UInt, UInt(number)))
    return found
