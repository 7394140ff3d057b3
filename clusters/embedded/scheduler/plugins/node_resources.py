# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""NodeResourcesFit and NodeResourcesBalancedAllocation.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/plugins/noderesources/`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import MAX_SCORE, CycleState, Plugin
from clusters.embedded.scheduler.framework.requests import (
    CPU,
    DEFAULT_REQUESTS,
    MEMORY,
    Amounts,
    pod_requests,
    running_requests,
)
from clusters.embedded.scheduler.framework.status import SKIP, Code, Status
from clusters.embedded.scheduler.plugins.node_ports import is_placed

_EPHEMERAL: Final = "ephemeral-storage"
_PODS: Final = "pods"
_NATIVE: Final = (CPU, MEMORY, _EPHEMERAL)


class NodeResourcesFit(Plugin):
    """Filters nodes without room, and prefers nodes with most room."""

    name = "NodeResourcesFit"

    def events(self) -> Sequence[Registration]:
        assigned, target = Resource.ASSIGNED_POD, Resource.TARGET_POD
        node = ClusterEvent(Resource.NODE, Action.ADD | Action.NODE_ALLOCATABLE)
        return (
            Registration(ClusterEvent(assigned, Action.DELETE), self._after_pod_deletion),
            Registration(node, self._after_node),
            Registration(ClusterEvent(assigned, Action.POD_SCALE_DOWN), self._after_scale_down),
            Registration(ClusterEvent(target, Action.POD_SCALE_DOWN)),
        )

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        state.data[self.name] = pod_requests(pod)
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        reasons, resolvable = shortages(state.data[self.name], node)
        if not reasons:
            return None
        return Status(Code.UNSCHEDULABLE if resolvable else Code.UNRESOLVABLE, tuple(reasons))

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        state.data["NodeResourcesFit.score"] = running_requests(pod, DEFAULT_REQUESTS)
        return None

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        requests: Amounts = state.data["NodeResourcesFit.score"]
        scores = []
        for name in (CPU, MEMORY):
            capacity = node.allocatable.get(name, 0)
            if capacity:
                left = capacity - node.compared[name] - requests.get(name, 0)
                scores.append(max(left, 0) * MAX_SCORE // capacity)
        return sum(scores) // len(scores) if scores else 0

    def _after_pod_deletion(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        return old is None or is_placed(old)

    def _after_scale_down(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        if old is None or new is None:
            return True
        before, after = running_requests(old), running_requests(new)
        wanted = running_requests(pod)
        return any(value and before.get(name, 0) > after.get(name, 0) for name, value in wanted.items())

    def _after_node(self, pod: Object, old: Object | None, new: Object | None) -> bool:
        requests, modified = pod_requests(pod), NodeInfo(new)
        if shortages(requests, modified)[0]:
            return False
        if old is None:
            return True
        before, after = NodeInfo(old).allocatable, modified.allocatable
        names = (_PODS, *(name for name, value in requests.items() if value))
        return any(after.get(name, 0) > before.get(name, 0) for name in names)


def shortages(requests: Amounts, node: NodeInfo) -> tuple[list[str], bool]:
    """What a node lacks for the requests, and whether an empty node would do."""
    allocatable, requested = node.allocatable, node.requested
    full = len(node.pods) >= allocatable.get(_PODS, 0)
    lacking = [
        name
        for name, wanted in requests.items()
        if wanted > 0 and wanted > allocatable.get(name, 0) - requested.get(name, 0)
    ]
    if not full and not lacking:
        return [], True
    lacking.sort(key=lambda name: _NATIVE.index(name) if name in _NATIVE else len(_NATIVE))
    reasons = ["Too many pods"] if full else []
    reasons += [f"Insufficient {name}" for name in lacking]
    return reasons, all(requests[name] <= allocatable.get(name, 0) for name in lacking)


class NodeResourcesBalancedAllocation(Plugin):
    """Prefers nodes on which cpu and memory are used to a similar share afterwards."""

    name = "NodeResourcesBalancedAllocation"

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        requests = running_requests(pod)
        if not requests.get(CPU) and not requests.get(MEMORY):
            return SKIP
        state.data[self.name] = requests
        return None

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        requests: Amounts = state.data[self.name]
        half = MAX_SCORE // 2
        cpus, memory = node.allocatable.get(CPU, 0), node.allocatable.get(MEMORY, 0)
        if not cpus or not memory:
            return half + _halved(half)
        used_cpus, used_memory = node.requested.get(CPU, 0), node.requested.get(MEMORY, 0)
        now = _balance(used_cpus / cpus, used_memory / memory)
        then = _balance(
            (used_cpus + requests.get(CPU, 0)) / cpus, (used_memory + requests.get(MEMORY, 0)) / memory
        )
        return half + _halved(half + then - now)


def _balance(cpus: float, memory: float) -> int:
    """How balanced shares of what a node has are; more than all counts as all."""
    return math.trunc((1 - abs(min(cpus, 1.0) - min(memory, 1.0)) / 2) * MAX_SCORE)


def _halved(number: int) -> int:
    """Half of a number, rounded towards zero as Go does."""
    return math.trunc(number / 2)
