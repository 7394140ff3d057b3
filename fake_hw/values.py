"""Conversions of the values of a topology document: text in, value out, ValueError saying what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_MAX_CPU: Final = 4095
_UNITS: Final = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BDF: Final = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")


def text(value: str) -> str:
    """One line of printable text, not empty."""
    if not value.strip():
        raise ValueError("must not be empty; leave the field out instead")
    if not value.isprintable():
        raise ValueError("must be one line of printable characters")
    return value


def machine_name(value: str) -> str:
    """The name of a machine: 1 to 63 characters, as in a host name."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", value):
        raise ValueError(
            "must be 1 to 63 lower case letters, digits, '-' or '.', with a letter or digit at both ends"
        )
    return value


def module_name(value: str) -> str:
    """The name of a kernel module."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", value):
        raise ValueError(
            "must be a kernel module name: a lower case letter, then letters, digits or '_', at most 32"
        )
    return value


def number(low: int, high: int) -> Callable[[str], int]:
    """A converter to a whole number between two bounds, both allowed."""

    def convert(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", value) or not low <= int(value) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(value)

    return convert


def boolean(value: str) -> bool:
    """true or false."""
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def memory(value: str) -> int:
    """Bytes, from a number with an optional binary unit."""
    match = re.fullmatch(r"([0-9]{1,18})(Ki|Mi|Gi|Ti|)", value)
    if not match or int(match[1]) == 0:
        raise ValueError("must be a positive number of bytes, optionally with Ki, Mi, Gi or Ti, such as 24Gi")
    return int(match[1]) * _UNITS[match[2]]


def hex_id(digits: int, prefix: str = "") -> Callable[[str], str]:
    """A converter that checks a sysfs id such as `0x10de`, optionally with fixed first digits."""
    example = "0x" + (prefix + "10de20")[:digits]

    def convert(value: str) -> str:
        if not re.fullmatch(rf"0x{prefix}[0-9a-f]{{{digits - len(prefix)}}}", value):
            starting = f" starting with 0x{prefix}" if prefix else ""
            raise ValueError(f"must be {digits} lower case hex digits after 0x{starting}, such as {example}")
        return value

    return convert


def bdf(value: str) -> str:
    """Check a PCI address `dddd:bb:dd.f`; raises ValueError."""
    if not _BDF.fullmatch(value):
        lower = value.lower()
        hint = f'; did you mean "{lower}"?' if lower != value and _BDF.fullmatch(lower) else ""
        raise ValueError(
            "must be a PCI address domain:bus:device.function in lower case hex, with a device of at most 1f"
            f" and a function of at most 7, such as 0000:65:01.0{hint}"
        )
    return value


def root_id(value: str) -> str:
    """A PCI root complex such as `pci0000:64`."""
    if not re.fullmatch(r"pci[0-9a-f]{4}:[0-9a-f]{2}", value):
        raise ValueError("must be pci, domain and bus in lower case hex, such as pci0000:64")
    return value


def cpu_list(value: str) -> tuple[int, ...]:
    """The numbers of a kernel CPU list such as `0-3,8`; raises ValueError."""
    numbers: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", part.strip())
        if not match:
            raise ValueError("must be a list of CPU numbers and ranges, such as 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last or last > _MAX_CPU:
            raise ValueError(f"must have ranges that go up, with numbers of at most {_MAX_CPU}")
        numbers.extend(range(first, last + 1))
    if len(set(numbers)) != len(numbers):
        raise ValueError("must name each CPU once")
    return tuple(sorted(numbers))
