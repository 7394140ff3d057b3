from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.quantity import BINARY_SI, Quantity, QuantityError

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "quantity.json").read_text(encoding="utf-8")
)


def test_every_string_of_the_table_reads_as_upstream() -> None:
    for row in TABLE["parsed"]:
        if "error" in row:
            with pytest.raises(QuantityError) as caught:
                Quantity.parse(row["text"])
            assert str(caught.value) == row["error"], row
            continue
        quantity = Quantity.parse(row["text"])
        seen = {
            "text": row["text"],
            "printed": str(quantity),
            "canonical": quantity.canonical(),
            "format": quantity.format,
            "value": quantity.value(),
            "milli": quantity.milli_value(),
            "int64": quantity.as_int64(),
        }
        assert seen == row


def test_arithmetic_of_the_table_is_that_of_upstream() -> None:
    for row in TABLE["arithmetic"]:
        a, b = Quantity.parse(row["a"]), Quantity.parse(row["b"])
        seen = row | {
            "compare": a.compare(b),
            "sum": str(a + b),
            "difference": str(a - b),
            "product": str(a * row["factor"]),
        }
        assert seen == row


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1.5Gi", "1536Mi"),
        ("1.5", "1500m"),
        ("0.1n", "1n"),
        ("12e6", "12e6"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("8Ei", "9223372036854775807"),
        ("1000000", "1M"),
    ],
)
def test_printed_form(text: str, printed: str) -> None:
    assert str(Quantity.parse(text)) == printed


def test_equal_values_are_equal_and_hash_alike_in_any_notation() -> None:
    assert len({Quantity.parse(text) for text in ("1", "1000m", "1.000", "10e-1")}) == 1
    assert Quantity.parse("1Ki") == Quantity(1024, 0, BINARY_SI)


def test_as_int_is_exact_where_as_int64_gives_up() -> None:
    assert Quantity.parse("2000m").as_int64() is None
    assert Quantity.parse("2000m").as_int() == 2
    assert Quantity.parse("1500m").as_int() is None


def test_enormous_exponents_cost_nothing() -> None:
    huge = Quantity.parse("1e2147483647")
    assert huge > Quantity.parse("9" * 5000)
    assert huge.value() == 0
    assert Quantity.parse("99999999999999999999e-2000000000") == Quantity.parse("1n")
    with pytest.raises(OverflowError, match="differ too much"):
        _ = huge + Quantity.parse("1")


NUMBERS = st.builds(
    lambda whole, fraction, suffix: f"{whole}{'.' + fraction if fraction else ''}{suffix}",
    st.integers(-(10**20), 10**20),
    st.text("0123456789", max_size=5),
    st.sampled_from(["", "m", "u", "k", "M", "G", "e3", "e-2"]),
)
SCALE = {"": 0, "m": -3, "u": -6, "k": 3, "M": 6, "G": 9, "e3": 3, "e-2": -2}


def exact(text: str) -> Fraction:
    """The number by fractions alone, finer than a nano rounded away from zero."""
    suffix = text.lstrip("-0123456789.")
    amount = Fraction(text[: len(text) - len(suffix)]) * Fraction(10) ** SCALE[suffix]
    nanos = abs(amount) * 10**9
    rounded = -(-nanos.numerator // nanos.denominator)
    return Fraction(rounded if amount >= 0 else -rounded, 10**9)


@given(NUMBERS, NUMBERS)
def test_order_and_sums_follow_exact_fractions(a: str, b: str) -> None:
    left, right = Quantity.parse(a), Quantity.parse(b)
    assert (left < right) == (exact(a) < exact(b))
    assert (left == right) == (exact(a) == exact(b))
    assert ((left + right) - right) == left


@given(NUMBERS)
def test_printing_and_reading_again_keeps_the_value(text: str) -> None:
    quantity = Quantity.parse(text)
    if abs(exact(text)) < 10**20:  # beyond E there is no suffix and upstream itself loses the exponent
        assert Quantity.parse(quantity.canonical()) == quantity
    assert Quantity.parse(str(Quantity.parse(quantity.canonical()))).canonical() == quantity.canonical()
