# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""InterPodAffinity: required affinity and anti-affinity between pods.

What is only preferred does not influence the score. Source: kubernetes v1.37.2
`pkg/scheduler/framework/plugins/interpodaffinity/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from dra_api.label_selector import LabelSelectorError, matches

Pair = tuple[str, str]
"""A label of nodes: key and value."""
NamespaceLabels = Callable[[str], Mapping[str, str]]
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a pod."""

    key: str
    selector: Mapping[str, Any] | None
    namespaces: frozenset[str]
    namespace_selector: Mapping[str, Any] | None

    def matches(self, pod: Object, namespace_labels: NamespaceLabels) -> bool:
        """Whether the term means this pod."""
        namespace = pod["metadata"]["namespace"]
        if namespace not in self.namespaces and not matches(
            self.namespace_selector, namespace_labels(namespace)
        ):
            return False
        return matches(self.selector, pod["metadata"].get("labels"))


@dataclass(frozen=True, slots=True)
class _State:
    affinity: Sequence[_Term]
    wanted: frozenset[Pair]
    """Where there are pods that match all terms of affinity, under the key of each."""
    first_of_its_kind: bool
    """No pod matches the terms of affinity anywhere, but the pod itself does."""
    avoided: frozenset[Pair]
    """Where there are pods that match a term of anti-affinity."""
    guarded: frozenset[Pair]
    """Where there are pods whose anti-affinity means this pod."""


class InterPodAffinity(Plugin):
    """Brings pods together, and keeps them apart."""

    name = "InterPodAffinity"

    def __init__(self, namespace_labels: NamespaceLabels) -> None:
        self._namespace_labels = namespace_labels

    def events(self) -> Sequence[Registration]:
        pods = Action.ADD | Action.DELETE | Action.POD_LABEL
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, pods)),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_LABEL)),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.NODE_LABEL)),
        )

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        try:
            found = self._state(pod, nodes)
        except LabelSelectorError as problem:
            return None, unresolvable(f"parsing pod: {problem}")
        if found is None:
            return None, SKIP
        state.data[self.name] = found
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        found: _State = state.data[self.name]
        labels = node.object["metadata"].get("labels") or {}
        pairs = set(labels.items())
        keys = {term.key for term in found.affinity}
        together = {(key, labels.get(key)) for key in keys} <= found.wanted
        if not together and not (found.first_of_its_kind and keys <= labels.keys()):
            return unresolvable("node(s) didn't match pod affinity rules")
        if pairs & found.avoided:
            return unschedulable("node(s) didn't match pod anti-affinity rules")
        if pairs & found.guarded:
            return unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    def _state(self, pod: Object, nodes: Sequence[NodeInfo]) -> _State | None:
        affinity, anti = _terms(pod, "podAffinity"), _terms(pod, "podAntiAffinity")
        wanted: set[Pair] = set()
        avoided: set[Pair] = set()
        guarded: set[Pair] = set()
        # Most pods have no terms, and most nodes no pods that have: then there is nothing to look at.
        for node in nodes if affinity or anti else (node for node in nodes if node.repelling):
            labels = node.object["metadata"].get("labels") or {}
            for info in node.pods.values():
                if affinity and self._all_match(affinity, info.pod):
                    wanted.update(_pairs(affinity, labels))
                avoided.update(_pairs(self._matching(anti, info.pod), labels))
                if info.repels:
                    guarded.update(_pairs(self._matching(_terms(info.pod, "podAntiAffinity"), pod), labels))
        if not affinity and not anti and not guarded:
            return None
        first = not wanted and bool(affinity) and self._all_match(affinity, pod)
        return _State(affinity, frozenset(wanted), first, frozenset(avoided), frozenset(guarded))

    def _all_match(self, terms: Sequence[_Term], pod: Object) -> bool:
        return all(term.matches(pod, self._namespace_labels) for term in terms)

    def _matching(self, terms: Sequence[_Term], pod: Object) -> list[_Term]:
        return [term for term in terms if term.matches(pod, self._namespace_labels)]


def _terms(pod: Object, kind: str) -> list[_Term]:
    entries = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or ()
    own = pod["metadata"]["namespace"]
    result = []
    for entry in entries:
        names, selector = entry.get("namespaces") or (), entry.get("namespaceSelector")
        namespaces = frozenset(names) if names or selector is not None else frozenset((own,))
        result.append(_Term(entry["topologyKey"], entry.get("labelSelector"), namespaces, selector))
    return result


def _pairs(terms: Sequence[_Term], labels: Mapping[str, str]) -> Iterator[Pair]:
    for term in terms:
        if term.key in labels:
            yield term.key, labels[term.key]
