"""Removes finished Jobs when the time that they asked for is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.client import ClientError
from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.controller import Controller, Key, key_of
from clusters.embedded.controllers.job import model
from clusters.embedded.controllers.pods import is_deleted

_BATCH = "batch/v1"


class TtlAfterFinishedController(Controller):
    """Deletes Jobs `ttlSecondsAfterFinished` after their end."""

    name = "ttl-after-finished-controller"

    def set_up(self) -> Sequence[Informer]:
        """Watch Jobs."""
        self._jobs = Informer(self.client, _BATCH, "jobs")
        self._jobs.add_handler(self._on_job)
        return (self._jobs,)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None and expiry(new) is not None:
            self.queue.add(key_of(new))

    async def sync(self, key: Key) -> None:
        """Delete a Job whose time is over, by the cache and by a fresh look."""
        job = self._jobs.get(*key)
        if job is None or not self._is_over(key, job):
            return
        fresh = await self.client.find(_BATCH, "jobs", key[1], key[0])
        if fresh is None or not self._is_over(key, fresh):
            return
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": fresh["metadata"]["uid"]},
        }
        try:
            await self.client.delete(_BATCH, "jobs", key[1], key[0], options)
        except ClientError as error:
            if error.code != 404:
                raise

    def _is_over(self, key: Key, job: Mapping[str, Any]) -> bool:
        moment = expiry(job)
        if moment is None:
            return False
        left = moment - self.clock.now()
        if left > 0:
            self.queue.add_after(key, left)
        return left <= 0


def expiry(job: Mapping[str, Any]) -> float | None:
    """When a finished Job is to be deleted, seconds since the epoch; None when it is not, or is deleted already."""
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    ended = model.true_condition(job, model.COMPLETE) or model.true_condition(job, model.FAILED)
    if seconds is None or ended is None or is_deleted(job):
        return None
    return parse_stamp(ended["lastTransitionTime"]) + float(seconds)
