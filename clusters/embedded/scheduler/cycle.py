"""One attempt to schedule a pod: the search for a node, one pod at a time, and the binding, many at a time.

Source: kubernetes v1.37.2 `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder

from .cache import Cache, Snapshot
from .diagnosis import NO_NODES, Diagnosis, Failure
from .framework.events import ASSIGNED_POD_DELETE, Object
from .framework.node_info import NodeInfo
from .framework.plugin import CycleState, OutdatedPlanError
from .framework.runtime import Framework
from .framework.status import Code, Status, error, unresolvable, unschedulable
from .outcome import FailureHandler, PodStatusWriter
from .queue.entry import QueuedPod
from .queue.scheduling_queue import SchedulingQueue

_MIN_FEASIBLE: Final = 100
_MIN_PERCENTAGE: Final = 5
_PLANS: Final = 50
"""How often in a row a pod is planned while other schedulers are faster.

Each time one of them has given the devices to a pod of its own, so that all together go on; but the one that is slower
tends to remain so as long as the others have such pods, and its own pods wait behind this one, those without claims
too. Of 100 pods that 16 schedulers allocate at once nearly all get a node within this many plans, which take a second
or two. The others are tried again after their backoff, when the rush is over.
"""
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class _NoFitError(Exception):
    """No node was found; carries the failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Profile:
    """One scheduler name."""

    framework: Framework
    recorder: EventRecorder
    percentage: int
    """The share of nodes to find before choosing, in percent; 0 adapts to the size of the cluster."""


class SchedulingCycle:
    """Schedules pods of all profiles, in one event loop."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        queue: SchedulingQueue,
        cache: Cache,
        client: ApiClient,
        failures: FailureHandler,
        writer: PodStatusWriter,
        log: logging.Logger,
        *,
        nominate_before_binding: bool,
    ) -> None:
        self._profiles = profiles
        self._queue = queue
        self._cache = cache
        self._client = client
        self._failures = failures
        self._writer = writer
        self._log = log
        self._nominate = nominate_before_binding
        self._next_start = 0

    async def run(self, spawn: Spawn) -> None:
        """Schedule until cancelled; `spawn` starts the binding of a pod in the background."""
        while True:
            await self.schedule_one(spawn)

    async def schedule_one(self, spawn: Spawn) -> None:
        """Take the next pod and look for a node."""
        entry = await self._queue.pop()
        pod = entry.pod
        profile = self._profiles[pod["spec"]["schedulerName"]]
        if self._skips(pod, profile):
            self._queue.done(entry.uid)
            return
        try:
            state, node, assumed = await self._decide(pod, profile)
        except _NoFitError as problem:
            await self._failures.handle(entry, problem.failure, profile.recorder)
        except Exception as problem:  # noqa: BLE001 - a fault here must not end the scheduler
            self._log.exception("scheduling %s/%s", *entry.key)
            await self._failures.handle(entry, _failed(error(str(problem))), profile.recorder)
        else:
            spawn(self._bind(state, entry, assumed, node, profile))

    def _skips(self, pod: Object, profile: Profile) -> bool:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            note = f"skip schedule deleting pod: {metadata['namespace']}/{metadata['name']}"
            profile.recorder.action(pod, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self._cache.is_assumed(metadata["uid"])

    async def _decide(self, pod: Object, profile: Profile) -> tuple[CycleState, str, Object]:
        """Choose a node and take it; again when another scheduler was faster."""
        for plan in range(1, _PLANS + 1):
            state = CycleState()
            node = await self._find_node(state, pod, profile)
            try:
                return state, node, await self._assume(state, pod, node, profile)
            except OutdatedPlanError as problem:
                if plan == _PLANS:
                    raise _NoFitError(_failed(error(str(problem)))) from None
        raise AssertionError

    # The search.

    async def _find_node(self, state: CycleState, pod: Object, profile: Profile) -> str:
        snapshot = self._cache.snapshot()
        if not snapshot.nodes:
            raise _NoFitError(Failure(unresolvable(NO_NODES), NO_NODES))
        diagnosis = Diagnosis(len(snapshot.nodes))
        feasible = await self._feasible(state, pod, profile, snapshot, diagnosis)
        if len(feasible) > 1:
            return profile.framework.choose(state, pod, feasible).name
        if feasible:
            return feasible[0].name
        nomination, status = await profile.framework.run_post_filter(state, pod, diagnosis.node_statuses())
        diagnosis.post_filter = status.message
        raise _NoFitError(
            Failure(
                unschedulable(),
                diagnosis.message,
                frozenset(diagnosis.plugins),
                None if nomination is None else nomination.node,
            )
        )

    async def _feasible(
        self, state: CycleState, pod: Object, profile: Profile, snapshot: Snapshot, diagnosis: Diagnosis
    ) -> list[NodeInfo]:
        framework = profile.framework
        names, refusal, narrowing = framework.run_pre_filter(state, pod, snapshot.nodes)
        diagnosis.plugins.update(narrowing)
        if refusal is not None:
            if not refusal.rejected:
                raise _NoFitError(_failed(refusal))
            diagnosis.absent = refusal
            diagnosis.pre_filter = refusal.message
            if refusal.plugin:
                diagnosis.plugins.add(refusal.plugin)
            return []
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if nominated and (node := snapshot.get(nominated)) is not None:
            found = await self._filtered(state, pod, profile, [node], diagnosis, errors=False)
            if found:
                return found
        nodes: Sequence[NodeInfo] = snapshot.nodes
        if names is not None:
            nodes = [node for node in snapshot.nodes if node.name in names]
            text = f"node(s) didn't satisfy plugin(s) [{' '.join(narrowing)}]"
            diagnosis.absent = unresolvable(text)
        feasible = await self._filtered(state, pod, profile, nodes, diagnosis)
        looked_at = len(feasible) + len(diagnosis.statuses)
        self._next_start = (self._next_start + looked_at) % len(snapshot.nodes)
        return feasible

    async def _filtered(
        self,
        state: CycleState,
        pod: Object,
        profile: Profile,
        nodes: Sequence[NodeInfo],
        diagnosis: Diagnosis,
        *,
        errors: bool = True,
    ) -> list[NodeInfo]:
        """The nodes that pass, in the order in which they were looked at. `errors` False: those are ignored."""
        start = self._next_start % len(nodes) if nodes else 0
        ordered = [*nodes[start:], *nodes[:start]]
        wanted = nodes_to_find(len(nodes), profile.percentage)

        def work() -> list[NodeInfo]:
            feasible: list[NodeInfo] = []
            for node in ordered:
                status = profile.framework.run_filter(state, pod, node)
                if status is None:
                    feasible.append(node)
                    if len(feasible) >= wanted:
                        break
                elif status.rejected:
                    diagnosis.refuse(node.name, status)
                elif errors:
                    raise _NoFitError(_failed(status))
            return feasible

        return await asyncio.to_thread(work) if state.off_loop else work()

    # From the decision to the binding.

    async def _assume(self, state: CycleState, pod: Object, node: str, profile: Profile) -> Object:
        assumed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self._cache.assume(assumed)
        self._queue.nominator.delete(pod)
        try:
            status = profile.framework.run_reserve(state, assumed, node)
            if status is None:
                status = await profile.framework.run_permit(state, assumed, node)
        except Exception:
            await self._give_back(state, assumed, node, profile)
            raise
        if status is not None:
            await self._give_back(state, assumed, node, profile)
            raise _NoFitError(_refused(status, node))
        return assumed

    async def _give_back(self, state: CycleState, assumed: Object, node: str, profile: Profile) -> None:
        await profile.framework.run_unreserve(state, assumed, node)
        self._cache.forget(assumed["metadata"]["uid"])

    async def _bind(
        self, state: CycleState, entry: QueuedPod, assumed: Object, node: str, profile: Profile
    ) -> None:
        try:
            status = await self._binding(state, entry, assumed, node, profile)
        except Exception as problem:  # noqa: BLE001 - a fault here must not end the scheduler
            self._log.exception("binding %s/%s", *entry.key)
            status = error(str(problem))
        metadata = assumed["metadata"]
        if status is None:
            note = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
            profile.recorder.action(assumed, "Normal", "Scheduled", "Binding", note)
            return
        await self._give_back(state, assumed, node, profile)
        # What the pod held is free again: others may fit, as after the deletion of a pod.
        self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None)
        await self._failures.handle(entry, _refused(status, node), profile.recorder)

    async def _binding(
        self, state: CycleState, entry: QueuedPod, assumed: Object, node: str, profile: Profile
    ) -> Status | None:
        if self._nominate and profile.framework.has_pre_bind_work(state):
            try:
                await self._writer.patch(entry.pod, None, node)
            except ClientError as problem:
                self._log.info("nominated node of %s/%s not written: %s", *entry.key, problem)
        # From here on failures are errors, retried by time: events no longer matter.
        self._queue.done(entry.uid)
        status = await profile.framework.run_pre_bind(state, assumed, node)
        if status is not None:
            return status
        metadata = assumed["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {name: metadata[name] for name in ("name", "namespace", "uid")},
            "target": {"kind": "Node", "name": node},
        }
        try:
            await self._client.create("v1", "pods", body, metadata["namespace"], metadata["name"], "binding")
        except ClientError as problem:
            return error(f'running Bind plugin "DefaultBinder": {problem.message}')
        return None


def nodes_to_find(count: int, percentage: int) -> int:
    """How many nodes that fit are enough to choose from."""
    if count < _MIN_FEASIBLE:
        return count
    if percentage == 0:
        percentage = max(50 - count // 125, _MIN_PERCENTAGE)
    return max(count * percentage // 100, _MIN_FEASIBLE)


def _failed(status: Status) -> Failure:
    return Failure(status, status.message)


def _refused(status: Status, node: str) -> Failure:
    """A failure after a node was chosen; a refusal reads as if that were the only node."""
    if status.code is Code.ERROR:
        return _failed(status)
    diagnosis = Diagnosis(1)
    diagnosis.refuse(node, status)
    return Failure(status, diagnosis.message, frozenset(diagnosis.plugins))
