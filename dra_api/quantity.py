"""Kubernetes quantities (`1500m`, `2Gi`, `1e3`): exact, and printed as the API server prints them.

A quantity is an integer times a power of ten. Upstream keeps small ones in an int64 and the rest in an
arbitrary precision decimal, and several observable results depend on which of the two it is: what `as_int64`
refuses, how `value` rounds negative numbers and overflows. `_wide` records that. Source: apimachinery
`api/resource` v0.37.2, compared on thousands of strings (tests/dra_api/data/quantity.json).
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from .quantity_notation import (
    BINARY_NAMES,
    BINARY_SI,
    DECIMAL_EXPONENT,
    DECIMAL_NAMES,
    DECIMAL_SI,
    WRONG_FORMAT,
    WRONG_NUMBER,
    QuantityError,
    digits,
    integer,
    interpret,
    split,
    wrap32,
)

__all__ = ["BINARY_SI", "DECIMAL_EXPONENT", "DECIMAL_SI", "Quantity", "QuantityError"]

_MAX_INT64: Final = 2**63 - 1
_MIN_INT64: Final = -(2**63)
_NANO: Final = -9
_MAX_DIGITS: Final = 18  # decimal digits that always fit an int64
# Powers above this are not multiplied out: `9e999999999` must not eat the memory.
_LAZY_EXPONENT: Final = 10_000
_WRAPPING_POWERS: Final = frozenset({1, 2, 3, 6, 9})  # upstream's single multiplications


class Quantity:
    """An exact decimal number that remembers its notation.

    Quantities compare and hash by value (`1000m == 1`), never by spelling. They are immutable; arithmetic
    returns new ones. `format` is the notation (`DecimalSI`, `BinarySI`, `DecimalExponent`).
    """

    __slots__ = ("_exponent", "_text", "_unscaled", "_wide", "format")

    def __init__(self, unscaled: int, exponent: int = 0, format: str = DECIMAL_SI) -> None:
        """The number `unscaled * 10**exponent`."""
        self._unscaled = unscaled
        self._exponent = exponent
        self._wide = not _MIN_INT64 <= unscaled <= _MAX_INT64
        self._text: str | None = None
        self.format = format

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity.

        Raises QuantityError with the text of the API server. Finer than one nano is rounded away from zero;
        binary notation is capped at 2**63-1.
        """
        if not isinstance(text, str) or not text:
            raise QuantityError(WRONG_FORMAT)
        negative, whole, fraction, suffix, digits_seen = split(text)
        notation, exponent = interpret(suffix)
        narrow = _parse_narrow(negative, whole, fraction, notation, exponent)
        if narrow is not None:
            result, shifted, value = narrow
            result._text = text if _keeps_spelling(result, shifted, value) else None
            return result
        if not digits_seen:
            raise QuantityError(WRONG_NUMBER)
        return _parse_wide(negative, whole, fraction, notation, exponent)

    def same_spelling(self, other: Quantity) -> bool:
        """Whether upstream holds both in the same form, so that a comparison field by field finds them equal."""
        return all(getattr(self, name) == getattr(other, name) for name in Quantity.__slots__)

    def spelled(self) -> Quantity:
        """The same quantity as upstream holds it once its text was asked for: with that text beside it."""
        result = Quantity(self._unscaled, self._exponent, self.format)
        result._wide, result._text = self._wide, str(self)
        return result

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    def is_zero(self) -> bool:
        """Whether the value is zero."""
        return self._unscaled == 0

    def as_int64(self) -> int | None:
        """The value when upstream's AsInt64 yields one, else None.

        None also for whole numbers that are held in finer units or as wide decimals: `1000m`, `8Ei`.
        """
        if self._wide or self._exponent < 0:
            return None
        return _scale_up(self._unscaled, self._exponent)

    def as_int(self) -> int | None:
        """The exact value when it is a whole number below 10**10000, else None."""
        if self._exponent >= 0:
            return None if self._exponent > _LAZY_EXPONENT else self._unscaled * 10**self._exponent
        whole, rest = divmod(self._unscaled, 10**-self._exponent)
        return whole if rest == 0 else None

    def value(self) -> int:
        """The value as int64, rounded up, with upstream's overflow (see `scaled_value`)."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """The value in thousandths as int64, rounded up, with upstream's overflow (see `scaled_value`)."""
        return self.scaled_value(-3)

    def scaled_value(self, scale: int) -> int:
        """The value in units of 10**scale as int64.

        Narrow quantities round away from zero; on overflow they wrap for some factors and yield 0 for the
        others. Wide ones wrap, and round up, or (below 2**63 in units of their own) add one to the truncated
        value. All as upstream does.
        """
        shift = self._exponent - scale
        if not self._wide:
            if shift < 0:
                return _divide_away(self._unscaled, -shift)[0]
            scaled = _scale_up(self._unscaled, shift)
            if scaled is None:
                return _wrap64(self._unscaled * 10**shift) if shift in _WRAPPING_POWERS else 0
            return scaled
        if shift >= 0:
            # Upstream computes the factor as a double, which saturates at the least int64.
            factor: int = 10**shift if shift <= _MAX_DIGITS else _MIN_INT64
            return _wrap64(self._unscaled * (factor if shift else 1))
        divisor: int = 10**-shift
        if self._unscaled < _MAX_INT64 and -shift < 19:
            low = _wrap64(self._unscaled)
            whole = abs(low) // divisor * (1 if low >= 0 else -1)
            return whole + 1 if low - whole * divisor else whole
        return _wrap64(-(-self._unscaled // divisor))

    def round_up(self, scale: int) -> Quantity:
        """The value rounded away from zero to whole units of 10**scale."""
        if self._exponent >= scale:
            return self
        result = Quantity(_divide_away(self._unscaled, scale - self._exponent)[0], scale, self.format)
        result._wide = self._wide or result._wide
        return result

    def approximate_float(self) -> float:
        """The nearest double (infinite when too large)."""
        try:
            return float(Decimal(self._unscaled).scaleb(self._exponent)) if self._unscaled else 0.0
        except ArithmeticError:
            return float(self.sign) * float("inf") if self._exponent > 0 else 0.0

    def decimal(self) -> str:
        """The plain decimal number with the places it is held with: `1.500` for `1500m`, `1.5` for `1.5`.

        Raises OverflowError for exponents beyond 10000.
        """
        if self._exponent >= 0:
            if self._exponent > _LAZY_EXPONENT:
                raise OverflowError(f"{self} has too many digits to be written out")
            return digits(self._unscaled * 10**self._exponent)
        places = -self._exponent
        text = digits(abs(self._unscaled)).rjust(places + 1, "0")
        return f"{'-' if self._unscaled < 0 else ''}{text[:-places]}.{text[-places:]}"

    def canonical(self) -> str:
        """The value printed afresh, without memory of how it was spelled."""
        if not self._unscaled:
            return "0"
        if self.format == BINARY_SI and (self.compare_int(-1024) <= 0 or self.compare_int(1024) >= 0):
            whole = self.as_int()
            if whole is not None:
                amount, times = _remove_factors(whole, 1024)
                return digits(amount) + BINARY_NAMES.get(times * 10, "")
        amount, times = _remove_factors(self._unscaled, 10)
        exponent = self._exponent + times
        amount *= (1, 10, 100)[exponent % 3]
        exponent -= exponent % 3
        if self.format == DECIMAL_EXPONENT:
            return digits(amount) + (f"e{exponent}" if exponent else "")
        # A suffix beyond E does not exist and upstream prints none: `1000E` comes back as `1`.
        return digits(amount) + DECIMAL_NAMES.get(exponent, "")

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1 by value."""
        if self._exponent == other._exponent:
            return (self._unscaled > other._unscaled) - (self._unscaled < other._unscaled)
        if self.sign != other.sign or not self._unscaled:
            return (self.sign > other.sign) - (self.sign < other.sign)
        shift = self._exponent - other._exponent
        # Far apart exponents are decided by magnitude: multiplying them out could need gigabytes.
        magnitude: int = _bits(self) - _bits(other)
        if abs(shift) > 400 and abs(magnitude) > 64:
            return self.sign if magnitude > 0 else -self.sign
        mine: int = self._unscaled * 10 ** max(shift, 0)
        theirs: int = other._unscaled * 10 ** max(-shift, 0)
        return (mine > theirs) - (mine < theirs)

    def compare_int(self, number: int) -> int:
        """-1, 0 or 1 against an integer."""
        return self.compare(Quantity(number))

    def __add__(self, other: Quantity) -> Quantity:
        notation = other.format if self.is_zero() else self.format
        if not self._wide and not other._wide:
            if not other._unscaled:
                return Quantity(self._unscaled, self._exponent, notation)
            if not self._unscaled:
                return Quantity(other._unscaled, other._exponent, notation)
        if abs(self._exponent - other._exponent) > 2 * _LAZY_EXPONENT:
            raise OverflowError(f"{self} and {other} differ too much in magnitude to be added exactly")
        exponent = min(self._exponent, other._exponent)
        mine = self._unscaled * 10 ** (self._exponent - exponent)
        theirs = other._unscaled * 10 ** (other._exponent - exponent)
        result = Quantity(mine + theirs, exponent, notation)
        result._wide = (
            self._wide
            or other._wide
            or result._wide
            or any(not _MIN_INT64 <= part <= _MAX_INT64 for part in (mine, theirs))
        )
        return result

    def __neg__(self) -> Quantity:
        result = Quantity(-self._unscaled, self._exponent, self.format)
        result._wide = self._wide or result._wide
        return result

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __mul__(self, factor: int) -> Quantity:
        if not self._wide and (not self._unscaled or not factor):
            return Quantity(0, self._exponent if not self._unscaled else 0, self.format)
        product = Quantity(self._unscaled * factor, self._exponent, self.format)
        if self._exponent > 0:
            fits = _scale_up(product._unscaled, self._exponent) is not None
        else:
            fits = _divide_away(product._unscaled, -self._exponent)[1]
        product._wide = self._wide or product._wide or not fits
        return product

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        amount, times = _remove_factors(self._unscaled, 10)
        return hash((amount, self._exponent + times if amount else 0))

    def __str__(self) -> str:
        return self._text if self._text is not None else self.canonical()

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def _parse_narrow(
    negative: bool, whole: str, fraction: str, notation: str, exponent: int
) -> tuple[Quantity, str, int] | None:
    """The int64 form with the joined digits and their value, or None when it has no place there."""
    multiplier = 1
    if notation == BINARY_SI:
        if fraction:
            return None
        multiplier = 1 << exponent
        precision = 15 - len(whole) - exponent * 3 // 10 - 1
        scale = 0
    else:
        precision = _MAX_DIGITS - len(whole) - len(fraction)
        scale = wrap32(exponent - len(fraction))
    if precision < 0 or scale < _NANO:
        return None
    shifted = whole + fraction
    value = int(shifted)
    number = value * multiplier
    if number > _MAX_INT64:
        return None
    return Quantity(-number if negative else number, scale, notation), shifted, value


def _keeps_spelling(result: Quantity, shifted: str, value: int) -> bool:
    """Whether upstream prints the spelling unchanged, as it does even for `+1` and `1.500`."""
    if result.format == BINARY_SI:
        return value & 7 != 0
    return result._exponent % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"


def _parse_wide(negative: bool, whole: str, fraction: str, notation: str, exponent: int) -> Quantity:
    number = integer(whole + fraction)
    scale = -len(fraction)
    if notation == BINARY_SI:
        number <<= exponent
    else:
        scale = -wrap32(-scale - exponent)
    if number:
        number, scale = _at_nano(number, scale)
    if notation == BINARY_SI and scale <= 0:
        unit = 10**-scale
        if number > _MAX_INT64 * unit:
            number, scale = _MAX_INT64, 0
        elif 0 < number < unit:
            notation = DECIMAL_SI
    result = Quantity(-number if negative else number, scale, notation)
    result._wide = True
    return result


def _at_nano(number: int, scale: int) -> tuple[int, int]:
    """A positive number in units of 1e-9, rounded up; left alone when the factor would be enormous."""
    shift = scale - _NANO
    if shift > _LAZY_EXPONENT:
        return number, scale
    if shift >= 0:
        return number * 10**shift, _NANO
    if -shift > number.bit_length():  # 10**k exceeds a number of fewer than k bits by far
        return 1, _NANO
    return -(-number // 10**-shift), _NANO


def _scale_up(number: int, power: int) -> int | None:
    """`number * 10**power`, or None when that is no int64."""
    if not number:
        return 0
    if power > _MAX_DIGITS:
        return None
    result = number * 10**power
    return result if _MIN_INT64 <= result <= _MAX_INT64 else None


def _divide_away(number: int, power: int) -> tuple[int, bool]:
    """`number / 10**power` rounded away from zero, and whether it was exact."""
    quotient, rest = divmod(abs(number), 10**power)
    quotient += rest > 0
    return (quotient if number >= 0 else -quotient), rest == 0


def _remove_factors(number: int, factor: int) -> tuple[int, int]:
    times = 0
    while number and number % factor == 0:
        number //= factor
        times += 1
    return number, times


def _bits(quantity: Quantity) -> int:
    """Roughly log2 of the magnitude (wrong by less than 64 below exponents of 2**31)."""
    return quantity._unscaled.bit_length() + quantity._exponent * 3321928095 // 1_000_000_000


def _wrap64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63
