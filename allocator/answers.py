"""What nodes have answered to earlier pods: most pods want what another one wanted, of nodes on which nothing changed.

Only answers that follow from few things are kept: claims, classes, the pools of the node, and which devices of these
are in use. Shared devices and counters, whose state is more than that, are none of them.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final

from .features import Features
from .model import DeviceID
from .pools import NodePools
from .requests import Claim, RequestPlan

_KEPT: Final = 4
"""Questions that are remembered, each with an answer for every node."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a node with these pools answers while just `taken` of their devices are in use."""

    pools: NodePools
    taken: frozenset[DeviceID]
    results: Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What claims want, and the answers by the name of the node."""

    classes: Sequence[Mapping[str, Any]]
    answers: dict[str, Answer] = field(default_factory=dict)

    def known(self, pools: NodePools, taken: frozenset[DeviceID]) -> Sequence[dict[str, Any]] | None:
        """The results for a node, when they are known."""
        answer = self.answers.get(pools.node["metadata"]["name"])
        if answer is None or answer.pools is not pools or answer.taken != taken:
            return None
        return answer.results

    def remember(
        self, pools: NodePools, taken: frozenset[DeviceID], results: Sequence[dict[str, Any]]
    ) -> None:
        """Keep the results for a node, in place of what it answered before."""
        self.answers[pools.node["metadata"]["name"]] = Answer(pools, taken, results)


class Answers:
    """The latest questions with their answers; should live as long as a scheduler.

    Classes, slices and nodes are known by identity, as everywhere in the allocator. Safe for use by several threads (a
    race only does work twice).
    """

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[Features, str], Question] = OrderedDict()

    def to(
        self, features: Features, claims: Sequence[Claim], requests: Sequence[Sequence[RequestPlan]]
    ) -> Question:
        """The question that these claims ask; `requests` are those of each claim, with their classes."""
        key = (features, json.dumps([claim["spec"].get("devices") for claim in claims]))
        classes = [choice.class_ for plans in requests for plan in plans for choice in plan.choices]
        known = self._questions.pop(key, None)
        # Equal texts have equally many classes.
        if known is None or not all(map(is_, known.classes, classes)):
            known = Question(classes)
        self._questions[key] = known
        while len(self._questions) > _KEPT:
            self._questions.popitem(last=False)
        return known
