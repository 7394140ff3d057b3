"""Finds the implementation of a call: by the one overload that the checker found, else by the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from .declarations import Function, Overload
from .errors import EvalError, no_such_overload
from .values import LISTS, MAPS, type_name

_CONTAINERS: Final = frozenset((*LISTS, *MAPS))


@dataclass(frozen=True, slots=True)
class Implementation:
    """What a call runs. `stops_early`: arguments after one that fails are not evaluated."""

    call: Callable[..., Any]
    stops_early: bool = False


def find(functions: Mapping[str, Function], function: str, overload: str) -> Implementation:
    """The implementation for a function; `overload` is empty when several are possible."""
    return _find(functions[function], overload)


@lru_cache(maxsize=1024)
def _find(function: Function, overload: str) -> Implementation:
    if function.single is not None:
        return Implementation(_single(function, function.single))
    bound = [each for each in function.overloads if each.call is not None]
    for each in bound:
        if each.id == overload or len(bound) == 1:
            early = each.variadic or len(each.parameters) > 2
            return Implementation(_guarded(function, each), stops_early=early)
    return Implementation(_by_values(function, bound), stops_early=True)


def _unbound(*args: Any) -> Any:
    raise no_such_overload()


def _single(function: Function, call: Callable[..., Any]) -> Callable[..., Any]:
    operands = function.operands
    if operands is None:
        return call

    def checked(*args: Any) -> Any:
        if type(args[0]) in operands:
            return call(*args)
        # Values that receive calls themselves refuse them in other words.
        if type_name(args[0]) in ("string", "google.protobuf.Timestamp", "google.protobuf.Duration"):
            raise no_such_overload()
        raise EvalError(f"no such overload: {function.name}")

    return checked


def _guarded(function: Function, overload: Overload) -> Callable[..., Any]:
    call = overload.call or _unbound
    if not function.guarded:
        return call
    accepts = overload.accepts
    known: set[tuple[type, ...]] = set()

    def checked(*args: Any) -> Any:
        kinds = tuple(map(type, args))
        if kinds in known:
            return call(*args)
        if accepts(args):
            # Of lists and maps the entries count too.
            if _CONTAINERS.isdisjoint(kinds):
                known.add(kinds)
            return call(*args)
        raise _refused(function, args)

    return checked


def _by_values(function: Function, bound: list[Overload]) -> Callable[..., Any]:
    def dispatched(*args: Any) -> Any:
        for overload in bound:
            if len(overload.parameters) == len(args) and (not function.guarded or overload.accepts(args)):
                return (overload.call or _unbound)(*args)
        raise _refused(function, args)

    return dispatched


def _refused(function: Function, args: tuple[Any, ...]) -> EvalError:
    return EvalError(f"no such overload: {function.name}({', '.join(type_name(arg) for arg in args)})")
