"""Rules for CEL expressions of selectors and derived attributes.

They are those for new expressions: what is stored already was valid once and is not judged again.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from .. import features
from ..cel import COST_LIMIT, CompileError, compile_derived_attribute, compile_selector
from ..errors import FieldError
from . import limits
from .names import byte_length, too_long

_TOO_COMPLEX: Final = "too complex, exceeds cost limit"
_RELEVANT: Final = frozenset((features.CONSUMABLE_CAPACITY, features.LIST_TYPE_ATTRIBUTES))


def validate_selector_expression(expression: str, path: str, gates: Collection[str]) -> list[FieldError]:
    """Check the expression of a selector; one of more than 10 KiB is not compiled."""
    return _validate(expression, path, gates, derived=False)[0]


def validate_derived_expression(
    expression: str, path: str, gates: Collection[str]
) -> tuple[list[FieldError], int]:
    """Check the expression of a derived attribute; also its estimated cost (0 when it does not compile)."""
    return _validate(expression, path, gates, derived=True)


def _validate(
    expression: str, path: str, gates: Collection[str], *, derived: bool
) -> tuple[list[FieldError], int]:
    if byte_length(expression) > limits.EXPRESSION:
        return [too_long(path, limits.EXPRESSION)], 0
    kind, detail, cost = _judged(expression, _RELEVANT.intersection(gates), derived)
    if kind == "Invalid":
        return [FieldError("Invalid", path, detail, expression)], cost
    return [FieldError(kind, path, detail)] if kind else [], cost


@lru_cache(maxsize=256)
def _judged(expression: str, gates: frozenset[str], derived: bool) -> tuple[str, str, int]:
    """Type and detail of the error (both empty without one), and the estimated cost."""
    try:
        if derived:
            cost = compile_derived_attribute(expression, features=gates, environment="new").estimated_cost
        else:
            cost = compile_selector(expression, features=gates, environment="new").estimated_cost
    except CompileError as error:
        return error.type, error.message, 0
    return ("Forbidden", _TOO_COMPLEX, cost) if cost > COST_LIMIT else ("", "", cost)
