# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""NodePorts: two pods on a node cannot have the same host port."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo, host_ports, ports_conflict
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.status import SKIP, Status, unschedulable


class NodePorts(Plugin):
    """Filters nodes on which a wanted host port is taken."""

    name = "NodePorts"

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_pod_deletion),
            Registration(ClusterEvent(Resource.NODE, Action.ADD)),
        )

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        ports = host_ports(pod)
        if not ports:
            return None, SKIP
        state.data[self.name] = ports
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if ports_conflict(state.data[self.name], node.ports):
            return unschedulable("node(s) didn't have free ports for the requested pod ports")
        return None

    def _after_pod_deletion(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if old is None or not is_placed(old):
            return False
        return ports_conflict(host_ports(pod), host_ports(old))


def is_placed(pod: Object) -> bool:
    """Whether a pod has, or is meant to get, a node."""
    return bool(pod["spec"].get("nodeName") or (pod.get("status") or {}).get("nominatedNodeName"))
