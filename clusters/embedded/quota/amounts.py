"""Amounts of resources by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dra_api.quantity import Quantity

Amounts = dict[str, Quantity]


def parse(resources: Mapping[str, Any] | None) -> Amounts:
    """The amounts of a resource list of the API."""
    return {name: Quantity.parse(str(text)) for name, text in (resources or {}).items()}


def as_json(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """The resource list of the API, by name."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def shown(amounts: Mapping[str, Quantity]) -> str:
    """Amounts as error texts show them: `a=1,b=2`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def add(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    """The sums."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name] + amount if name in result else amount
    return result


def largest(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Amounts:
    """The larger of each."""
    result = dict(left)
    for name, amount in right.items():
        if name not in result or result[name] <= amount:
            result[name] = amount
    return result


def increase(new: Mapping[str, Quantity], old: Mapping[str, Quantity]) -> Amounts:
    """By how much amounts grew; what shrank counts as zero."""
    result: Amounts = {}
    for name in (*new, *(name for name in old if name not in new)):
        grown = new[name] - old[name] if name in new and name in old else new.get(name)
        result[name] = grown if grown is not None and grown.sign > 0 else Quantity(0)
    return result


def mask(amounts: Mapping[str, Quantity], names: Collection[str]) -> Amounts:
    """The amounts with these names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def nonzero(amounts: Mapping[str, Quantity]) -> Amounts:
    """The amounts that are not zero."""
    return {name: amount for name, amount in amounts.items() if not amount.is_zero()}


def count(number: int) -> Quantity:
    """A number of things."""
    return Quantity(number)
