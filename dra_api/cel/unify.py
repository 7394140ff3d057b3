"""Assignability of types with type parameters (cel-go `checker/types.go`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from . import types
from .types import Kind, Type

Mapping = dict[str, Type]
"""Printed type parameter -> what stands for it."""

_SIMPLE: Final = frozenset(
    (
        Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.INT, Kind.STRING, Kind.UINT, Kind.ANY, Kind.DURATION,
        Kind.TIMESTAMP, Kind.STRUCT,
    )
)  # fmt: skip
_NULLABLE: Final = frozenset((Kind.OPAQUE, Kind.STRUCT, Kind.ANY, Kind.DURATION, Kind.TIMESTAMP))
_GENERIC: Final = frozenset((Kind.OPAQUE, Kind.LIST, Kind.MAP))


def assignable(mapping: Mapping, left: Sequence[Type], right: Sequence[Type]) -> Mapping | None:
    """The mapping under which each type on the left may stand for that on the right, else None."""
    attempt = dict(mapping)
    return attempt if _assignable_all(attempt, left, right) else None


def substitute(mapping: Mapping, kind: Type, *, free_to_dyn: bool = False) -> Type:
    """The type with its parameters replaced; unknown ones become dyn on demand."""
    found = mapping.get(kind.text)
    if found is not None:
        return substitute(mapping, found, free_to_dyn=free_to_dyn)
    if kind.kind is Kind.TYPE_PARAM:
        return types.DYN if free_to_dyn else kind
    if not kind.parameters:
        return kind
    replaced = tuple(substitute(mapping, each, free_to_dyn=free_to_dyn) for each in kind.parameters)
    if all(new is old for new, old in zip(replaced, kind.parameters, strict=True)):
        return kind
    return Type(kind.kind, kind.name, replaced)


def most_general(left: Type, right: Type) -> Type:
    """The more general of two types that unify."""
    return left if _is_less_specific(left, right) else right


def _assignable(mapping: Mapping, left: Type, right: Type) -> bool:
    kind1, kind2 = left.kind, right.kind
    if kind2 is Kind.TYPE_PARAM:
        valid, bound = _substitutes(mapping, left, right)
        if valid or bound:
            return valid
    if kind1 is Kind.TYPE_PARAM:
        return _substitutes(mapping, right, left)[0]
    if types.is_dyn_or_error(left) or types.is_dyn_or_error(right):
        return True
    if kind1 is Kind.NULL:
        return right.kind in _NULLABLE or right.wrapper or kind2 is Kind.NULL
    if kind2 is Kind.NULL:
        return left.kind in _NULLABLE or left.wrapper
    if kind1 in _SIMPLE:
        return kind1 is kind2 and left.name == right.name
    if kind1 is Kind.TYPE:
        return kind2 is Kind.TYPE
    if kind1 in _GENERIC:
        return (
            kind1 is kind2
            and left.name == right.name
            and _assignable_all(mapping, left.parameters, right.parameters)
        )
    return False


def _assignable_all(mapping: Mapping, left: Sequence[Type], right: Sequence[Type]) -> bool:
    return len(left) == len(right) and all(
        _assignable(mapping, a, b) for a, b in zip(left, right, strict=True)
    )


def _substitutes(mapping: Mapping, kind: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether the parameter may stand for the type, and whether it already stood for something."""
    if kind.kind is parameter.kind and kind.same(parameter):
        return True, True
    bound = mapping.get(parameter.text)
    if bound is not None:
        if kind.kind is bound.kind and kind.same(bound):
            return True, True
        if _assignable(mapping, kind, bound):
            general = most_general(kind, bound)
            if _not_within(mapping, parameter, general):
                mapping[parameter.text] = general
            return True, True
        return False, True
    if _not_within(mapping, parameter, kind):
        mapping[parameter.text] = kind
        return True, False
    return False, False


def _not_within(mapping: Mapping, parameter: Type, kind: Type) -> bool:
    if parameter.same(kind):
        return False
    if kind.kind is Kind.TYPE_PARAM:
        bound = mapping.get(kind.text)
        return bound is None or _not_within(mapping, parameter, bound)
    return all(_not_within(mapping, parameter, each) for each in kind.parameters)


def _is_less_specific(left: Type, right: Type) -> bool:
    if types.is_dyn(left) or left.kind is Kind.TYPE_PARAM:
        return True
    if types.is_dyn(right) or right.kind is Kind.TYPE_PARAM or left.kind is not right.kind:
        return False
    if left.kind in _GENERIC:
        return (
            left.name == right.name
            and len(left.parameters) == len(right.parameters)
            and all(_is_less_specific(a, b) for a, b in zip(left.parameters, right.parameters, strict=True))
        )
    return left.kind is Kind.TYPE or left.same(right)
