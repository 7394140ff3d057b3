"""The component: each request is answered once, and deleted when it is old."""

from __future__ import annotations

from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import SyncError, WorkQueue
from clusters.embedded.controllers.resource_pool_status import pools
from clusters.embedded.controllers.run import run_controller

_RULES_GATE: Final = "DRADeviceTaintRules"
_DRA: Final = "resource.k8s.io/v1"
_REQUESTS: Final = ("resource.k8s.io/v1alpha3", "resourcepoolstatusrequests")
_RETRIES: Final = 5
_CLEANUP_SECONDS: Final = 600.0
_ANSWERED_SECONDS: Final = 3600.0
_PENDING_SECONDS: Final = 24 * 3600.0
_FINISHED: Final = ("Complete", "Failed")


class ResourcePoolStatusController:
    """Writes the status of each ResourcePoolStatusRequest, as the caches are at that moment."""

    name = "resourcepoolstatusrequest-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        await _Life(context).run()


class _Life:
    def __init__(self, context: Context) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._requests = Informer(context.reader, *_REQUESTS)
        self._slices = Informer(context.reader, _DRA, "resourceslices")
        self._claims = Informer(context.reader, _DRA, "resourceclaims")
        self._rules: Informer | None = None
        if context.gates.get(_RULES_GATE, True):
            self._rules = Informer(context.reader, _DRA, "devicetaintrules")

    async def run(self) -> None:
        self._requests.add_handler(self._changed)
        informers = [self._requests, self._slices, self._claims]
        if self._rules is not None:
            informers.append(self._rules)
        await run_controller(self._log, informers, self._queue, self._sync, further=(self._clean_up,))

    def _changed(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and "status" not in new:
            self._queue.add(new["metadata"]["name"])

    async def _sync(self, name: str) -> None:
        """Answer a request; after five retries it is left alone until it changes."""
        try:
            await self._answer(name)
        except (ClientError, SyncError) as error:
            if self._queue.retries(name) < _RETRIES:
                raise
            self._log.error("request %s dropped after %d retries: %s", name, _RETRIES, error)

    async def _answer(self, name: str) -> None:
        request = self._requests.get("", name)
        if request is None or "status" in request:
            return
        found = pools.pool_statuses(
            request["spec"],
            self._slices.items(),
            self._claims.items(),
            self._rules.items() if self._rules is not None else (),
        )
        shown = found[: request["spec"].get("limit", pools.DEFAULT_LIMIT)]
        if any(pools.is_incomplete(pool) for pool in shown):
            # The driver may be about to publish the rest.
            raise SyncError("incomplete pools detected, requeueing")
        status = self._status(shown, len(found))
        await self._client.update(*_REQUESTS, {**request, "status": status}, "status")
        self._log.info("request %s: %d pools", name, len(found))

    def _status(self, shown: list[Object], count: int) -> Object:
        faulty = sum("validationError" in pool for pool in shown)
        message = f"Calculated status for {len(shown)} pools"
        if faulty:
            message += f" ({faulty} incomplete)"
        condition = {
            "type": "Complete",
            "status": "True",
            "lastTransitionTime": self._clock.timestamp(),
            "reason": "CalculationComplete",
            "message": message,
        }
        status: dict[str, Any] = {"poolCount": count, "conditions": [condition]}
        if shown:
            status["pools"] = shown
        return status

    async def _clean_up(self) -> None:
        while True:
            for request in self._requests.items():
                if is_old(request, self._clock.now()):
                    await self._delete(request)
            await self._clock.sleep(_CLEANUP_SECONDS)

    async def _delete(self, request: Object) -> None:
        metadata = request["metadata"]
        try:
            await self._client.delete(
                *_REQUESTS, metadata["name"], body={"preconditions": {"uid": metadata["uid"]}}
            )
        except ClientError as error:
            if error.code != 404:
                self._log.error("old request %s not deleted: %s", metadata["name"], error)
            return
        self._log.info("deleted request %s, which is old", metadata["name"])


def is_old(request: Object, now: float) -> bool:
    """Whether a request is to be deleted: an hour after its answer, or unanswered after a day."""
    created = parse_stamp(request["metadata"]["creationTimestamp"])
    if "status" not in request:
        return now - created > _PENDING_SECONDS
    for condition in request["status"].get("conditions") or []:
        if condition["type"] in _FINISHED:
            return now - parse_stamp(condition["lastTransitionTime"]) > _ANSWERED_SECONDS
    return now - created > _ANSWERED_SECONDS
