"""Functions of an environment: overloads for the checker, implementations for the evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .types import Kind, Type
from .values import LISTS, MAPS, RUNTIME_TYPES


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. The receiver of a member is its first parameter.

    `call` takes the arguments and returns the result or raises EvalError; None for what the planner does itself.
    """

    id: str
    parameters: tuple[Type, ...]
    result: Type
    member: bool = False
    call: Callable[..., Any] | None = None
    variadic: bool = False
    """Upstream binds any number of arguments, so that evaluation ends with the first one that fails."""
    type_parameters: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        names: dict[str, None] = {}
        for kind in (*self.parameters, self.result):
            _collect(kind, names)
        object.__setattr__(self, "type_parameters", tuple(names))

    def accepts(self, args: Sequence[Any]) -> bool:
        """Whether the values have the types of the parameters, as far as upstream looks."""
        return len(args) == len(self.parameters) and all(map(assignable, self.parameters, args))


@dataclass(frozen=True, slots=True)
class Function:
    """All overloads of a name.

    With `single` one implementation serves all overloads; `operands` are the classes of first arguments it takes
    (None for all). With `guarded` off, implementations of overloads check their arguments themselves.
    """

    name: str
    overloads: tuple[Overload, ...]
    single: Callable[..., Any] | None = None
    operands: frozenset[type] | None = None
    guarded: bool = True


def merge(*libraries: Mapping[str, Function]) -> dict[str, Function]:
    """The functions of several libraries; overloads of the same name are joined in this order."""
    merged: dict[str, Function] = {}
    for library in libraries:
        for name, function in library.items():
            present = merged.get(name)
            if present is None:
                merged[name] = function
                continue
            known = {overload.id for overload in present.overloads}
            added = tuple(each for each in function.overloads if each.id not in known)
            merged[name] = Function(
                name, present.overloads + added, present.single, present.operands, present.guarded
            )
    return merged


def library(*functions: Function) -> dict[str, Function]:
    """A library by the names of its functions."""
    return merge(*({function.name: function} for function in functions))


def _collect(kind: Type, names: dict[str, None]) -> None:
    if kind.kind is Kind.TYPE_PARAM:
        names[kind.name] = None
    for each in kind.parameters:
        _collect(each, names)


def assignable(kind: Type, value: Any) -> bool:
    """Whether a value may be an argument of a type at run time; of lists and maps one entry is looked at."""
    if kind.kind in (Kind.DYN, Kind.ANY, Kind.TYPE_PARAM):
        return True
    if RUNTIME_TYPES[type(value)].name != kind.name:
        return False
    if type(value) in LISTS:
        return not value or assignable(kind.parameters[0], value[0])
    if type(value) in MAPS:
        for key, entry in value.items():
            return assignable(kind.parameters[0], key) and assignable(kind.parameters[1], entry)
    return True
