"""The queue of pods: active, backing off, or unschedulable until an event makes another attempt worthwhile.

Source: kubernetes v1.37.2 `pkg/scheduler/backend/queue/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from clusters.clock import Clock
from clusters.embedded.scheduler.framework.changes import pod_changes
from clusters.embedded.scheduler.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    Object,
)
from clusters.embedded.scheduler.framework.runtime import Framework

from .entry import QueuedPod, pod_key
from .heap import Heap
from .in_flight import Happened, InFlight
from .nominator import Nominator

_FLUSH_INTERVAL: Final = 30.0
_WINDOW: Final = 1.0
"""Ends of backoffs are rounded down to whole seconds, so that within a second priority decides."""

Check = Callable[[Object], bool]


class Strategy(IntEnum):
    """What an event means for a pod."""

    SKIP = 0
    AFTER_BACKOFF = 1


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """Seconds: first and longest backoff, and after how long an unschedulable pod is tried anyway."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_unschedulable: float = 300.0


class SchedulingQueue:
    """To be used in one event loop; `run` must be running."""

    def __init__(
        self, clock: Clock, nominator: Nominator, times: QueueTimes, *, pop_from_backoff: bool = True
    ) -> None:
        """`pop_from_backoff` is the gate SchedulerPopFromBackoffQ: an idle scheduler does not wait for backoffs."""
        self._clock = clock
        self._times = times
        self._pop_from_backoff = pop_from_backoff
        self.nominator: Final = nominator
        self._frameworks: Mapping[str, Framework] = {}
        self._active: Heap[QueuedPod] = Heap(lambda entry: entry.order)
        self._backoff: Heap[QueuedPod] = Heap(lambda entry: (self._backoff_end(entry), *entry.order))
        self._errors: Heap[QueuedPod] = Heap(self._backoff_end)
        self._unschedulable: dict[tuple[str, str], QueuedPod] = {}
        self._in_flight = InFlight()
        self._wake = asyncio.Event()
        self._backoff_changed = asyncio.Event()

    def use(self, frameworks: Mapping[str, Framework]) -> None:
        """Set the profiles by scheduler name; before any pod comes."""
        self._frameworks = frameworks

    async def run(self) -> None:
        """Let time pass: ends of backoffs, and pods that have waited too long."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._flush_backoffs())
            group.create_task(self._flush_leftovers())

    # Attempts.

    async def pop(self) -> QueuedPod:
        """The next pod to try; `done` or `add_unschedulable` must follow."""
        while True:
            entry = self._active.pop()
            if entry is None and self._pop_from_backoff:
                entry = self._backoff.pop()
            if entry is not None and entry.uid not in self._in_flight:
                entry.attempts += 1
                self._in_flight.start(entry.uid)
                return entry
            if entry is None:
                self._wake.clear()
                await self._wake.wait()

    def done(self, uid: str) -> None:
        """The attempt is over and the pod does not come back, or its failure would not be due to events."""
        self._in_flight.end(uid)

    def add_unschedulable(self, entry: QueuedPod, plugins: Set[str]) -> None:
        """Take a pod back after a failed attempt. No plugins: it failed by an error, and is retried by time."""
        uid = entry.uid
        known = (self._unschedulable.get(entry.key), self._active.get(entry.key), self._waiting(entry.key))
        if any(found is not None for found in known):
            self._in_flight.end(uid)
            return
        entry.plugins = set(plugins)
        if plugins:
            entry.unschedulable_count += 1
            entry.consecutive_errors = 0
        else:
            entry.consecutive_errors += 1
        entry.timestamp = self._clock.now()
        entry.backoff_until = None
        entry.flushed = 0.0
        strategy = Strategy.AFTER_BACKOFF
        if plugins:
            events = self._in_flight.events(uid) if uid in self._in_flight else []
            worth = any(self._worth_requeuing(entry, happened) for happened in events)
            strategy = Strategy.AFTER_BACKOFF if worth else Strategy.SKIP
        self._in_flight.end(uid)
        self._requeue(entry, strategy)

    # Changes of pods.

    def add(self, pod: Object) -> None:
        """A pod that waits for a node has come."""
        self.nominator.add(pod)
        self._to_active(QueuedPod(pod, self._clock.now()))

    def update(self, old: Object, new: Object) -> None:
        """A waiting pod has changed."""
        events = pod_changes(new, old, is_target=True)
        if new["metadata"]["uid"] in self._in_flight:
            for event in events:
                self._in_flight.note(Happened(event, old, new))
            return
        key = pod_key(old)
        for heap in (self._active, self._backoff, self._errors):
            entry = heap.get(key)
            if entry is not None:
                entry.pod = new
                heap.push(entry)
                self.nominator.update(old, new)
                return
        entry = self._unschedulable.get(key)
        if entry is None:
            self.add(new)
            return
        entry.pod = new
        self.nominator.update(old, new)
        for event in events:
            if self._worth_requeuing(entry, Happened(event, old, new)):
                del self._unschedulable[key]
                self._requeue(entry, Strategy.AFTER_BACKOFF)
                if key not in self._unschedulable:
                    break

    def delete(self, pod: Object) -> None:
        """A pod is gone, or has a node."""
        key = pod_key(pod)
        self.nominator.delete(pod)
        for heap in (self._active, self._backoff, self._errors):
            heap.remove(key)
        self._unschedulable.pop(key, None)

    # Events.

    def move_all(
        self, event: ClusterEvent, old: Object | None, new: Object | None, check: Check | None = None
    ) -> None:
        """Something happened: try the pods again that may fit now; `check` limits them."""
        happened = Happened(event, old, new)
        candidates = self._unschedulable.values()
        self._move([entry for entry in candidates if check is None or check(entry.pod)], happened)

    def activate(self, pod: Object, event: ClusterEvent) -> None:
        """Try one pod again whatever it waits for."""
        entry = self._unschedulable.get(pod_key(pod)) or self._waiting(pod_key(pod))
        if entry is not None:
            self._backoff.remove(entry.key)
            self._errors.remove(entry.key)
            self._to_active(entry)
        elif pod["metadata"]["uid"] in self._in_flight:
            self._in_flight.note(Happened(event, None, pod))

    def _move(self, entries: Iterable[QueuedPod], happened: Happened) -> None:
        if not self._of_interest(happened.event):
            return
        wildcard = happened.event.is_wildcard
        for entry in entries:
            # Of a gated pod only what the gating plugin waits for can let it pass.
            concerned = not entry.gated or wildcard or self._ends_gate(entry, happened.event)
            if concerned and self._worth_requeuing(entry, happened):
                self._unschedulable.pop(entry.key, None)
                self._requeue(entry, Strategy.AFTER_BACKOFF)
        self._in_flight.note(happened)

    def _of_interest(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or any(framework.hints(event) for framework in self._frameworks.values())

    def _ends_gate(self, entry: QueuedPod, event: ClusterEvent) -> bool:
        return entry.gating_plugin in self._frameworks[entry.pod["spec"]["schedulerName"]].hints(event)

    def _worth_requeuing(self, entry: QueuedPod, happened: Happened) -> bool:
        if not entry.plugins:
            return True
        if happened.event.is_wildcard:
            meant = happened.new
            return meant is None or meant["metadata"]["uid"] == entry.uid
        hints = self._frameworks[entry.pod["spec"]["schedulerName"]].hints(happened.event)
        return any(
            hint(entry.pod, happened.old, happened.new)
            for plugin in entry.plugins
            for hint in hints.get(plugin, ())
        )

    # Moves between the queues.

    def _requeue(self, entry: QueuedPod, strategy: Strategy) -> None:
        if strategy is Strategy.SKIP:
            self._unschedulable[entry.key] = entry
        elif self._is_backing_off(entry):
            self._to_backoff(entry)
        else:
            self._to_active(entry)

    def _to_active(self, entry: QueuedPod, *, checked: bool = False) -> None:
        if not checked:
            self._run_pre_enqueue(entry)
        if entry.gated:
            self._unschedulable[entry.key] = entry
            return
        self._unschedulable.pop(entry.key, None)
        self._active.push(entry)
        self._wake.set()

    def _to_backoff(self, entry: QueuedPod) -> None:
        if self._pop_from_backoff:
            self._run_pre_enqueue(entry)
            if entry.gated:
                self._unschedulable[entry.key] = entry
                return
        self._unschedulable.pop(entry.key, None)
        (self._backoff if entry.plugins else self._errors).push(entry)
        self._backoff_changed.set()
        if self._pop_from_backoff:
            self._wake.set()

    def _run_pre_enqueue(self, entry: QueuedPod) -> None:
        framework = self._frameworks[entry.pod["spec"]["schedulerName"]]
        plugins = dict(framework.pre_enqueue)
        first = plugins.pop(entry.gating_plugin, None)
        for plugin in ([first] if first else []) + list(plugins.values()):
            if plugin.pre_enqueue(entry.pod) is not None:
                entry.plugins.add(plugin.name)
                entry.gating_plugin = plugin.name
                return
        entry.gating_plugin = ""

    # Backoff.

    def _waiting(self, key: tuple[str, str]) -> QueuedPod | None:
        return self._backoff.get(key) or self._errors.get(key)

    def _aligned(self, moment: float) -> float:
        return moment // _WINDOW * _WINDOW if self._pop_from_backoff else moment

    def _backoff_end(self, entry: QueuedPod) -> float:
        count = entry.consecutive_errors or entry.unschedulable_count
        if count == 0 or self._times.max_backoff == 0:
            return 0.0
        if entry.backoff_until is None:
            wait = min(self._times.initial_backoff * 2.0 ** min(count - 1, 62), self._times.max_backoff)
            entry.backoff_until = self._aligned(entry.timestamp + wait)
        return entry.backoff_until

    def _is_backing_off(self, entry: QueuedPod) -> bool:
        return self._backoff_end(entry) >= self._aligned(self._clock.now())

    async def _flush_backoffs(self) -> None:
        while True:
            self._backoff_changed.clear()
            if not any(self._backoffs):
                await self._backoff_changed.wait()
            await self._clock.sleep_until(self._aligned(self._clock.now()) + _WINDOW)
            for heap in self._backoffs:
                while (entry := heap.peek()) and not self._is_backing_off(entry):
                    heap.remove(entry.key)
                    self._to_active(entry, checked=self._pop_from_backoff)

    @property
    def _backoffs(self) -> tuple[Heap[QueuedPod], Heap[QueuedPod]]:
        return self._backoff, self._errors

    async def _flush_leftovers(self) -> None:
        while True:
            await self._clock.sleep(_FLUSH_INTERVAL)
            now = self._clock.now()
            late = [
                entry
                for entry in self._unschedulable.values()
                if now - max(entry.timestamp, entry.flushed) > self._times.max_unschedulable
            ]
            for entry in late:
                entry.flushed = now
            self._move(late, Happened(UNSCHEDULABLE_TIMEOUT, None, None))
