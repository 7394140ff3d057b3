"""Ranges of sizes and costs, capped where upstream's unsigned integers end (cel-go `checker/cost.go`)."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

MAX: Final = 2**64 - 1


class Range(NamedTuple):
    """A size or cost between two bounds."""

    low: int
    high: int

    def plus(self, other: Range) -> Range:
        """The sum."""
        return Range(min(self.low + other.low, MAX), min(self.high + other.high, MAX))

    def times(self, other: Range) -> Range:
        """The product."""
        return Range(min(self.low * other.low, MAX), min(self.high * other.high, MAX))

    def scaled(self, factor: float) -> Range:
        """The product with a factor, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: Range) -> Range:
        """The range that encloses both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


def _scaled(number: int, factor: float) -> int:
    value = float(number)
    if value > 0 and factor > 0 and value > float(MAX) / factor:
        return MAX
    product = ceil(value * factor)
    return MAX if product >= 2**64 else product


def fixed(number: int) -> Range:
    """An exact size or cost."""
    return Range(number, number)


UNKNOWN: Final = Range(0, MAX)
ZERO: Final = Range(0, 0)
ONE: Final = Range(1, 1)


class CallEstimate(NamedTuple):
    """The cost of a call, and the size of its result when it has one."""

    cost: Range
    size: Range | None = None
