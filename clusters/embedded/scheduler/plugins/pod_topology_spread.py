# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""PodTopologySpread: constraints with whenUnsatisfiable DoNotSchedule.

Constraints that are wishes only, and the default ones, do not influence the score. Source: kubernetes v1.37.2
`pkg/scheduler/framework/plugins/podtopologyspread/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_affinity import RequiredNodeAffinity
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.status import SKIP, Status, error, unresolvable, unschedulable
from clusters.embedded.scheduler.framework.taints import has_untolerated
from dra_api.label_selector import LabelSelectorError, check, matches

_MISMATCH: Final = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A constraint with the number of matching pods by value of its topology key."""

    key: str
    max_skew: int
    min_domains: int
    matches_itself: bool
    counts: Mapping[str, int]

    def skew(self, value: str) -> int:
        """What the difference would be with the pod there."""
        fewest = min(self.counts.values(), default=0) if len(self.counts) >= self.min_domains else 0
        return self.counts.get(value, 0) + self.matches_itself - fewest


class PodTopologySpread(Plugin):
    """Keeps groups of pods evenly spread over zones, nodes or whatever a label says."""

    name = "PodTopologySpread"

    def events(self) -> Sequence[Registration]:
        pods = Action.ADD | Action.DELETE | Action.POD_LABEL
        nodes = Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, pods)),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_TOLERATION | Action.POD_LABEL)),
            Registration(ClusterEvent(Resource.NODE, nodes)),
        )

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        entries = [
            entry
            for entry in pod["spec"].get("topologySpreadConstraints") or ()
            if entry["whenUnsatisfiable"] == "DoNotSchedule"
        ]
        if not entries:
            return None, SKIP
        keys = [entry["topologyKey"] for entry in entries]
        labelled = [node for node in nodes if all(key in _labels(node.object) for key in keys)]
        try:
            state.data[self.name] = [_constraint(entry, pod, labelled) for entry in entries]
        except LabelSelectorError as problem:
            return None, error(f"get constraints from pod: {problem}")
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        constraints: list[_Constraint] = state.data[self.name]
        labels = _labels(node.object)
        for constraint in constraints:
            value = labels.get(constraint.key)
            if value is None:
                return unresolvable(f"{_MISMATCH} (missing required label)")
            if constraint.skew(value) > constraint.max_skew:
                return unschedulable(_MISMATCH)
        return None


def _constraint(entry: Mapping[str, Any], pod: Object, nodes: Sequence[NodeInfo]) -> _Constraint:
    labels = pod["metadata"].get("labels") or {}
    selector = _selector(entry, labels)
    if selector is not None:
        check(selector)
    namespace = pod["metadata"]["namespace"]
    counts: Counter[str] = Counter()
    for node in nodes:
        if _counts_node(entry, pod, node.object):
            counts[_labels(node.object)[entry["topologyKey"]]] += sum(
                _counts_pod(info.pod, namespace, selector) for info in node.pods.values()
            )
    return _Constraint(
        key=entry["topologyKey"],
        max_skew=int(entry["maxSkew"]),
        min_domains=int(entry.get("minDomains") or 1),
        matches_itself=matches(selector, labels),
        counts=counts,
    )


def _selector(entry: Mapping[str, Any], labels: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The selector, narrowed to the pod's own values of matchLabelKeys."""
    selector: Mapping[str, Any] | None = entry.get("labelSelector")
    keys = [key for key in entry.get("matchLabelKeys") or () if key in labels]
    if selector is None or not keys:
        return selector
    own = [{"key": key, "operator": "In", "values": [labels[key]]} for key in keys]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *own]}


def _counts_node(entry: Mapping[str, Any], pod: Object, node: Object) -> bool:
    """Whether a node belongs to the places over which pods are spread."""
    if (entry.get("nodeAffinityPolicy") or "Honor") == "Honor" and not RequiredNodeAffinity(pod).matches(
        node
    ):
        return False
    honors_taints = entry.get("nodeTaintsPolicy") == "Honor"
    return not (honors_taints and has_untolerated(node["spec"].get("taints"), pod["spec"].get("tolerations")))


def _counts_pod(pod: Object, namespace: str, selector: Mapping[str, Any] | None) -> bool:
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp") or metadata["namespace"] != namespace:
        return False
    chooses = bool(selector and (selector.get("matchLabels") or selector.get("matchExpressions")))
    return chooses and matches(selector, metadata.get("labels"))


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
