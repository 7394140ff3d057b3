"""Consumable capacity: how much of a device a request takes, and whether that is still there.

Source: dynamic-resource-allocation v0.37.2 `structured/internal/experimental/consumable_capacity.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_api.quantity import Quantity

_MAX_INT64: Final = 2**63 - 1
_UNREPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"

Amounts = Mapping[str, Quantity]
"""Capacity name -> amount."""


class CapacityError(Exception):
    """A request that no range arithmetic can serve: ends the allocation on all nodes."""


@dataclass(frozen=True, slots=True)
class Range:
    """Amounts from `least` to `most` in steps counted from `least`."""

    least: Quantity | None
    most: Quantity | None
    step: Quantity | None

    def in_milli(self, fractional: bool) -> bool:
        """Whether steps are counted in thousandths: all bounds fit them exactly and a step is at least one."""
        if not fractional:
            return False
        bounds = (self.least, self.most, self.step)
        if any(bound is not None and _exact_milli(bound) is None for bound in bounds):
            return False
        return self.step is None or self.step.milli_value() >= 1

    def round_up(self, request: Quantity, fractional: bool) -> Quantity:
        """The least allowed amount not below the request; `most` is not looked at."""
        if self.least is None or self.step is None:
            return request if self.least is None else max(request, self.least)
        if request < self.least:
            return self.least
        if self.in_milli(fractional):
            wanted = _exact_milli(request)
            if wanted is None:
                raise CapacityError(
                    f"{_UNREPRESENTABLE}: request {request} is not a representable milli value"
                )
            least, step = self.least.milli_value(), self.step.milli_value()
            steps = _steps(wanted - least, step)
            if steps > (_MAX_INT64 - least) // step:
                text = f"rounding request {request} up to the next step passes the milli-value range"
                raise CapacityError(f"{_UNREPRESENTABLE}: {text}")
            whole, rest = divmod(least + step * steps, 1000)
            if rest:
                return Quantity(least + step * steps, -3, self.step.format)
            return Quantity(whole, 0, self.step.format)
        if request.compare_int(_MAX_INT64) > 0:
            raise CapacityError(f"{_UNREPRESENTABLE}: request {request} exceeds MaxInt64")
        least, step = self.least.value(), self.step.value()
        steps = _steps(request.value() - least, step)
        if least >= 0 and steps > (_MAX_INT64 - least) // step:
            text = f"rounding request {request} up to the next step passes MaxInt64"
            raise CapacityError(f"{_UNREPRESENTABLE}: {text}")
        return Quantity(least + step * steps, 0, self.step.format)

    def forbids(self, amount: Quantity, fractional: bool) -> bool:
        """Whether the amount lies above `most` or between steps."""
        if self.most is not None and amount > self.most:
            return True
        if self.step is None or self.least is None:
            return False
        if self.in_milli(fractional):
            milli = _exact_milli(amount)
            return milli is None or (milli - self.least.milli_value()) % self.step.milli_value() != 0
        return (amount.value() - self.least.value()) % self.step.value() != 0


@dataclass(frozen=True, slots=True)
class Policy:
    """Which amounts of a capacity may be consumed."""

    default: Quantity | None
    range: Range | None
    values: tuple[Quantity, ...] | None

    def forbids(self, amount: Quantity, fractional: bool) -> bool:
        """Whether the amount must not be consumed. The default, spelled the same way, always may."""
        if self.default is not None and _identical(amount, self.default):
            return False
        if self.range is not None:
            return self.range.forbids(amount, fractional)
        return bool(self.values) and amount not in (self.values or ())


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """One capacity of a device."""

    value: Quantity
    policy: Policy | None

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> DeviceCapacity:
        """Read `{value, requestPolicy}`."""
        return cls(Quantity.parse(str(entry["value"])), _policy(entry.get("requestPolicy")))

    def need(self, request: Quantity | None, fractional: bool) -> Quantity:
        """What a share takes for a request (None: not requested). Raises CapacityError."""
        policy = self.policy
        if request is None:
            return policy.default if policy is not None and policy.default is not None else self.value
        if policy is None:
            return request
        if policy.range is not None and policy.range.least is not None:
            return policy.range.round_up(request, fractional)
        return next((value for value in policy.values or () if request <= value), request)


_MAX_KNOWN: Final = 4096
_known: dict[str, Mapping[str, DeviceCapacity]] = {}


def capacities(entries: Mapping[str, Any]) -> Mapping[str, DeviceCapacity]:
    """The capacities of a device by name. Devices with the same ones share one mapping, as far as they are known."""
    key = repr(entries)
    found = _known.get(key)
    if found is None:
        found = {name: DeviceCapacity.of(entry) for name, entry in entries.items()}
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def consumption(
    capacity: Mapping[str, DeviceCapacity], requests: Amounts, fractional: bool
) -> dict[str, Quantity]:
    """What one share takes of every capacity of the device. Raises CapacityError."""
    result = {}
    for name in sorted(capacity):  # the first problem in a fixed order is the one that is reported
        try:
            need = capacity[name].need(requests.get(name), fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if need.sign < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
        result[name] = need
    return result


def fits(
    capacity: Mapping[str, DeviceCapacity],
    requests: Amounts | None,
    fractional: bool,
    *taken: Amounts,
) -> bool:
    """Whether a device can still serve the requests beside what was taken already.

    A device without one of the requested capacities cannot. Raises CapacityError.
    """
    requests = requests or {}
    if not requests.keys() <= capacity.keys():
        return False
    for name, need in consumption(capacity, requests, fractional).items():
        policy = capacity[name].policy
        if policy is not None and policy.forbids(need, fractional):
            return False
        total = need
        for amounts in taken:
            if name in amounts:
                total = total + amounts[name]
        if total > capacity[name].value:
            return False
    return True


def _policy(entry: Mapping[str, Any] | None) -> Policy | None:
    if entry is None:
        return None
    limits, values = entry.get("validRange"), entry.get("validValues")
    return Policy(
        default=_quantity(entry.get("default")),
        range=None
        if limits is None
        else Range(_quantity(limits.get("min")), _quantity(limits.get("max")), _quantity(limits.get("step"))),
        values=None if values is None else tuple(Quantity.parse(str(value)) for value in values),
    )


def _quantity(value: Any) -> Quantity | None:
    return None if value is None else Quantity.parse(str(value))


def _steps(distance: int, step: int) -> int:
    return -(-distance // step)


def _exact_milli(quantity: Quantity) -> int | None:
    """The amount in thousandths, None when that loses something."""
    milli = quantity.milli_value()
    return milli if quantity == Quantity(milli, -3) else None


def _identical(one: Quantity, other: Quantity) -> bool:
    """Upstream compares the records, so the same amount in another notation counts as different."""
    return one.same_spelling(other)
