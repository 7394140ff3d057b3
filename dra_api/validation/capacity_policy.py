"""Rules for the request policy of a shareable capacity."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from .. import features
from ..quantity import Quantity
from . import limits
from .findings import Findings
from .names import too_many

_MAX_INT64: Final = 2**63 - 1


def check_request_policy(
    found: Findings, capacity: Mapping[str, Any], path: str, gates: Collection[str]
) -> None:
    """Check `requestPolicy` of a capacity whose device allows multiple allocations."""
    policy = capacity["requestPolicy"]
    maximum = Quantity.parse(str(capacity.get("value") or "0"))
    values, limits_ = policy.get("validValues") or [], policy.get("validRange")
    default = policy.get("default")
    fractional = features.FRACTIONAL_CAPACITY_RANGE in gates
    if values and limits_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        found.forbidden(path, text)
    elif values:
        if default is None:
            found.required(f"{path}.default", "required when validValues is defined")
        else:
            options = [Quantity.parse(str(value)) for value in values]
            wanted = Quantity.parse(str(default))
            _check_values(found, options, wanted, maximum, f"{path}.validValues", fractional)
    elif limits_ is not None:
        if default is None:
            found.required(f"{path}.default", "required when validRange is defined")
        else:
            bounds = {
                name: Quantity.parse(str(value)) for name, value in limits_.items() if value is not None
            }
            wanted = Quantity.parse(str(default))
            _check_range(found, {"default": wanted, **bounds}, maximum, f"{path}.validRange", fractional)


def _check_values(
    found: Findings,
    options: list[Quantity],
    default: Quantity,
    maximum: Quantity,
    path: str,
    fractional: bool,
) -> None:
    for index in range(1, len(options)):
        if options[index - 1] > options[index]:
            found.invalid(f"{path}[{index}]", str(options[index]), "values must be sorted in ascending order")
    listed = False
    if len(options) > limits.VALID_VALUES:
        found.add(too_many(path, len(options), limits.VALID_VALUES))
    else:
        for index, option in enumerate(options):
            if option > maximum:
                text = f"option is larger than capacity value: {maximum}"
                found.invalid(f"{path}[{index}]", str(option), text)
            listed = listed or option == default
        seen: set[Any] = set()
        for index, option in enumerate(options):
            # Without the gate values that round up to the same whole number are duplicates.
            key = option.decimal() if fractional else str(option.value())
            if key in seen:
                found.duplicate(f"{path}[{index}]", key)
            seen.add(key)
    if not listed:
        found.invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _check_range(
    found: Findings, bounds: dict[str, Quantity], maximum: Quantity, path: str, fractional: bool
) -> None:
    """`bounds` holds min, max and step of the range and the default; all errors stand below the range."""
    default, low, high, step = (bounds.get(name) for name in ("default", "min", "max", "step"))
    if default is None or low is None:
        found.required(f"{path}.min", "required when validRange is defined")
        return
    if low > maximum:
        found.invalid(f"{path}.min", str(low), f"min is larger than capacity value: {maximum}")
    if default < low:
        found.invalid(f"{path}.default", str(default), f"default is less than min: {low}")
    if high is not None:
        if low > high:
            found.invalid(f"{path}.max", str(low), f"min is larger than max: {high}")
        if high > maximum:
            found.invalid(f"{path}.max", str(high), f"max is larger than capacity value: {maximum}")
        if default > high:
            found.invalid(f"{path}.default", str(default), f"default is more than max: {high}")
    milli = fractional and any(quantity.as_int() is None for quantity in bounds.values())
    if milli and not _fit_milli(found, bounds, path):
        return
    if step is None:
        return
    if step.sign <= 0:
        found.invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if low + step > maximum:
        text = f"one step {low + step} is larger than capacity value: {maximum}"
        found.invalid(f"{path}.step", str(step), text)
    if not milli and not _fit_int64(found, bounds, path):
        return
    for value in (default, high):
        if value is not None and (_units(value, milli) - _units(low, milli)) % _units(step, milli):
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            found.invalid(f"{path}.step", str(value), text)


def _units(quantity: Quantity, milli: bool) -> int:
    return quantity.milli_value() if milli else quantity.value()


def _fit_milli(found: Findings, bounds: dict[str, Quantity], path: str) -> bool:
    fits = True
    for name in ("default", "min", "max", "step"):
        quantity = bounds.get(name)
        if quantity is not None and Quantity(quantity.milli_value(), -3) != quantity:
            found.invalid(f"{path}.{name}", str(quantity), "value cannot be represented as a milli value")
            fits = False
    return fits


def _fit_int64(found: Findings, bounds: dict[str, Quantity], path: str) -> bool:
    """Whether whole-number arithmetic is possible: everything within 0 and 2**63-1."""
    fits = True
    for name in ("default", "min", "max", "step"):
        quantity = bounds.get(name)
        if quantity is None:
            continue
        if quantity.sign < 0:
            found.invalid(f"{path}.{name}", str(quantity), "must be greater than or equal to 0")
            fits = False
        elif quantity.compare_int(_MAX_INT64) > 0:
            found.invalid(f"{path}.{name}", str(quantity), f"must not be larger than {_MAX_INT64}")
            fits = False
    return fits
