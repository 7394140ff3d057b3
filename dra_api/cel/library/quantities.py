"""Quantities (apiserver `pkg/cel/library/quantity.go`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ...quantity import DECIMAL_EXPONENT, Quantity, QuantityError
from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..errors import EvalError
from ..values import QUANTITY, ComputedQuantity

UNIT_EQUALITY.update((Quantity, ComputedQuantity))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise EvalError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(value: Quantity) -> int:
    number = value.as_int64()
    if number is None:
        raise EvalError("cannot convert value to integer")
    return number


def _computed(value: Quantity) -> Quantity:
    value.__class__ = ComputedQuantity
    return value


def _add(left: Quantity, right: Quantity) -> Quantity:
    return _computed(left + right)


def _subtract(left: Quantity, right: Quantity) -> Quantity:
    return _computed(left - right)


def _from_int(number: int) -> Quantity:
    return Quantity(number, 0, DECIMAL_EXPONENT)


def _member(name: str, id: str, result: types.Type, call: Any, *others: types.Type) -> Function:
    return Function(name, (Overload(id, (QUANTITY, *others), result, member=True, call=call),))


QUANTITIES: Final = library(
    Function("quantity", (Overload("string_to_quantity", (types.STRING,), QUANTITY, call=_parse),)),
    Function("isQuantity", (Overload("is_quantity_string", (types.STRING,), types.BOOL, call=_is_quantity),)),
    # Declared without a receiver, although the documentation calls it as a member.
    Function("sign", (Overload("quantity_sign", (QUANTITY,), types.INT, call=lambda value: value.sign),)),
    _member("isGreaterThan", "quantity_is_greater_than", types.BOOL, lambda a, b: a.compare(b) > 0, QUANTITY),
    _member("isLessThan", "quantity_is_less_than", types.BOOL, lambda a, b: a.compare(b) < 0, QUANTITY),
    _member("compareTo", "quantity_compare_to", types.INT, lambda a, b: a.compare(b), QUANTITY),
    _member(
        "asApproximateFloat", "quantity_get_float", types.DOUBLE, lambda value: value.approximate_float()
    ),
    _member("asInteger", "quantity_get_int", types.INT, _as_integer),
    _member("isInteger", "quantity_is_integer", types.BOOL, lambda value: value.as_int64() is not None),
    _member("add", "quantity_add", QUANTITY, _add, QUANTITY),
    _member("add", "quantity_add_int", QUANTITY, lambda value, n: _add(value, _from_int(n)), types.INT),
    _member("sub", "quantity_sub", QUANTITY, _subtract, QUANTITY),
    _member("sub", "quantity_sub_int", QUANTITY, lambda value, n: _subtract(value, _from_int(n)), types.INT),
)
"""Functions of quantities."""
