# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""NodeName, NodeUnschedulable and SchedulingGates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.status import SKIP, Status, unresolvable
from clusters.embedded.scheduler.framework.taints import tolerated

_UNSCHEDULABLE_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class SchedulingGates(Plugin):
    """Keeps pods out of scheduling until their gates are gone."""

    name = "SchedulingGates"

    def events(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_GATES_ELIMINATED)),)

    def pre_enqueue(self, pod: Object) -> Status | None:
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None


class NodeName(Plugin):
    """Honours spec.nodeName."""

    name = "NodeName"

    def events(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(Resource.NODE, Action.ADD)),)

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        wanted = pod["spec"].get("nodeName")
        return (frozenset((wanted,)), None) if wanted else (None, SKIP)

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if pod["spec"].get("nodeName") in (None, "", node.name):
            return None
        return unresolvable("node(s) didn't match the requested node name")


class NodeUnschedulable(Plugin):
    """Keeps pods off cordoned nodes."""

    name = "NodeUnschedulable"

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.NODE_TAINT), self._after_node),
            Registration(ClusterEvent(Resource.TARGET_POD, Action.POD_TOLERATION), self._after_toleration),
        )

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if not node.object["spec"].get("unschedulable") or _tolerates_cordon(pod):
            return None
        return unresolvable("node(s) were unschedulable")

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if new is None or new["spec"].get("unschedulable"):
            return False
        return old is None or bool(old["spec"].get("unschedulable"))

    def _after_toleration(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        return new is None or _tolerates_cordon(new)


def _tolerates_cordon(pod: Object) -> bool:
    return tolerated(_UNSCHEDULABLE_TAINT, pod["spec"].get("tolerations") or ())
