"""What a search starts from, and in which situation it is: what was done so far, as far as it still matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dra_api.quantity import Quantity

from .constraints import Constraint
from .counters import PoolCounters
from .features import Features
from .likeness import IRRELEVANT, Likeness, countable
from .model import Device, DeviceID, PoolID
from .requests import Request, RequestPlan
from .state import AllocatedState

_NOTHING_DONE: Final[Hashable] = frozenset()


@dataclass(slots=True, eq=False)
class Pick:
    """A device that was given to a request. Shares have an id and say what they consume."""

    request: Request
    device: Device
    share_id: str | None = None
    consumed: Mapping[str, Quantity] | None = None


@dataclass(slots=True)
class ClaimPlan:
    """What to find for a claim."""

    requests: Sequence[RequestPlan]
    constraints: Sequence[Constraint]


@dataclass(slots=True)
class Surroundings:
    """What the search looks at and does not change."""

    features: Features
    state: AllocatedState
    candidates: Sequence[Device]
    """Devices of usable pools in the order in which they are tried."""
    node_features: frozenset[str]
    """The features that the node declares."""
    selectable: Callable[[Request, Device], bool]
    """Whether selectors and node selection admit the device."""
    roomy: dict[tuple[Request, int], bool]
    """Whether a request fits into an unused device, by the identity of the device's capacities; filled on the way."""
    counters: Callable[[PoolID], PoolCounters]
    """Fresh counters of a pool."""
    new_share_id: Callable[[], str]
    cancelled: Callable[[], bool]


class Situations:
    """Tells situations of one search apart. Equal ones have equal outcomes, unless that is a solution.

    It reads what the search keeps account in: `picks` of each claim, `holders` and `consuming` of devices, and
    `counters` of pools.
    """

    def __init__(
        self,
        plans: Sequence[ClaimPlan],
        around: Surroundings,
        picks: Sequence[Sequence[Pick]],
        holders: Mapping[DeviceID, Sequence[int]],
        consuming: Mapping[DeviceID, Mapping[str, Quantity]],
        counters: Mapping[PoolID, PoolCounters],
    ) -> None:
        self._plans = plans
        self._around = around
        self._picks = picks
        self._holders = holders
        self._consuming = consuming
        self._counters = counters
        self._likeness: dict[tuple[int, int], Likeness] = {}
        """(claim, request) -> which devices are alike from there on."""
        self._constraints: dict[tuple[int, int], Sequence[Constraint]] = {}
        """(claim, request) -> the constraints that count from there on."""

    def before(self, claim: int, number: int) -> Hashable:
        """All that matters for a request and for what comes after it."""
        count = len(self._picks[claim])
        return claim, number, count, self._done(claim, number), self._limits(claim, number)

    def within(self, claim: int, number: int, index: int) -> Hashable:
        """The same in the midst of a request that has `index` devices, but for the candidates that are left."""
        return index, self._done(claim, number + 1), self._limits(claim, number)

    def standing(self, claim: int, number: int, device: Device) -> Hashable:
        """What a device is like from a request on, and what the search has done with it."""
        kind = self._alike(claim, number).kind(device)
        consumed = self._consuming.get(device.id)
        holders = self._holders.get(device.id)
        if consumed is None and not holders:
            return kind
        return kind, tuple(holders or ()), None if consumed is None else frozenset(consumed.items())

    def _alike(self, claim: int, number: int) -> Likeness:
        found = self._likeness.get((claim, number))
        if found is None:
            plans = self._plans[claim:]
            coming = [plan.requests[0 if place else number :] for place, plan in enumerate(plans)]
            found = self._likeness[claim, number] = Likeness(
                [choice for requests in coming for request in requests for choice in request.choices],
                sorted({constraint.name for plan in plans for constraint in plan.constraints}),
                self._around.state,
                self._around.selectable,
                countable=countable([plan.requests for plan in self._plans]),
            )
        return found

    def _done(self, claim: int, number: int) -> Hashable:
        """What was done with devices, as far as it matters from a request on."""
        likeness = self._alike(claim, number)
        if likeness.nothing_to_come:
            return _NOTHING_DONE
        touched = {pick.device for picks in self._picks for pick in picks}
        standings = Counter(
            self.standing(claim, number, device) for device in touched if likeness.kind(device) != IRRELEVANT
        )
        return frozenset(standings.items())

    def _limits(self, claim: int, number: int) -> Hashable:
        """What counters and the constraints of a claim still allow from a request on."""
        return (
            *(constraint.state() for constraint in self._coming_constraints(claim, number)),
            frozenset((pool, counters.state()) for pool, counters in self._counters.items() if counters.used),
        )

    def _coming_constraints(self, claim: int, number: int) -> Sequence[Constraint]:
        found = self._constraints.get((claim, number))
        if found is None:
            plan = self._plans[claim]
            choices = [choice for request in plan.requests[number:] for choice in request.choices]
            found = self._constraints[claim, number] = [
                constraint
                for constraint in plan.constraints
                if any(constraint.covers(choice) for choice in choices)
            ]
        return found
