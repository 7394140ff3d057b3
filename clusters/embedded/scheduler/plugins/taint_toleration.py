# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""TaintToleration: taints of nodes keep pods away, or make the node less liked."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin, normalized
from clusters.embedded.scheduler.framework.status import SKIP, Status, unresolvable
from clusters.embedded.scheduler.framework.taints import has_untolerated, tolerated


class TaintToleration(Plugin):
    """Filters by NoSchedule and NoExecute, scores by PreferNoSchedule."""

    name = "TaintToleration"

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.NODE_TAINT), self._after_node),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_TOLERATION)),
        )

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if node.taints and has_untolerated(node.taints, pod["spec"].get("tolerations")):
            return unresolvable("node(s) had untolerated taint(s)")
        return None

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        # Nodes without taints are liked equally.
        return None if any(node.taints for node in nodes) else SKIP

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        wanted = [
            toleration
            for toleration in pod["spec"].get("tolerations") or ()
            if toleration.get("effect") in (None, "", "PreferNoSchedule")
        ]
        return sum(
            taint["effect"] == "PreferNoSchedule" and not tolerated(taint, wanted) for taint in node.taints
        )

    def normalize(self, scores: list[int]) -> list[int]:
        return normalized(scores, reverse=True)

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None:
            return False
        tolerations = pod["spec"].get("tolerations")
        if has_untolerated(new["spec"].get("taints"), tolerations):
            return False
        return old is None or has_untolerated(old["spec"].get("taints"), tolerations)
