"""What becomes visible of a failed attempt: the event and the condition of the pod, and the queue it goes to."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer

from .diagnosis import Failure
from .framework.events import Object
from .queue.entry import QueuedPod
from .queue.scheduling_queue import SchedulingQueue

_NOTE_LIMIT: Final = 1024
_SUFFIX: Final = " ..."
_PATCH_PAUSES: Final = (0.01, 0.05, 0.25)
_RETRIABLE: Final = (0, 500, 503)


class PodStatusWriter:
    """Patches the status of pods that wait."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def patch(self, pod: Object, condition: Object | None, nomination: str | None) -> None:
        """Set a condition (type, status, reason, message) and the nominated node; nothing is sent without a change.

        `nomination` None leaves the nominated node as it is, an empty one clears it. Raises ClientError.
        """
        status = pod.get("status") or {}
        changes: dict[str, Any] = {}
        if condition is not None:
            updated = self._updated(status, pod, condition)
            if updated is not None:
                changes["conditions"] = [updated]
        if nomination is not None and nomination != (status.get("nominatedNodeName") or ""):
            changes["nominatedNodeName"] = nomination or None
        if not changes:
            return
        metadata = pod["metadata"]
        for pause in (*_PATCH_PAUSES, None):
            try:
                body = {"status": changes}
                await self._client.patch(
                    "v1", "pods", metadata["name"], body, metadata["namespace"], "status"
                )
                return
            except ClientError as problem:
                if pause is None or not (problem.code in _RETRIABLE or problem.reason == "Conflict"):
                    raise
                await asyncio.sleep(pause)

    def _updated(self, status: Object, pod: Object, condition: Object) -> Object | None:
        """The condition to write, None: it is already there."""
        known = {entry["type"]: entry for entry in status.get("conditions") or ()}
        old: Object = known.get(condition["type"], {})
        generation = pod["metadata"].get("generation")
        new = {**condition, **({"observedGeneration": generation} if generation else {})}
        if all(old.get(name) == value for name, value in new.items()):
            return None
        same = old.get("status") == condition["status"]
        moment = old.get("lastTransitionTime") if same else None
        return {**new, "lastTransitionTime": moment or self._clock.timestamp()}


class FailureHandler:
    """Takes pods back whose attempt has failed."""

    def __init__(
        self, queue: SchedulingQueue, pods: Informer, writer: PodStatusWriter, log: logging.Logger
    ) -> None:
        self._queue = queue
        self._pods = pods
        self._writer = writer
        self._log = log

    async def handle(self, entry: QueuedPod, failure: Failure, recorder: EventRecorder) -> None:
        """Put the pod back into the queue if it still waits, then tell why it could not be scheduled."""
        pod = entry.pod
        current = self._pods.get(*entry.key)
        if current is None or current["spec"].get("nodeName"):
            self._queue.done(entry.uid)
        elif current["metadata"]["uid"] != entry.uid:
            self._queue.done(entry.uid)
            return
        else:
            pod = entry.pod = current
            self._queue.add_unschedulable(entry, failure.plugins)
        self._queue.nominator.add(pod, failure.nomination)
        message = failure.message
        self._log.info("unable to schedule %s/%s: %s", *entry.key, message)
        recorder.action(pod, "Warning", "FailedScheduling", "Scheduling", truncated(message))
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable" if failure.status.rejected else "SchedulerError",
            "message": message,
        }
        try:
            await self._writer.patch(pod, condition, failure.nomination)
        except ClientError as problem:
            self._log.info("error updating pod %s/%s: %s", *entry.key, problem)


def truncated(message: str) -> str:
    """A text that fits into the note of an event."""
    if len(message) <= _NOTE_LIMIT:
        return message
    return message[: _NOTE_LIMIT - len(_SUFFIX)] + _SUFFIX
