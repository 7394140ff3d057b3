"""Which devices are alike: nothing that is still to be searched for can tell them apart.

Exchanging devices that are alike turns a situation of the search into another one from which exactly as much can be
reached, errors included. So a situation that led nowhere stands for all of those, and of several such candidates one
that led nowhere stands for the others. A device that nothing to come can select does not matter at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from .constraints import static_attribute
from .errors import AllocationCancelledError, AllocationError
from .model import Device
from .requests import MAX_RESULTS, Request, RequestPlan
from .state import AllocatedState

Selectable = Callable[[Request, Device], bool]
IRRELEVANT: Final = 0
"""The kind of devices that nothing to come can select."""


class Likeness:
    """Kinds of devices for a part of the search: for the given requests and all that come after them."""

    def __init__(
        self,
        choices: Sequence[Request],
        attributes: Sequence[str],
        state: AllocatedState,
        selectable: Selectable,
        *,
        countable: bool,
    ) -> None:
        """`choices`: the requests, with all alternatives. `attributes`: those of the constraints that they are under.

        `countable`: no claim can get too many devices. A search that ends for that reason has not looked at
        everything, so that it depends on the order of devices what it has met by then.
        """
        self.nothing_to_come = not choices
        self._choices = choices
        self._attributes = attributes
        self._state = state
        self._selectable = selectable
        # An expression may fail, which depends on the device as a whole.
        self._exact = not countable or any(choice.derived_attributes for choice in choices)
        # A request for all devices takes them in order, and may end with an error on the way.
        self._kept = {device for choice in choices if choice.takes_all for device in choice.devices}
        self._kinds: dict[Device, int] = {}
        self._numbers: dict[Hashable, int] = {}

    def kind(self, device: Device) -> int:
        """The kind of the device. Raises AllocationCancelledError."""
        found = self._kinds.get(device)
        if found is None:
            traits = self._traits(device)
            found = IRRELEVANT if traits is None else self._numbers.setdefault(traits, len(self._numbers) + 1)
            self._kinds[device] = found
        return found

    def _traits(self, device: Device) -> Hashable | None:
        try:
            chosen = tuple(
                not choice.takes_all and self._selectable(choice, device) for choice in self._choices
            )
        except AllocationCancelledError:
            raise
        except AllocationError:
            return device.id
        if device in self._kept:
            return device.id
        if not any(chosen):
            return None
        if self._exact:
            return device.id
        return (
            chosen,
            device.traits,
            tuple(repr(static_attribute(device, name)) for name in self._attributes),
            device.id in self._state.devices,
            device.id in self._state.shared_devices,
            repr(self._state.capacity.get(device.id)),
        )


def countable(plans: Sequence[Sequence[RequestPlan]]) -> bool:
    """Whether no choice of alternatives gives a claim more devices than it may have."""
    return all(
        sum(max(choice.count for choice in plan.choices) for plan in requests) <= MAX_RESULTS
        for requests in plans
    )
