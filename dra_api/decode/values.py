"""Values with a text form of their own: quantities, times, base64, and numbers or names."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Final

from ..quantity import Quantity, QuantityError
from .json_text import RawFloat
from .problems import DecodeError, TypeMismatchError

_RFC3339: Final = "2006-01-02T15:04:05Z07:00"
_RFC3339_MICRO: Final = "2006-01-02T15:04:05.000000Z07:00"
_SIMPLE_TIME: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3])(?::[0-5]\d){2}Z\Z", re.A
)
_ZERO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_BASE64: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_NOT_A_QUANTITY: Final = "{}"


def kind_of(value: Any) -> str:
    """What Go calls a JSON value: string, number, bool, array, object."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


def number_text(value: float) -> str:
    """The spelling of a JSON number."""
    return value.text if isinstance(value, RawFloat) else str(value)


def quantity(value: Any, *, lasting: bool = False) -> str:
    """The text that a server prints for a quantity, from a string or a number. Raises DecodeError.

    `lasting`: Go holds it by a pointer or in a list, where it keeps its text once that was asked for.
    """
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = number_text(value) if isinstance(value, (int, float)) else _NOT_A_QUANTITY
    return _canonical_quantity(text, lasting)


class Respelled(str):
    """A quantity as a server prints it that Go holds in another form than the stored one, such as 1Gi for 1024Mi.

    Lists that have one owner are compared with the stored ones by this form.
    """

    form: Quantity
    """What was sent."""

    @property
    def is_as_read(self) -> bool:
        """Whether it is in the form of what was read from storage and never written there."""
        return self.form.same_spelling(Quantity.parse(str(self)))


@lru_cache(maxsize=4096)
def _canonical_quantity(text: str, lasting: bool) -> str:
    try:
        sent = Quantity.parse(text)
        canonical = str(sent)
        stored = Quantity.parse(canonical)
    except QuantityError as error:
        raise DecodeError(str(error)) from None
    if sent.same_spelling(stored.spelled() if lasting else stored):
        return canonical
    result = Respelled(canonical)
    result.form = sent
    return result


def time(value: Any) -> str | None:
    """A time in UTC and whole seconds, `2026-01-02T03:04:05Z`; None for Go's zero. Raises DecodeError."""
    if isinstance(value, str) and _SIMPLE_TIME.match(value) and value[0] != "0":
        return value
    moment = _moment(value, _RFC3339)
    return (
        None if moment.replace(microsecond=0) == _ZERO_TIME else f"{moment:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")
    )


def micro_time(value: Any) -> str | None:
    """The same with exactly six digits of a second, both in the input and the result."""
    moment = _moment(value, _RFC3339_MICRO)
    return None if moment == _ZERO_TIME else f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0")


def int_or_string(value: Any) -> int | str:
    """A 32-bit number or a string."""
    return value if isinstance(value, str) else integer(value, 32, final=True)


def integer(value: Any, bits: int, wanted: str = "", *, final: bool = False) -> int:
    """An integer of that size. Raises TypeMismatchError."""
    limit: int = 1 << (bits - 1)
    wanted = wanted or f"int{bits}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeMismatchError(kind_of(value), wanted, final=final)
    if isinstance(value, float) or not -limit <= value < limit:
        raise TypeMismatchError(f"number {number_text(value)}", wanted, final=final)
    return value


def base64_text(value: Any) -> str:
    """Base64 in its one canonical spelling; line breaks in the input are skipped. Raises DecodeError."""
    if not isinstance(value, str):
        raise TypeMismatchError(kind_of(value), "[]uint8")
    raw = value.encode("utf-8", "replace")
    text = raw.replace(b"\r", b"").replace(b"\n", b"")
    try:
        return base64.b64encode(binascii.a2b_base64(text, strict_mode=True)).decode()
    except binascii.Error:
        raise DecodeError(f"illegal base64 data at input byte {_base64_fault(raw)}") from None


def _base64_fault(raw: bytes) -> int:
    kept = [(index, char) for index, char in enumerate(raw) if char not in b"\r\n"]
    for position, (index, char) in enumerate(kept):
        if char in _BASE64:
            continue
        if char != 0x3D or position % 4 < 2:
            return index
        # Padding: one or two signs that fill the group of four, and nothing after them.
        fill = 4 - position % 4
        if len(kept) < position + fill:
            return len(raw)
        for after, extra in kept[position + 1 :]:
            if fill == 1 or extra != 0x3D:
                return after
            fill -= 1
    return len(raw) - len(kept) % 4


def _moment(value: Any, layout: str) -> datetime:
    if not isinstance(value, str):
        raise TypeMismatchError(kind_of(value), "string", final=True)
    return _TimeText(value, layout).read()


class _TimeText:
    """Reads one time by a layout in Go's notation and fails with Go's words."""

    def __init__(self, text: str, layout: str) -> None:
        self.text = text
        self.layout = layout
        self.rest = text

    def read(self) -> datetime:
        year = self.number("2006", 4)
        self.literal("-")
        month = self.bounded("01", "month", 1, 12)
        self.literal("-")
        day = self.number("02", 2)
        self.literal("T")
        hour = self.bounded("15", "hour", 0, 23)
        self.literal(":")
        minute = self.bounded("04", "minute", 0, 59)
        self.literal(":")
        second = self.bounded("05", "second", 0, 59)
        micro = self.fraction()
        zone = self.zone()
        if self.rest:
            raise DecodeError(f"parsing time {self.quoted(self.text)}: extra text: {self.quoted(self.rest)}")
        try:
            local = datetime(max(year, 1), month, day, hour, minute, second, micro)
        except ValueError:
            raise self.out_of_range("day") from None
        try:
            return local.replace(tzinfo=timezone(zone)).astimezone(UTC)
        except (OverflowError, ValueError):
            raise self.out_of_range("year") from None

    def literal(self, char: str) -> None:
        if not self.rest.startswith(char):
            raise self.unreadable(char)
        self.rest = self.rest[1:]

    def number(self, element: str, width: int) -> int:
        digits = self.rest[:width]
        if len(digits) < width or not (digits.isascii() and digits.isdigit()):
            raise self.unreadable(element)
        self.rest = self.rest[width:]
        return int(digits)

    def bounded(self, element: str, name: str, low: int, high: int) -> int:
        value = self.number(element, 2)
        if not low <= value <= high:
            raise self.out_of_range(name)
        return value

    def fraction(self) -> int:
        found = re.match(r"[.,](\d+)", self.rest, re.A)
        if self.layout == _RFC3339_MICRO:
            if found is None or len(found[1]) < 6:
                raise self.unreadable(".000000")
            self.rest = self.rest[7:]
            return int(found[1][:6])
        if found is not None:
            self.rest = self.rest[found.end() :]
        return 0

    def zone(self) -> timedelta:
        if self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            return timedelta(0)
        found = re.match(r"([+-])(\d\d):(\d\d)", self.rest, re.A)
        if found is None:
            raise self.unreadable("Z07:00")
        hours, minutes = int(found[2]), int(found[3])
        if hours > 24:
            raise self.out_of_range("time zone offset hour")
        if minutes > 60:
            raise self.out_of_range("time zone offset minute")
        self.rest = self.rest[6:]
        offset = timedelta(hours=hours, minutes=minutes)
        return -offset if found[1] == "-" else offset

    def unreadable(self, element: str) -> DecodeError:
        text, rest = self.quoted(self.text), self.quoted(self.rest)
        return DecodeError(f'parsing time {text} as "{self.layout}": cannot parse {rest} as "{element}"')

    def out_of_range(self, name: str) -> DecodeError:
        return DecodeError(f"parsing time {self.quoted(self.text)}: {name} out of range")

    @staticmethod
    def quoted(text: str) -> str:
        shown = text.replace("\\", "\\\\").replace('"', '\\"')
        # Go prints the bytes of all that is not ASCII, or controls, by their numbers.
        return '"' + "".join(one if " " <= one < "\x80" else _bytes_of(one) for one in shown) + '"'


def _bytes_of(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
