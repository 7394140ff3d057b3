"""Why a node can, or cannot, satisfy claims: what becomes of each device for each request, and what blocks first.

The answer itself is always the allocator's; everything else is found by asking it about smaller claims, so that the
explanation cannot contradict it.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .allocator import Allocator
from .errors import AllocationCancelledError, AllocationError, NodeError
from .explain_blocking import Blocking, Question, find_blocking
from .explain_devices import DeviceOutcome, NodeView, PoolNote, RequestOutcome
from .features import Features
from .model import DeviceID
from .pools import SliceIndex
from .requests import Claim, ClassLookup, claim_name
from .selectors import CelCache
from .slice_cache import SliceCache
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
    pools: Sequence[PoolNote] = ()
    requests: Sequence[RequestOutcome] = ()
    blocking: Blocking | None = None

    @property
    def possible(self) -> bool:
        """Whether the node can satisfy the claims."""
        return self.blocking is None


class Explainer:
    """Explains claims of one pod, node by node."""

    def __init__(
        self,
        gates: Mapping[str, bool],
        claims: Sequence[Claim],
        state: AllocatedState,
        classes: ClassLookup,
        slices: Sequence[Mapping[str, Any]],
        cel: CelCache | None = None,
        holders: Mapping[DeviceID, Sequence[str]] | None = None,
        *,
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The arguments are those of Allocator.

        `holders` names the claims that have a device (`holders_of`), `seconds` limits the time for one node, and
        `clock` gives seconds.
        """
        self._gates, self._claims, self._state, self._classes = gates, claims, state, classes
        self._slices, self._cel = slices, cel or CelCache()
        self._holders = holders or {}
        self._seconds, self._clock = seconds, clock
        self._features = Features.from_gates(gates)
        self._index = SliceIndex(SliceCache().parsed(slices), self._features)
        self._allocator = self._new_allocator(slices)

    def explain(self, node: Mapping[str, Any]) -> NodeExplanation:
        """The explanation for a node. It raises nothing that the allocator raises; that is part of the answer."""
        deadline = self._clock() + self._seconds
        name, claims = node["metadata"]["name"], self._claims
        ask = Question(
            self._allocator, node, lambda: self._clock() > deadline, lambda: self._without_counters
        )
        view = NodeView.of(self._features, self._state, self._index, node, self._holders)
        requests: list[RequestOutcome] = []
        for claim in claims:
            with contextlib.suppress(AllocationError):  # which is what the allocator then says, too
                requests += view.requests_of(claim, self._classes, self._cel)
        told = functools.partial(NodeExplanation, name, pools=view.notes, requests=requests)
        try:
            results = ask.allocate(claims)
        except AllocationCancelledError as error:
            text = f"no answer within {self._seconds:g} s: the search is too large"
            return told([], str(error), "node", blocking=Blocking("", "", "timeout", text))
        except NodeError as error:
            return told([], str(error), "node", blocking=find_blocking(ask, claims, requests, view.notes))
        except AllocationError as error:
            text = str(error)
            return told([], text, "pod", blocking=find_blocking(ask, claims, requests, view.notes, text))
        if len(results) == len(claims):
            return told(results)
        return told([], blocking=find_blocking(ask, claims, requests, view.notes))

    def _new_allocator(self, slices: Iterable[Mapping[str, Any]]) -> Allocator:
        return Allocator(self._gates, self._claims, self._state, self._classes, slices, self._cel)

    @functools.cached_property
    def _without_counters(self) -> Allocator:
        """An allocator for which no device consumes counters."""
        return self._new_allocator([_free_of_counters(entry) for entry in self._slices])


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


def _free_of_counters(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = entry["spec"]
    devices = [
        {key: value for key, value in device.items() if key != "consumesCounters"}
        for device in spec.get("devices") or ()
    ]
    return {**entry, "spec": {**spec, "devices": devices}} if devices else entry
