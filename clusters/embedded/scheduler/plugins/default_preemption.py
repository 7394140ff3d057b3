# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""DefaultPreemption: pods of lower priority make room for a pod that fits nowhere.

PodDisruptionBudgets are not looked at. Source: kubernetes v1.37.2 `pkg/scheduler/framework/preemption/`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.scheduler.cache import Snapshot
from clusters.embedded.scheduler.diagnosis import Diagnosis
from clusters.embedded.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    ClusterEvent,
    Object,
    Registration,
)
from clusters.embedded.scheduler.framework.node_info import NodeInfo, PodInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, NodeStatuses, Nomination, Plugin
from clusters.embedded.scheduler.framework.runtime import priority
from clusters.embedded.scheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from clusters.embedded.scheduler.outcome import PodStatusWriter

_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_REASON: Final = "PreemptionByScheduler"
_PRIORITY_SHIFT: Final = 2**31

RunFilter = Callable[[CycleState, Object, NodeInfo], Status | None]


@dataclass(frozen=True, slots=True)
class PreemptionAccess:
    """What the plugin knows and uses."""

    snapshot: Callable[[], Snapshot]
    client: ApiClient
    writer: PodStatusWriter
    activate: Callable[[Object, ClusterEvent], None]
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    log: logging.Logger


@dataclass(frozen=True, slots=True)
class _Candidate:
    node: str
    victims: tuple[PodInfo, ...]
    """Most important first."""


class DefaultPreemption(Plugin):
    """Chooses victims on one node, nominates the pod for it, and deletes them in the background."""

    name = "DefaultPreemption"

    def __init__(self, access: PreemptionAccess, recorder: EventRecorder, scheduler_name: str) -> None:
        self._access = access
        self._recorder = recorder
        self._scheduler_name = scheduler_name
        self._filter: RunFilter | None = None
        self._preempting: set[str] = set()

    def use(self, run_filter: RunFilter) -> None:
        """Set what tells whether the pod would fit; before any pod comes."""
        self._filter = run_filter

    def events(self) -> Sequence[Registration]:
        # Ends the gating; whether the pod is tried again is up to the plugins that refused it.
        return (Registration(ASSIGNED_POD_DELETE, lambda pod, old, new: False),)

    def pre_enqueue(self, pod: Object) -> Status | None:
        if pod["metadata"]["uid"] in self._preempting:
            return unresolvable("waiting for the preemption for this pod to be finished")
        return None

    async def post_filter(
        self, state: CycleState, pod: Object, statuses: NodeStatuses
    ) -> tuple[Nomination | None, Status]:
        nomination, status = await self._preempt(state, pod, statuses)
        reasons = (f"preemption: {status.message}",) if status.reasons else ()
        return nomination, Status(status.code, reasons)

    async def _preempt(
        self, state: CycleState, pod: Object, statuses: NodeStatuses
    ) -> tuple[Nomination | None, Status]:
        nodes = self._access.snapshot().nodes
        refusal = self._ineligible(pod, statuses, nodes)
        if refusal:
            return None, unschedulable(refusal)
        diagnosis = Diagnosis(len(nodes), absent=unresolvable(_NOT_HELPFUL))
        promising = [node for node in nodes if statuses.of(node.name).code is Code.UNSCHEDULABLE]

        def work() -> list[_Candidate]:
            found = []
            for node in promising:
                result = self._victims_on(state.copy(), pod, node)
                if isinstance(result, Status):
                    diagnosis.refuse(node.name, result)
                elif result.victims:
                    found.append(result)
            return found

        candidates = await asyncio.to_thread(work) if state.off_loop and promising else work()
        if not candidates:
            return Nomination(""), unschedulable(diagnosis.message)
        chosen = min(candidates, key=_cost)
        self._preempting.add(pod["metadata"]["uid"])
        self._access.spawn(self._evict(pod, chosen))
        text = (
            f"found a potential placement for pod on node {chosen.node}, "
            f"preempting {len(chosen.victims)} victims"
        )
        return Nomination(chosen.node), Status(Code.SUCCESS, (text,))

    def _ineligible(self, pod: Object, statuses: NodeStatuses, nodes: Sequence[NodeInfo]) -> str:
        """Why the pod may not preempt others."""
        if pod["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if not nominated or statuses.of(nominated).code is Code.UNRESOLVABLE:
            return ""
        for node in nodes:
            leaving = (info.pod for info in node.pods.values() if _is_leaving(info.pod))
            if node.name == nominated and any(priority(other) < priority(pod) for other in leaving):
                return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _victims_on(self, state: CycleState, pod: Object, node: NodeInfo) -> _Candidate | Status:
        """The pods that have to go so that the pod fits, or why that does not help."""
        lower = [info for info in node.pods.values() if priority(info.pod) < priority(pod)]
        if not lower:
            return unresolvable(_NO_VICTIMS)
        emptied = node.copy()
        for info in lower:
            emptied.remove(info.uid)
        status = self._fits(state, pod, emptied)
        if status is not None:
            return status
        victims = []
        for info in sorted(lower, key=_importance):
            emptied.add(info)
            if self._fits(state, pod, emptied) is not None:
                emptied.remove(info.uid)
                victims.append(info)
        return _Candidate(node.name, tuple(victims))

    def _fits(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        if self._filter is None:
            return error("preemption is not set up")
        return self._filter(state, pod, node)

    async def _evict(self, pod: Object, chosen: _Candidate) -> None:
        uid = pod["metadata"]["uid"]
        victims = [info.pod for info in chosen.victims if not info.pod["metadata"].get("deletionTimestamp")]
        try:
            for number, victim in enumerate(victims, 1):
                if number == len(victims):
                    # The event of the last deletion must find the pod ready to be tried again.
                    self._preempting.discard(uid)
                await self._evict_one(pod, victim, chosen.node)
        except ClientError as problem:
            self._access.log.info("preemption for %s: %s", pod["metadata"]["name"], problem)
            self._preempting.discard(uid)
            self._access.activate(pod, FORCE_ACTIVATE)
        finally:
            self._preempting.discard(uid)

    async def _evict_one(self, pod: Object, victim: Object, node: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _REASON,
            "message": f"{self._scheduler_name}: preempting to accommodate a higher priority pod",
        }
        metadata = victim["metadata"]
        try:
            await self._access.writer.patch(victim, condition, None)
            await self._access.client.delete("v1", "pods", metadata["name"], metadata["namespace"])
        except ClientError as problem:
            if problem.code != 404:
                raise
            return
        note = f"Preempted by pod {pod['metadata']['uid']} on node {node}"
        self._recorder.action(victim, "Normal", "Preempted", "Preempting", note, related=pod)


def _importance(info: PodInfo) -> tuple[int, str]:
    """More important pods first: higher priority, then longer running."""
    return -priority(info.pod), _start(info.pod)


def _cost(candidate: _Candidate) -> tuple[int, int, int, _Later]:
    priorities = [priority(info.pod) for info in candidate.victims]
    return (
        max(priorities),
        sum(number + _PRIORITY_SHIFT for number in priorities),
        len(priorities),
        _Later(min(_start(info.pod) for info in candidate.victims if priority(info.pod) == max(priorities))),
    )


@dataclass(frozen=True, slots=True)
class _Later:
    """Orders later times first."""

    stamp: str

    def __lt__(self, other: _Later) -> bool:
        return self.stamp > other.stamp


def _start(pod: Object) -> str:
    """When the pod started; one that has not is younger than all others."""
    return str((pod.get("status") or {}).get("startTime") or "9999")


def _is_leaving(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return bool(pod["metadata"].get("deletionTimestamp")) and any(
        entry["type"] == "DisruptionTarget" and entry["status"] == "True" and entry.get("reason") == _REASON
        for entry in conditions
    )
