"""IP addresses and prefixes as Go's `net/netip` reads and prints them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from ..gotext import quote


class AddressError(ValueError):
    """Text that is no address; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address: its number, its length in bits (32 or 128) and the zone of an IPv6 one."""

    number: int
    bits: int
    zone: str = ""

    @property
    def is_mapped(self) -> bool:
        """Whether this is an IPv4 address within IPv6."""
        return self.bits == 128 and self.number >> 32 == 0xFFFF

    def __str__(self) -> str:
        if self.bits == 32:
            return str(IPv4Address(self.number))
        if self.is_mapped:
            return f"::ffff:{IPv4Address(self.number & 0xFFFFFFFF)}"
        return str(IPv6Address(self.number)) + (f"%{self.zone}" if self.zone else "")


def parse_address(text: str) -> Address:
    """Read an address. Raises AddressError."""
    for char in text:
        if char == ".":
            return Address(_four(text, text), 32)
        if char == ":":
            return _six(text)
        if char == "%":
            raise _failed(text, "missing IPv6 address")
    raise _failed(text, "unable to parse IP")


def parse_prefix(text: str) -> tuple[Address, int]:
    """Read an address and the length of its prefix. Raises AddressError."""

    def failed(message: str) -> AddressError:
        return AddressError(f"netip.ParsePrefix({quote(text)}): {message}")

    head, slash, length = text.rpartition("/")
    if not slash:
        raise failed("no '/'")
    try:
        address = parse_address(head)
    except AddressError as error:
        raise failed(str(error)) from None
    if address.zone:
        raise failed("IPv6 zones cannot be present in a prefix")
    digits = length.isascii() and length.isdigit() and len(length) < 19
    if not digits or (len(length) > 1 and length[0] == "0"):
        raise failed(f"bad bits after slash: {quote(length)}")
    if int(length) > address.bits:
        raise failed("prefix length out of range")
    return address, int(length)


def _failed(text: str, message: str, at: str = "") -> AddressError:
    place = f" (at {quote(at)})" if at else ""
    return AddressError(f"ParseAddr({quote(text)}): {message}{place}")


def _four(text: str, part: str) -> int:
    number, value, fields, digits = 0, 0, 0, 0
    for position, char in enumerate(part):
        if char in "0123456789":
            if digits == 1 and value == 0:
                raise _failed(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _failed(text, "IPv4 field has value >255")
        elif char == ".":
            if position in (0, len(part) - 1) or part[position - 1] == ".":
                raise _failed(text, "IPv4 field must have at least one digit", part[position:])
            if fields == 3:
                raise _failed(text, "IPv4 address too long")
            number, value, fields, digits = number << 8 | value, 0, fields + 1, 0
        else:
            raise _failed(text, "unexpected character", part[position:])
    if fields < 3:
        raise _failed(text, "IPv4 address too short")
    return number << 8 | value


def _six(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _failed(text, "zone must be a non-empty string")
    octets = bytearray()
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return Address(0, 128, zone)
    while len(octets) < 16:
        digits = _hexadecimal(text, rest)
        if digits < len(rest) and rest[digits] == ".":
            if gap < 0 and len(octets) != 12:
                raise _failed(
                    text, "embedded IPv4 address must replace the final 2 fields of the address", rest
                )
            if len(octets) > 12:
                raise _failed(
                    text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest
                )
            octets += _four(text, rest).to_bytes(4, "big")
            rest = ""
            break
        octets += int(rest[:digits], 16).to_bytes(2, "big")
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise _failed(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _failed(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap >= 0:
                raise _failed(text, "multiple :: in address", rest)
            gap, rest = len(octets), rest[1:]
            if not rest:
                break
    if rest:
        raise _failed(text, "trailing garbage after address", rest)
    if len(octets) < 16:
        if gap < 0:
            raise _failed(text, "address string too short")
        octets[gap:gap] = bytes(16 - len(octets))
    elif gap >= 0:
        raise _failed(text, "the :: must expand to at least one field of zeros")
    return Address(int.from_bytes(octets, "big"), 128, zone)


def _hexadecimal(text: str, rest: str) -> int:
    digits = 0
    while digits < len(rest) and rest[digits] in "0123456789abcdefABCDEF":
        digits += 1
        if digits > 4:
            raise _failed(text, "each group must have 4 or less digits", rest)
    if not digits:
        raise _failed(text, "each colon-separated field must have at least one digit", rest)
    return digits
