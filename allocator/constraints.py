"""matchAttribute and distinctAttribute: rules between the devices of a claim.

A constraint is a stack: devices are added and, when the search goes back, removed in reverse order. Once it says
no, more devices cannot make it say yes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

from .model import Device
from .requests import Request

Attribute = Mapping[str, Any]
Lookup = Callable[[Request, Device, str], Attribute | None]
"""The attribute of that fully qualified name as the request sees it."""

_SCALARS: Final = ("string", "int", "bool", "version")
_LISTS: Final = ("ints", "bools", "strings", "versions")
_Value = tuple[str, Any]
_Set = tuple[str, frozenset[Any]]


class Constraint(Protocol):
    """One constraint of one claim during one search."""

    @property
    def name(self) -> str:
        """The fully qualified name of the attribute."""
        ...

    def covers(self, request: Request) -> bool:
        """Whether devices of the request are under it."""
        ...

    def add(self, request: Request, device: Device) -> bool:
        """Take the device in, unless that breaks the rule."""
        ...

    def remove(self, request: Request) -> None:
        """Forget the device that was taken in last, which was for this request."""
        ...

    def state(self) -> Hashable:
        """Equal states admit the same devices."""
        ...


class MatchAttribute:
    """All devices have the attribute in common: the same value, or (with list attributes) a shared element."""

    def __init__(self, requests: frozenset[str], name: str, lists: bool, lookup: Lookup) -> None:
        self._requests = requests
        self.name = name
        self._lists = lists
        self._lookup = lookup
        self._values: list[_Value | _Set | None] = []
        """With lists: what the devices up to here have in common. Otherwise: the value of each."""

    def covers(self, request: Request) -> bool:
        """See Constraint."""
        return request.named_in(self._requests)

    def add(self, request: Request, device: Device) -> bool:
        """See Constraint."""
        if not request.named_in(self._requests):
            return True
        attribute = self._lookup(request, device, self.name)
        if attribute is None:
            return False
        value: _Value | _Set | None
        if self._lists:
            elements = _elements(attribute)
            if elements is not None and self._values:
                elements = _common(elements, self._values[-1])
            if elements is None:
                return False
            value = elements
        else:
            value = _scalar(attribute)
            # The first device may have any value, even one that no other can equal.
            if self._values and (value is None or value != self._values[0]):
                return False
        self._values.append(value)
        return True

    def remove(self, request: Request) -> None:
        """See Constraint."""
        if request.named_in(self._requests):
            self._values.pop()

    def state(self) -> Hashable:
        """See Constraint."""
        return tuple(self._values[-1:] if self._lists else self._values[:1])


class DistinctAttribute:
    """No two devices share a value (with list attributes: an element). Values of different types are distinct."""

    def __init__(self, requests: frozenset[str], name: str, lists: bool, lookup: Lookup) -> None:
        self._requests = requests
        self.name = name
        self._lists = lists
        self._lookup = lookup
        self._values: list[_Value | _Set | None] = []

    def covers(self, request: Request) -> bool:
        """See Constraint."""
        return request.named_in(self._requests)

    def add(self, request: Request, device: Device) -> bool:
        """See Constraint."""
        if not request.named_in(self._requests):
            return True
        attribute = self._lookup(request, device, self.name)
        if attribute is None:
            return False
        value: _Value | _Set | None
        if self._lists:
            value = elements = _elements(attribute)
            if elements is None or any(_common(elements, other) for other in self._values):
                return False
        else:
            value = _scalar(attribute)
            if self._values and (value is None or value in self._values):
                return False
        self._values.append(value)
        return True

    def remove(self, request: Request) -> None:
        """See Constraint."""
        if request.named_in(self._requests):
            self._values.pop()

    def state(self) -> Hashable:
        """See Constraint."""
        return frozenset(self._values)


def static_attribute(device: Device, name: str) -> Attribute | None:
    """The device's attribute: under its qualified name or, in the driver's own domain, under the bare one."""
    found = device.attributes.get(name)
    if found is None:
        domain, slash, bare = name.partition("/")
        if slash and domain == device.id.driver:
            found = device.attributes.get(bare)
    return found


def _scalar(attribute: Attribute) -> _Value | None:
    for kind in _SCALARS:
        value = attribute.get(kind)
        if value is not None:
            return kind, value
    return None


def _elements(attribute: Attribute) -> _Set | None:
    for kind in _LISTS:
        if attribute.get(kind):
            return kind[:-1], frozenset(attribute[kind])
    scalar = _scalar(attribute)
    return None if scalar is None else (scalar[0], frozenset([scalar[1]]))


def _common(one: _Set, other: _Set | _Value | None) -> _Set | None:
    """What both contain, None for nothing."""
    if other is None or one[0] != other[0]:
        return None
    shared = one[1] & other[1]
    return (one[0], shared) if shared else None
