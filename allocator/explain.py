"""Why a node can, or cannot, satisfy claims: what becomes of each device for each request, and what blocks first.

The answer itself is always the allocator's; everything else is found by asking it about smaller claims, so that the
explanation cannot contradict it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .allocator import Allocator
from .errors import AllocationCancelledError, AllocationError, NodeError
from .explain_blocking import Blocking, Question, find_blocking
from .explain_devices import DeviceOutcome, NodeView, PoolNote, RequestOutcome
from .features import Features
from .model import DeviceID, PoolID, SliceCache
from .requests import Claim, ClassLookup, claim_name
from .selectors import CelCache
from .state import AllocatedState

__all__ = [
    "Blocking",
    "DeviceOutcome",
    "Explainer",
    "NodeExplanation",
    "PoolNote",
    "RequestOutcome",
]

_SECONDS: Final = 10.0


@dataclass(frozen=True)
class NodeExplanation:
    """What the allocator answers for a node, and why.

    `results` is its answer, one AllocationResult for each claim; empty when there is none. `error` is the text of
    its error, `scope` whom that concerns (`pod`: no other node is tried, `node`, "" without an error).
    `blocking` is there exactly when there are claims and no results.
    """

    node: str
    results: list[dict[str, Any]]
    error: str = ""
    scope: str = ""
    timed_out: bool = False
    pools: Sequence[PoolNote] = ()
    requests: Sequence[RequestOutcome] = ()
    blocking: Blocking | None = None

    @property
    def possible(self) -> bool:
        """Whether the node can satisfy the claims."""
        return self.blocking is None


@dataclass(frozen=True)
class Explainer:
    """Explains claims of one pod, node by node.

    The arguments are those of Allocator; `holders` names the claims that have a device, `seconds` limits the time
    for one node, and `clock` gives seconds.
    """

    gates: Mapping[str, bool]
    claims: Sequence[Claim]
    state: AllocatedState
    classes: ClassLookup
    slices: Sequence[Mapping[str, Any]]
    cel: CelCache = field(default_factory=CelCache)
    holders: Mapping[DeviceID, Sequence[str]] = field(default_factory=dict)
    seconds: float = _SECONDS
    clock: Callable[[], float] = time.monotonic
    _cache: SliceCache = field(default_factory=SliceCache)

    def explain(self, node: Mapping[str, Any]) -> NodeExplanation:
        """The explanation for a node. It raises nothing that the allocator raises; that is part of the answer."""
        deadline = self.clock() + self.seconds

        def cancelled() -> bool:
            return self.clock() > deadline

        name = node["metadata"]["name"]
        ask = Question(self._allocator(self.slices), node, cancelled, self._without_counters)
        features = Features.from_gates(self.gates)
        view = NodeView.of(features, self.state, self._cache.parsed(self.slices), node, self.holders)
        outcomes, broken = [], {}
        for claim in self.claims:
            try:
                outcomes += view.requests_of(claim, self.classes, self.cel)
            except AllocationError as error:
                broken[claim_name(claim)] = str(error)
        try:
            results = ask.allocate(self.claims)
        except AllocationCancelledError as error:
            text = f"no answer within {self.seconds:g} s: the search is too large"
            blocking = Blocking("", "", "timeout", text)
            return NodeExplanation(
                name,
                [],
                str(error),
                "node",
                timed_out=True,
                pools=view.notes,
                requests=outcomes,
                blocking=blocking,
            )
        except NodeError as error:
            blocking = find_blocking(ask, self.claims, outcomes, view.notes)
            return NodeExplanation(name, [], str(error), "node", False, view.notes, outcomes, blocking)
        except AllocationError as error:
            blocking = find_blocking(ask, self.claims, outcomes, view.notes, str(error))
            return NodeExplanation(name, [], str(error), "pod", False, view.notes, outcomes, blocking)
        if len(results) == len(self.claims):
            return NodeExplanation(name, results, pools=view.notes, requests=outcomes)
        blocking = find_blocking(ask, self.claims, outcomes, view.notes)
        return NodeExplanation(name, [], pools=view.notes, requests=outcomes, blocking=blocking)

    def _allocator(self, slices: Iterable[Mapping[str, Any]]) -> Allocator:
        return Allocator(
            self.gates, self.claims, self.state, self.classes, slices, self.cel, new_share_id=lambda: "0" * 8
        )

    def _without_counters(self) -> Allocator:
        """An allocator for which no device consumes counters."""
        return self._allocator([_free_of_counters(entry) for entry in self.slices])


def holders_of(claims: Iterable[Claim]) -> dict[DeviceID, list[str]]:
    """The claims (`namespace/name`) that have a device, in the order given; admin access does not count."""
    result: dict[DeviceID, list[str]] = {}
    for claim in claims:
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for entry in (allocation.get("devices") or {}).get("results") or ():
            if entry.get("adminAccess"):
                continue
            names = result.setdefault(DeviceID(entry["driver"], entry["pool"], entry["device"]), [])
            if claim_name(claim) not in names:
                names.append(claim_name(claim))
    return result


def pool_of(device: DeviceID) -> PoolID:
    """The pool of a device."""
    return PoolID(device.driver, device.pool)


def _free_of_counters(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = entry["spec"]
    devices = [
        {key: value for key, value in device.items() if key != "consumesCounters"}
        for device in spec.get("devices") or ()
    ]
    return {**entry, "spec": {**spec, "devices": devices}} if devices else entry
