"""One worker for each Pod: it runs the Pod, stops it, and cleans up, one step after the other.

No step is interrupted, neither a preparation by a deletion nor a stop by a shorter grace period: kubelet v1.37.2 keeps
the contexts of its steps from being cancelled (kubernetes/kubernetes#113606).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.containers.model import RuntimeServiceError
from clusters.containers.process import happens_within
from clusters.embedded.kubelet.dra.claims import ClaimError
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.sync_result import SyncError
from clusters.embedded.kubelet.pods.syncer import PodSyncer

_JITTER = 0.5
_EXPECTED = (SyncError, ClaimError, ClientError, RuntimeServiceError, OSError)


@dataclass
class _Worker:
    """A Pod and how far its life is; `grace` is the shortest grace period that was asked for, in seconds."""

    pod: Object
    terminating: bool = False
    terminated: bool = False
    finished: bool = False
    gone: bool = False
    grace: float = 0.0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class PodWorkers:
    """The workers of all Pods of a node."""

    def __init__(
        self,
        syncer: PodSyncer,
        clock: Clock,
        log: logging.Logger,
        *,
        sync_frequency: float,
        backoff_period: float,
        group: asyncio.TaskGroup,
        finished: Callable[[str], None],
    ) -> None:
        """`finished` is told the UID of a Pod whose life is over; workers are tasks of `group`."""
        self._syncer, self._clock, self._log = syncer, clock, log
        self._sync_frequency = sync_frequency
        self._backoff_period = min(backoff_period, sync_frequency)
        self._group, self._finished = group, finished
        self._workers: dict[str, _Worker] = {}

    # Questions

    def known(self, uid: str) -> bool:
        """Whether the Pod has, or had, a worker."""
        return uid in self._workers

    def terminating(self, uid: str) -> bool:
        """Whether the Pod is being stopped, or has been."""
        worker = self._workers.get(uid)
        return worker is not None and worker.terminating

    def terminated(self, uid: str) -> bool:
        """Whether the Pod has been stopped."""
        worker = self._workers.get(uid)
        return worker is not None and worker.terminated

    def is_finished(self, uid: str) -> bool:
        """Whether nothing is left to do for the Pod."""
        worker = self._workers.get(uid)
        return worker is None or worker.finished

    def could_run(self, uid: str) -> bool:
        """Whether containers of the Pod may run."""
        worker = self._workers.get(uid)
        return worker is not None and not worker.terminated

    # Changes

    def update(self, pod: Object, *, stopped: bool = False, kill: bool = False) -> None:
        """Look at a Pod that is new or changed.

        Args:
            pod: the object.
            stopped: nothing of the Pod runs, as the runtime says; looked at for new Pods in a terminal phase.
            kill: the Pod is to be stopped although the object does not say so.
        """
        uid = objects.uid(pod)
        worker = self._workers.get(uid)
        if worker is None:
            worker = self._workers[uid] = _Worker(pod)
            if objects.is_terminal(pod) and stopped:
                worker.terminating = worker.terminated = True
        if worker.finished:
            return
        worker.pod = pod
        if objects.deleted(pod) or objects.is_terminal(pod) or kill:
            worker.terminating = True
        if worker.terminating:
            worker.grace = _grace(worker.grace, pod)
        worker.wake.set()
        if worker.task is None:
            worker.task = self._group.create_task(self._run(uid, worker), name=f"pod {objects.name(pod)}")

    def poke(self, uid: str, pod: Object | None = None) -> None:
        """Something about the Pod may have changed in the runtime."""
        worker = self._workers.get(uid)
        if worker is not None and not worker.finished:
            if pod is not None:
                worker.pod = pod
            worker.wake.set()

    def refresh(self, pod: Object) -> None:
        """Know the newest object for the next look, without looking now."""
        worker = self._workers.get(objects.uid(pod))
        if worker is not None:
            worker.pod = pod

    def remove(self, uid: str) -> None:
        """Forget a finished Pod."""
        self._workers.pop(uid, None)

    # Work

    async def _run(self, uid: str, worker: _Worker) -> None:
        due: float | None = None
        while True:
            if due is None:
                await worker.wake.wait()
            else:
                await happens_within(self._clock, worker.wake, max(0.0, due - self._clock.now()))
            worker.wake.clear()
            try:
                if worker.terminated:
                    await self._syncer.sync_terminated(worker.pod)
                    worker.finished = True
                    self._finished(uid)
                    return
                if worker.terminating:
                    await self._syncer.sync_terminating(worker.pod, worker.grace)
                    worker.terminated = True
                    due = self._clock.now()
                elif await self._syncer.sync(worker.pod):
                    worker.terminating = True
                    worker.grace = _grace(worker.grace, worker.pod)
                    due = self._clock.now()
                else:
                    due = self._clock.now() + _jittered(self._sync_frequency)
                    due = min(due, self._syncer.deadline(worker.pod) or due)
            except _EXPECTED as error:
                self._log.warning(
                    'Error syncing pod, skipping pod="%s/%s" podUID="%s" err="%s"',
                    objects.namespace(worker.pod),
                    objects.name(worker.pod),
                    uid,
                    error,
                )
                due = self._clock.now() + self._retry_delay(error)
            except Exception as error:  # noqa: BLE001 - one Pod must not end the kubelet
                self._log.exception('Panic while syncing pod podUID="%s"', uid)
                due = self._clock.now() + self._retry_delay(error)

    def _retry_delay(self, error: Exception) -> float:
        delay = self._backoff_period
        if isinstance(error, SyncError) and error.retry_at is not None:
            delay = min(max(error.retry_at - self._clock.now(), 0.0), self._sync_frequency)
        return _jittered(delay)


def _jittered(seconds: float) -> float:
    return seconds * (1.0 + CHANCE.random() * _JITTER)


def _grace(known: float, pod: Object) -> float:
    """The grace period of a Pod that stops: it can become shorter only, and is never below a second."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    seconds = known
    if asked is not None and (not known or asked < known):
        seconds = float(asked)
    elif not known:
        seconds = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
    return max(seconds, 1.0)
