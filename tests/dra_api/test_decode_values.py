from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_api.decode import DecodeError
from dra_api.decode.json_text import RawFloat
from dra_api.decode.problems import TypeMismatchError
from dra_api.decode.values import base64_text, int_or_string, integer, micro_time, quantity, time


@pytest.mark.parametrize(
    ("given_text", "printed"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
        ("2026-01-02T03:04:05.999Z", "2026-01-02T03:04:05Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("0800-01-02T03:04:05Z", "0800-01-02T03:04:05Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_time_is_printed_in_utc_and_whole_seconds(given_text: str, printed: str | None) -> None:
    assert time(given_text) == printed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-02-30T00:00:00Z", "day out of range"),
        ("2026-13-01T00:00:00Z", "month out of range"),
        ("2026-01-01T24:00:00Z", "hour out of range"),
        ("2026-01-01T00:60:00Z", "minute out of range"),
        ("2026-01-01T00:00:60Z", "second out of range"),
        ("2026-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2026-01-01", 'cannot parse "" as "T"'),
        (
            "ü",
            'parsing time "\\xc3\\xbc" as "2006-01-02T15:04:05Z07:00": cannot parse "\\xc3\\xbc" as "2006"',
        ),
        ('2026"', 'parsing time "2026\\"" as "2006-01-02T15:04:05Z07:00": cannot parse "\\"" as "-"'),
        ("2026-01-01T00:00:00Z!", 'extra text: "!"'),
    ],
)
def test_bad_time_is_refused_in_words_of_go(text: str, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        time(text)
    assert caught.value.message.endswith(reason)


def test_micro_time_needs_exactly_six_digits() -> None:
    assert micro_time("2026-01-02T03:04:05.000001+00:01") == "2026-01-02T03:03:05.000001Z"
    for text in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.12345Z", "2026-01-02T03:04:05.0000001Z"):
        with pytest.raises(DecodeError):
            micro_time(text)


def test_quantity_takes_strings_and_numbers() -> None:
    assert quantity("2048Ki") == "2Mi"
    assert quantity(1000) == "1k"
    assert quantity(RawFloat("0.5")) == "500m"
    for wrong in (True, {}, [], "", "1.5x"):
        with pytest.raises(DecodeError, match="quantities must match the regular expression"):
            quantity(wrong)


def test_integer_takes_no_fractions_strings_or_larger_numbers() -> None:
    assert integer(-(2**31), 32) == -2147483648
    for wrong, found in (
        (2**31, "number 2147483648"),
        (RawFloat("1.0"), "number 1.0"),
        ("1", "string"),
        (True, "bool"),
    ):
        with pytest.raises(TypeMismatchError) as caught:
            integer(wrong, 32)
        assert (caught.value.found, caught.value.wanted) == (found, "int32")


def test_int_or_string_keeps_what_it_is() -> None:
    assert int_or_string(80) == 80
    assert int_or_string("80") == "80"
    with pytest.raises(TypeMismatchError):
        int_or_string(2**31)


@pytest.mark.parametrize(
    ("text", "byte"),
    [("aGVsbG8", 4), ("aG*s", 2), ("aGk=x", 4), ("=aGk", 0), ("aGk=aGk=", 4), ("a===", 1), ("a\nG*s", 3)],
)
def test_bad_base64_is_refused_with_its_position(text: str, byte: int) -> None:
    with pytest.raises(DecodeError, match=f"illegal base64 data at input byte {byte}$"):
        base64_text(text)


@given(st.binary(max_size=20))
def test_base64_of_anything_stays_itself(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert base64_text(text) == text
