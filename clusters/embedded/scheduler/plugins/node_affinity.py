# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""NodeAffinity: nodeSelector and node affinity of pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_affinity import (
    PreferredNodeAffinity,
    RequiredNodeAffinity,
    required_terms,
)
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin, normalized
from clusters.embedded.scheduler.framework.status import SKIP, Status, unresolvable

_REQUIRED: Final = "NodeAffinity"
_PREFERRED: Final = "NodeAffinity.preferred"


class NodeAffinity(Plugin):
    """Filters by what is required, scores by what is preferred."""

    name = "NodeAffinity"

    def events(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.NODE_LABEL), self._after_node),)

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        terms = required_terms(pod)
        if terms is None and not pod["spec"].get("nodeSelector"):
            return None, SKIP
        state.data[_REQUIRED] = RequiredNodeAffinity(pod)
        if not terms:
            return None, None
        names: set[str] = set()
        for term in terms:
            wanted = _node_names(term)
            if wanted is None:
                return None, None
            names |= wanted
        if not names:
            return None, unresolvable("pod affinity terms conflict")
        return frozenset(names), None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if state.data[_REQUIRED].matches(node.object):
            return None
        return unresolvable("node(s) didn't match Pod's node affinity/selector")

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        preferred = PreferredNodeAffinity(pod)
        if not preferred:
            return SKIP
        state.data[_PREFERRED] = preferred
        return None

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        return int(state.data[_PREFERRED].score(node.object))

    def normalize(self, scores: list[int]) -> list[int]:
        return normalized(scores)

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        required = RequiredNodeAffinity(pod)
        if new is None or not required.matches(new):
            return False
        return old is None or not required.matches(old)


def _node_names(term: Mapping[str, Any]) -> set[str] | None:
    """The names that a term demands, None: it names no nodes."""
    names: set[str] | None = None
    for field in term.get("matchFields") or ():
        if field.get("key") == "metadata.name" and field.get("operator") == "In":
            values = set(field.get("values") or ())
            names = values if names is None else names & values
    return names
