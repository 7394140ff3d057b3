"""The search: which devices, together, satisfy all claims of a pod on one node.

Depth first over claims, their requests and the devices of each request; the first complete solution wins, so the
order of pools, slices, devices and alternatives is a preference. Within a request only combinations are tried, not
permutations. What led nowhere is not tried again with devices that are alike (`likeness`), which changes no result,
only how soon there is one, or none: the search is exponential otherwise.

Source: dynamic-resource-allocation v0.37.2 `structured/internal/experimental/allocator_experimental.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from dra_api.quantity import Quantity

from .capacity import CapacityError, consumption, fits
from .counters import PoolCounters
from .errors import AllocationCancelledError, AllocationError
from .model import Device, DeviceID, PoolID
from .requests import MAX_RESULTS, Request, RequestPlan
from .situations import ClaimPlan, Pick, Situations, Surroundings
from .state import add_amounts, remove_amounts
from .taints import all_tolerated

_MAX_REMEMBERED: Final = 100_000  # situations; keeps hopeless searches from eating memory
_NOTHING: Final[Mapping[str, Quantity]] = {}


class _Outcome(Enum):
    FOUND = 1
    IMPOSSIBLE = 2
    TOO_MANY = 3
    """Impossible because a claim would get too many devices: other devices for earlier requests do not help.

    No claim ends so as a whole, because the smallest alternatives of its requests fit together (`requests`).
    """


_Step = Generator["_Step", _Outcome, _Outcome]
"""A part of the search. It yields the parts that it needs and receives their outcomes."""


@dataclass(slots=True)
class _Taken:
    """What was done to take a device, for undoing it."""

    counters: PoolCounters | None = None
    constraints: int = 0
    marked: bool = False
    consumed: dict[str, Quantity] | None = None
    was_shared: bool = False


class Search:
    """One search; use it once."""

    def __init__(self, plans: Sequence[ClaimPlan], around: Surroundings) -> None:
        self._plans = plans
        self._around = around
        self._features = around.features
        self._holders: dict[DeviceID, list[int]] = {}
        """Device -> claims (by index) that get it in this attempt; more than one with admin access only."""
        self._consuming: dict[DeviceID, dict[str, Quantity]] = {}
        """Shared device -> what shares of this attempt consume; present as soon as there is a share."""
        self._counters: dict[PoolID, PoolCounters] = {}
        self._failed: dict[Hashable, _Outcome] = {}
        """Situations at the beginning of a request that led nowhere."""
        self.picks: list[list[Pick]] = [[] for _ in plans]
        """For each claim its devices in the order of the requests."""
        self.chosen: dict[tuple[int, int], Request] = {}
        """(claim, request) -> the alternative that was taken, for prioritised lists."""

    @cached_property
    def _situations(self) -> Situations:
        """Needed as soon as the search goes back."""
        return Situations(
            self._plans, self._around, self.picks, self._holders, self._consuming, self._counters
        )

    def run(self) -> bool:
        """Whether there is a solution; `picks` and `chosen` then hold it.

        Raises AllocationError for problems that no other device could solve.
        """
        # The parts call each other through this loop: large claims would exceed the depth of Python's stack.
        steps = [self._request(0, 0)]
        outcome: _Outcome | None = None
        while True:
            try:
                needed = next(steps[-1]) if outcome is None else steps[-1].send(outcome)
            except StopIteration as finished:
                outcome = finished.value
                steps.pop()
                if not steps:
                    return outcome is _Outcome.FOUND
            else:
                outcome = None
                steps.append(needed)

    def _request(self, claim: int, number: int) -> _Step:
        """Satisfy a request of a claim and all that come after it."""
        self._check_cancelled()
        while claim < len(self._plans) and number == len(self._plans[claim].requests):
            claim, number = claim + 1, 0
        if claim == len(self._plans):
            return _Outcome.FOUND
        known = self._failed.get(self._situations.before(claim, number)) if self._failed else None
        if known is not None:
            return known
        request = self._plans[claim].requests[number]
        if request.prioritized:
            outcome = yield self._alternatives(claim, number, request)
        else:
            outcome = yield self._devices(claim, number, request.choices[0], 0, 0, {})
        if outcome is not _Outcome.FOUND and len(self._failed) < _MAX_REMEMBERED:
            self._failed[self._situations.before(claim, number)] = outcome
        return outcome

    def _alternatives(self, claim: int, number: int, request: RequestPlan) -> _Step:
        """Satisfy a request by the first alternative that works out."""
        all_too_many = True
        for choice in request.choices:
            outcome = yield self._devices(claim, number, choice, 0, 0, {})
            if outcome is _Outcome.TOO_MANY:
                continue
            all_too_many = False
            if outcome is _Outcome.FOUND:
                self.chosen[claim, number] = choice
                return outcome
        return _Outcome.TOO_MANY if all_too_many else _Outcome.IMPOSSIBLE

    def _devices(
        self,
        claim: int,
        number: int,
        request: Request,
        index: int,
        start: int,
        failed: dict[Hashable, int],
    ) -> _Step:
        """Find devices for a request from its `index`-th on, beginning with candidate `start`.

        `failed` are situations inside of this request that led nowhere, with the first candidate that was tried; they
        do not lead anywhere with fewer candidates either.
        """
        self._check_cancelled()
        if request.takes_all and not request.devices:
            return _Outcome.IMPOSSIBLE
        if index >= request.count:
            return (yield self._request(claim, number + 1))
        if request.count - index > MAX_RESULTS - len(self.picks[claim]):
            return _Outcome.TOO_MANY
        if request.takes_all:
            return (yield self._next_of_all(claim, number, request, index))
        least = failed.get(self._situations.within(claim, number, index)) if failed else None
        if least is not None and least <= start:
            return _Outcome.IMPOSSIBLE
        last = index + 1 == request.count
        hopeless: set[Hashable] = set()
        candidates = self._around.candidates
        for position in range(start, len(candidates)):
            device = candidates[position]
            if not self._free(claim, request, device.id) or not self._around.selectable(request, device):
                continue
            if hopeless and self._situations.standing(claim, number, device) in hopeless:
                continue
            if self._features.consumable_capacity and not self._has_capacity(request, device):
                continue
            taken = self._take(claim, request, device)
            if taken is not None:
                if last:
                    outcome = yield self._request(claim, number + 1)
                else:
                    outcome = yield self._devices(claim, number, request, index + 1, position + 1, failed)
                if outcome is _Outcome.FOUND:
                    return outcome
                self._give_back(claim, request, device, taken)
                if outcome is _Outcome.TOO_MANY:
                    return outcome
            elif not self._failed and not failed:
                continue  # a search that did not go back yet need not know what is alike
            hopeless.add(self._situations.standing(claim, number, device))
        if len(failed) < _MAX_REMEMBERED:
            failed[self._situations.within(claim, number, index)] = start
        return _Outcome.IMPOSSIBLE

    def _next_of_all(self, claim: int, number: int, request: Request, index: int) -> _Step:
        """Take the next device of a request for all: no other one can take its place."""
        device = request.devices[index]
        taken = self._take(claim, request, device)
        if taken is None:
            return _Outcome.IMPOSSIBLE
        outcome = yield self._devices(claim, number, request, index + 1, 0, {})
        if outcome is not _Outcome.FOUND:
            self._give_back(claim, request, device, taken)
        return outcome

    def _check_cancelled(self) -> None:
        if self._around.cancelled():
            raise AllocationCancelledError

    def _free(self, claim: int, request: Request, device: DeviceID) -> bool:
        """Nobody else has the device. Admin access only must not take it twice for one claim."""
        holders = self._holders.get(device)
        if request.admin_access:
            return not holders or claim not in holders
        return not holders and device not in self._around.state.devices

    def _has_capacity(self, request: Request, device: Device) -> bool:
        taken = self._around.state.capacity.get(device.id)
        consuming = self._consuming.get(device.id)
        key = (request, id(device.capacity))
        if not taken and not consuming:
            known = self._around.roomy.get(key)
            if known is not None:
                return known
        try:
            found = fits(
                device.capacity,
                request.capacity,
                self._features.fractional_capacity_range,
                taken or _NOTHING,
                consuming or _NOTHING,
            )
        except CapacityError as error:
            where = f"claim {request.claim}, request {request.name}"
            raise AllocationError(f"{where}: checking capacity for device {device.id}: {error}") from None
        if not taken and not consuming:
            self._around.roomy[key] = found
        return found

    def _take(self, claim: int, request: Request, device: Device) -> _Taken | None:
        """Give a selectable device to a request, or change nothing and return None."""
        shareable = self._features.consumable_capacity and device.allows_multiple
        if not (shareable and request.admin_access) and not self._free(claim, request, device.id):
            return None
        if device.slice.skip_node_operations and not self._features.lets_skip_operations(
            self._around.node_features
        ):
            return None
        if device.consumes and not self._features.partitionable_devices:
            return None
        taken = _Taken()
        if (
            (not device.consumes or self._take_counters(device, shareable, taken))
            and (not device.blocking_taints or self._tolerated(request, device))
            and self._satisfy_constraints(claim, request, device, taken)
        ):
            if not shareable:
                self._holders.setdefault(device.id, []).append(claim)
                taken.marked = True
            if not self._features.consumable_capacity or self._has_capacity(request, device):
                self.picks[claim].append(self._pick(request, device, shareable, taken))
                return taken
        self._undo(claim, request, device, taken)
        return None

    def _tolerated(self, request: Request, device: Device) -> bool:
        return not self._features.device_taints or all_tolerated(device.blocking_taints, request.tolerations)

    def _take_counters(self, device: Device, shareable: bool, taken: _Taken) -> bool:
        if shareable and (device.id in self._around.state.shared_devices or device.id in self._consuming):
            return True  # the first share has taken the counters
        pool = device.slice.pool_id
        counters = self._counters.get(pool)
        if counters is None:
            counters = self._counters[pool] = self._around.counters(pool)
        if not counters.take(device):
            return False
        taken.counters = counters
        return True

    def _satisfy_constraints(self, claim: int, request: Request, device: Device, taken: _Taken) -> bool:
        for constraint in self._plans[claim].constraints:
            if not constraint.add(request, device):
                if request.takes_all:  # no other device can take its place
                    raise AllocationError(
                        f"claim {request.claim}, request {request.name}: cannot add device {device.id}"
                        " because a claim constraint would not be satisfied"
                    )
                return False
            taken.constraints += 1
        return True

    def _pick(self, request: Request, device: Device, shareable: bool, taken: _Taken) -> Pick:
        if not shareable:
            return Pick(request, device)
        consumed = consumption(
            device.capacity, request.capacity or {}, self._features.fractional_capacity_range
        )
        taken.was_shared = device.id in self._consuming
        taken.consumed = consumed
        add_amounts(self._consuming, device.id, consumed)
        return Pick(request, device, self._around.new_share_id(), consumed or None)

    def _give_back(self, claim: int, request: Request, device: Device, taken: _Taken) -> None:
        self.picks[claim].pop()
        self._undo(claim, request, device, taken)

    def _undo(self, claim: int, request: Request, device: Device, taken: _Taken) -> None:
        if taken.consumed is not None:
            remove_amounts(self._consuming, device.id, taken.consumed)
            if taken.was_shared:  # the entry also says that there is a share, so it must outlive this one
                self._consuming.setdefault(device.id, {})
        if taken.marked:
            self._holders[device.id].remove(claim)
        for constraint in reversed(self._plans[claim].constraints[: taken.constraints]):
            constraint.remove(request)
        if taken.counters is not None:
            taken.counters.give_back()
