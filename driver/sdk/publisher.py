"""Keeps the ResourceSlices of the node as the hardware is: publish, repair, retry by the kind of failure.

| answer | what happens |
| --- | --- |
| 409, 404 of an update | read again, then publish at once, then with growing pauses |
| none, cut, 408, 429, 5xx, 401, 403 | again with growing pauses, not before `Retry-After` |
| 422 and other refusals of the content | logged once with the field; again when devices change, else in a minute |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from driver.sdk import log
from driver.sdk.api import ApiFailure
from driver.sdk.backoff import Backoff
from driver.sdk.readiness import Readiness
from driver.sdk.slice_cache import SliceCache, SliceReader
from driver.sdk.slices import Accepted, Device, Plan, Pool, Slice, plan

CONDITION: Final = "published"
REFUSED_SECONDS: Final = 60.0
"""Pause after content was refused: whoever refuses (a policy, a webhook) may be repaired meanwhile."""
_REFUSALS: Final = frozenset({400, 405, 406, 413, 415, 422})


class SliceApi(SliceReader, Protocol):
    """The calls that publishing needs; all raise ApiFailure."""

    def node_uid(self, name: str) -> str:
        """UID of a Node."""

    def create_slice(self, item: Slice) -> Slice:
        """The stored slice."""

    def update_slice(self, item: Slice) -> Slice:
        """The stored slice."""

    def delete_slice(self, item: Slice) -> None:
        """Nothing."""


class Publisher:
    """Publishes one pool. `run` is the body of a thread; the other methods may be called from any."""

    def __init__(
        self,
        api: SliceApi,
        *,
        driver: str,
        node: str,
        pool: str,
        source: str,
        readiness: Readiness,
        resync_delay: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`resync_delay`: seconds from somebody else's change to its repair, so also between two repairs.

        `source`: where devices are looked for, for the warning that there are none.
        """
        self._api = api
        self._pool = Pool(driver, node, "", pool)
        self._source = source
        self._readiness = readiness
        self._resync_delay = resync_delay
        self._clock = clock
        self._wake = threading.Condition()
        self._due: float | None = None
        self._devices: list[Device] | None = None
        self._stopped = False
        self._accepted = Accepted()
        self._backoff = Backoff()
        self._refused = ""
        self._refused_until = 0.0
        self.cache = SliceCache(api, f"spec.driver={driver},spec.nodeName={node}", self._disturbed)

    def set_devices(self, devices: Sequence[Device]) -> None:
        """State which devices there are; a change is published at once."""
        found: list[Device] = [dict(device) for device in devices]
        with self._wake:
            if found == self._devices:
                return
            before, self._devices = self._devices, found
            self._due = self._clock()
            self._backoff.reset()
            self._refused_until = 0.0
            self._wake.notify()
        if not found:
            log.warning("no devices found, publishing an empty pool", looked_at=self._source)
        elif before is not None:
            log.info("devices have changed", devices=len(found))

    def _disturbed(self) -> None:
        self._schedule(self._resync_delay)

    def _schedule(self, delay: float) -> None:
        """Look again in `delay` seconds, or earlier if that is planned already."""
        with self._wake:
            due = self._clock() + delay
            self._due = due if self._due is None else min(self._due, due)
            self._wake.notify()

    def stop(self) -> None:
        """End `run`; slices stay, the kubelet removes them when the driver does not come back."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def run(self) -> None:
        """Publish until `stop`."""
        while (devices := self._next()) is not None:
            try:
                self._sync(devices)
            except ApiFailure as problem:
                self._schedule(self._after(problem))
            else:
                self._backoff.reset()
                self._refused = ""
                self._readiness.set(CONDITION)

    def _next(self) -> list[Device] | None:
        """Wait until something is due; None: stop."""
        with self._wake:
            while not self._stopped:
                now = self._clock()
                if self._devices is not None and self._due is not None and self._due <= now:
                    if self._refused_until > now:
                        self._due = self._refused_until
                        continue
                    self._due = None
                    return self._devices
                timeout = None if self._due is None or self._devices is None else self._due - now
                self._wake.wait(timeout)
        return None

    def _sync(self, devices: Sequence[Device]) -> None:
        if not self._pool.node_uid:
            self._read_node()
        if not self.cache.filled.is_set():
            self.cache.relist()
        todo = plan(self._pool, devices, self.cache.items(), self._accepted)
        if todo.creates and self._read_node():
            # Slices with the UID of a Node that is gone are removed again by the garbage collector.
            todo = plan(self._pool, devices, self.cache.items(), self._accepted)
        self._apply(todo)
        if not todo.empty:
            log.info(
                "slices published", pool=self._pool.name, devices=len(devices), deleted=len(todo.deletes),
                updated=len(todo.updates), created=len(todo.creates),
            )  # fmt: skip

    def _read_node(self) -> bool:
        """Read the Node's UID; return whether it has changed."""
        before = self._pool
        uid = self._api.node_uid(before.node)
        self._pool = Pool(before.driver, before.node, uid, before.name)
        return self._pool != before

    def _apply(self, todo: Plan) -> None:
        for item in todo.deletes:
            try:
                self._api.delete_slice(item)
            except ApiFailure as problem:
                if problem.status != 404:
                    raise
            self.cache.drop(item)
        for item in todo.updates:
            self._stored(item, self._api.update_slice(item))
        for item in todo.creates:
            self._stored(item, self._api.create_slice(item))

    def _stored(self, sent: Slice, stored: Slice) -> None:
        self.cache.put(stored)
        if dropped := self._accepted.remember(sent, stored):
            log.warning(
                "the API server dropped fields; feature gates are probably off there",
                slice=stored["metadata"]["name"], fields=", ".join(dropped),
            )  # fmt: skip

    def _after(self, problem: ApiFailure) -> float:
        """Tell about a failure; return the seconds until the next attempt."""
        if problem.status in _REFUSALS:
            return self._after_refusal(problem)
        # Somebody else has written, or a write without an answer has happened nevertheless: look first.
        self.cache.filled.clear()
        delay = max(self._backoff.next(), problem.retry_after)
        hint = _HINTS.get(problem.status, "")
        log.warning("publishing failed, trying again", problem=f"{problem}{hint}", seconds=round(delay, 1))
        if problem.status in (401, 403, 404):
            self._readiness.set(CONDITION, f"slices cannot be published: {problem}{hint}")
        return delay

    def _after_refusal(self, problem: ApiFailure) -> float:
        text = "; ".join(map(str, problem.causes)) or problem.message
        if text != self._refused:
            self._refused = text
            log.error("the API server refuses the slices", status=problem.status, problem=text)
        self._readiness.set(CONDITION, f"the API server refuses the slices: {text}")
        with self._wake:
            self._refused_until = self._clock() + REFUSED_SECONDS
        return REFUSED_SECONDS


_HINTS: Final[Mapping[int, str]] = {
    401: " (is the token of the kubeconfig valid?)",
    403: " (needed: list, watch, create, update, delete on resourceslices; get on nodes)",
    404: " (does the Node exist, and does the cluster serve resource.k8s.io/v1?)",
}

__all__ = ["CONDITION", "REFUSED_SECONDS", "Publisher", "SliceApi"]
