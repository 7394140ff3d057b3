"""Which nodes a pod's nodeSelector and node affinity admit and prefer.

Source: component-helpers v0.37.2 `scheduling/corev1/nodeaffinity/nodeaffinity.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allocator.node_match import NodeSelection, NodeSelectorError

from .events import Object


class RequiredNodeAffinity:
    """What a node must have for a pod."""

    def __init__(self, pod: Object) -> None:
        spec = pod["spec"]
        self._labels: Mapping[str, str] = spec.get("nodeSelector") or {}
        required = required_terms(pod)
        self._terms = None if required is None else [_term(term) for term in required]

    def matches(self, node: Object) -> bool:
        """Whether the pod may run there; terms that cannot be read admit nothing."""
        labels = node["metadata"].get("labels") or {}
        if any(labels.get(key) != value for key, value in self._labels.items()):
            return False
        return self._terms is None or any(_matches(term, node) for term in self._terms)


def required_terms(pod: Object) -> list[Mapping[str, Any]] | None:
    """The terms of required node affinity, of which one must match; None: there is no such requirement."""
    affinity = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if affinity is None else list(affinity.get("nodeSelectorTerms") or ())


class PreferredNodeAffinity:
    """What a pod would like its node to have."""

    def __init__(self, pod: Object) -> None:
        preferred = _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        self._terms = [
            (int(entry["weight"]), _term(entry["preference"])) for entry in preferred if entry.get("weight")
        ]

    def __bool__(self) -> bool:
        return bool(self._terms)

    def score(self, node: Object) -> int:
        """The weights of the terms that match, added up."""
        return sum(weight for weight, term in self._terms if _matches(term, node))


def _node_affinity(pod: Object) -> Mapping[str, Any]:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


def _term(term: Mapping[str, Any]) -> NodeSelection:
    return NodeSelection.of({"nodeSelector": {"nodeSelectorTerms": [term]}})


def _matches(term: NodeSelection, node: Object) -> bool:
    try:
        return term.matches(node)
    except NodeSelectorError:
        return False
