"""What nodes have answered to earlier pods: most pods want what another one wanted, of nodes on which nothing changed.

Only answers that follow from few things are kept: claims, classes, the pools of the node, and which devices of these
are in use. Shared devices and counters, whose state is more than that, are none of them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final
from weakref import WeakKeyDictionary

from .features import Features
from .model import DeviceID
from .pools import NodePools
from .requests import Claim, RequestPlan

_KEPT: Final = 4
"""Wishes that are remembered, each with an answer for every node."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a node answers while just `taken` of the devices in its pools are in use."""

    taken: frozenset[DeviceID]
    results: Sequence[dict[str, Any]]


class NodeAnswers:
    """What nodes have answered to claims that want the same of devices, of the same `classes`."""

    def __init__(self, classes: Sequence[Mapping[str, Any]]) -> None:
        self.classes = classes
        # Pools are new ones as soon as their node or slices change: nothing is kept of what is gone.
        self._known: WeakKeyDictionary[NodePools, Answer] = WeakKeyDictionary()

    def known(self, pools: NodePools, taken: frozenset[DeviceID]) -> Sequence[dict[str, Any]] | None:
        """The results for the node of the pools, when they are known."""
        answer = self._known.get(pools)
        return None if answer is None or answer.taken != taken else answer.results

    def remember(
        self, pools: NodePools, taken: frozenset[DeviceID], results: Sequence[dict[str, Any]]
    ) -> None:
        """Keep the results, in place of those for other devices in use."""
        self._known[pools] = Answer(taken, results)


class Answers:
    """What nodes have answered to the latest wishes; should live as long as a scheduler, like a SliceCache.

    Classes, slices and nodes are known by identity, as everywhere in the allocator. Safe for use by several threads (a
    race only does work twice).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[tuple[Features, str], NodeAnswers] = {}
        """By what is wanted; the one that was asked for last stands last."""

    def to(
        self, features: Features, claims: Sequence[Claim], requests: Sequence[Sequence[RequestPlan]]
    ) -> NodeAnswers:
        """The answers to claims; `requests` are those of each claim, with their classes."""
        key = (features, json.dumps([claim["spec"].get("devices") for claim in claims]))
        classes = [choice.class_ for plans in requests for plan in plans for choice in plan.choices]
        with self._lock:
            found = self._latest.pop(key, None)
            # Equal texts have equally many classes.
            if found is None or not all(map(is_, found.classes, classes)):
                found = NodeAnswers(classes)
            self._latest[key] = found
            if len(self._latest) > _KEPT:
                del self._latest[next(iter(self._latest))]
        return found
