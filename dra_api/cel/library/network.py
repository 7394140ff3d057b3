"""IP addresses and CIDRs (apiserver `pkg/cel/library/ip.go` and `cidr.go`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .. import types
from ..call_costs import UNIT_EQUALITY
from ..declarations import Function, Overload, library
from ..errors import EvalError, no_such_overload
from ..gotext import quote
from ..types import Type
from ..values import EQUALITY, GO_NAMES, RUNTIME_TYPES
from .addresses import Address, AddressError, parse_address, parse_prefix

IP_TYPE: Final = types.opaque("net.IP")
CIDR_TYPE: Final = types.opaque("net.CIDR")
_S: Final = types.STRING
_B: Final = types.BOOL
_ALL_ONES: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class IP:
    """An IP address; its size is that in bytes."""

    address: Address

    @property
    def cel_size(self) -> int:
        """Length in bytes."""
        return self.address.bits // 8

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address with the length of a prefix; its size is that of the prefix in bytes, rounded up."""

    address: Address
    length: int

    @property
    def cel_size(self) -> int:
        """Length of the prefix in bytes."""
        return (self.length + 7) // 8

    @property
    def network(self) -> int:
        """The number of the prefix."""
        return self.address.number >> (self.address.bits - self.length)

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


for _class, _type, _go in ((IP, IP_TYPE, "cel.IP"), (CIDR, CIDR_TYPE, "cel.CIDR")):
    RUNTIME_TYPES[_class] = _type
    GO_NAMES[_class] = _go
    EQUALITY[_class] = lambda left, right: left == right if type(right) is type(left) else None
    UNIT_EQUALITY.add(_class)


def _parse_ip(text: str) -> IP:
    try:
        address = parse_address(text)
    except AddressError as error:
        raise EvalError(
            f"IP Address {quote(text)} parse error during conversion from string: {error}"
        ) from None
    if address.zone:
        raise EvalError(f"IP address {quote(text)} with zone value is not allowed")
    if address.is_mapped:
        raise EvalError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


def _parse_cidr(text: str) -> CIDR:
    try:
        address, length = parse_prefix(text)
    except AddressError as error:
        failure = f"network address parse error during conversion from string: {error}"
    else:
        if not address.is_mapped:
            return CIDR(address, length)
        failure = f"IPv4-mapped IPv6 address {quote(text)} is not allowed"
    raise EvalError(f"network address parse error during conversion from string: {failure}")


def _valid(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def valid(text: str) -> bool:
        try:
            parse(text)
        except EvalError:
            return False
        return True

    return valid


def _contains_ip(cidr: CIDR, ip: IP) -> bool:
    if ip.address.bits != cidr.address.bits:
        return False
    return CIDR(ip.address, cidr.length).network == cidr.network


def _contains_ip_text(cidr: CIDR, text: str) -> bool:
    return _contains_ip(cidr, _for_cidr(_parse_ip, text))


def _contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    if cidr.length > other.length:
        return False
    return _contains_ip(cidr, IP(other.address))


def _contains_cidr_text(cidr: CIDR, text: str) -> bool:
    return _contains_cidr(cidr, _parse_cidr(text))


def _for_cidr(parse: Callable[[str], IP], text: str) -> IP:
    try:
        return parse(text)
    except EvalError:
        # Upstream looks at the wrong operand when it passes the error on.
        raise no_such_overload() from None


def _masked(cidr: CIDR) -> CIDR:
    free = cidr.address.bits - cidr.length
    return CIDR(Address(cidr.address.number >> free << free, cidr.address.bits), cidr.length)


def _is_loopback(ip: IP) -> bool:
    return ip.address.number >> 24 == 127 if ip.address.bits == 32 else ip.address.number == 1


def _is_link_local_multicast(ip: IP) -> bool:
    number = ip.address.number
    return number >> 8 == 0xE00000 if ip.address.bits == 32 else number >> 112 & 0xFF0F == 0xFF02


def _is_link_local_unicast(ip: IP) -> bool:
    number = ip.address.number
    return number >> 16 == 0xA9FE if ip.address.bits == 32 else number >> 112 & 0xFFC0 == 0xFE80


def _is_multicast(ip: IP) -> bool:
    number = ip.address.number
    return number >> 28 == 0xE if ip.address.bits == 32 else number >> 120 == 0xFF


def _is_global_unicast(ip: IP) -> bool:
    number = ip.address.number
    if number == 0 or (ip.address.bits == 32 and number == _ALL_ONES):
        return False
    return not (_is_loopback(ip) or _is_multicast(ip) or _is_link_local_unicast(ip))


def _global(name: str, id: str, parameter: Type, result: Type, call: Callable[..., Any]) -> Function:
    return Function(name, (Overload(id, (parameter,), result, call=call),))


def _member(
    name: str, id: str, target: Type, result: Type, call: Callable[..., Any], *others: Type
) -> Function:
    return Function(name, (Overload(id, (target, *others), result, True, call),))


IPS: Final = library(
    _global("ip", "string_to_ip", _S, IP_TYPE, _parse_ip),
    _member("family", "ip_family", IP_TYPE, types.INT, lambda ip: 4 if ip.address.bits == 32 else 6),
    _global("ip.isCanonical", "ip_is_canonical", _S, _B, lambda text: str(_parse_ip(text)) == text),
    _member("isUnspecified", "ip_is_unspecified", IP_TYPE, _B, lambda ip: ip.address.number == 0),
    _member("isLoopback", "ip_is_loopback", IP_TYPE, _B, _is_loopback),
    _member("isLinkLocalMulticast", "ip_is_link_local_multicast", IP_TYPE, _B, _is_link_local_multicast),
    _member("isLinkLocalUnicast", "ip_is_link_local_unicast", IP_TYPE, _B, _is_link_local_unicast),
    _member("isGlobalUnicast", "ip_is_global_unicast", IP_TYPE, _B, _is_global_unicast),
    _global("isIP", "is_ip", _S, _B, _valid(_parse_ip)),
    _global("string", "ip_to_string", IP_TYPE, _S, str),
)
"""Functions of IP addresses."""

CIDRS: Final = library(
    _global("cidr", "string_to_cidr", _S, CIDR_TYPE, _parse_cidr),
    _member("containsIP", "cidr_contains_ip_string", CIDR_TYPE, _B, _contains_ip_text, _S),
    _member("containsIP", "cidr_contains_ip_ip", CIDR_TYPE, _B, _contains_ip, IP_TYPE),
    _member("containsCIDR", "cidr_contains_cidr_string", CIDR_TYPE, _B, _contains_cidr_text, _S),
    _member("containsCIDR", "cidr_contains_cidr", CIDR_TYPE, _B, _contains_cidr, CIDR_TYPE),
    _member("ip", "cidr_ip", CIDR_TYPE, IP_TYPE, lambda cidr: IP(cidr.address)),
    _member("prefixLength", "cidr_prefix_length", CIDR_TYPE, types.INT, lambda cidr: cidr.length),
    _member("masked", "cidr_masked", CIDR_TYPE, CIDR_TYPE, _masked),
    _global("isCIDR", "is_cidr", _S, _B, _valid(_parse_cidr)),
    _global("string", "cidr_to_string", CIDR_TYPE, _S, str),
)
"""Functions of CIDRs."""
