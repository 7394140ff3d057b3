"""Recording of events the way client-go does it.

Two forms exist: core/v1 events (controllers, kubelet), of which equal ones become one object whose count grows, and
events.k8s.io/v1 events with an action (scheduler), of which equal ones become a series.
Sources: client-go v0.37.2 `tools/record/event.go`, `tools/events/event_broadcaster.go`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.clock import Clock, parse_stamp
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.correlation import Correlator

_LOG: Final = logging.getLogger(__name__)
_NOTE_LIMIT: Final = 1024
_QUEUED: Final = 1000
_ATTEMPTS: Final = 12
_RETRY_SECONDS: Final = 10.0
_JITTER: Final = 0.25
_FINISH_SECONDS: Final = 360.0
_REFRESH_TURNS: Final = 5
"""Series are written every 30 minutes: at every fifth look for those that have ended."""
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST: Final = 253
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def reference(obj: Mapping[str, Any], field_path: str = "") -> Object:
    """An ObjectReference to an API object."""
    metadata = obj["metadata"]
    result = {
        "kind": obj.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
        "uid": metadata.get("uid", ""),
        "apiVersion": obj.get("apiVersion", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
        "fieldPath": field_path,
    }
    return {key: value for key, value in result.items() if value}


class EventRecorder:
    """Records events of one component in the background; `run` must be running for them to be written.

    Of the events that wait to be written there are a thousand at most; further ones are dropped.
    """

    def __init__(self, client: ApiClient, component: str, clock: Clock, host: str = "") -> None:
        """`component` and `host` are the source; for events with an action, controller and instance."""
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._queue: asyncio.Queue[Object] = asyncio.Queue(_QUEUED)
        self._correlator = Correlator(clock)
        self._series: dict[tuple[Any, ...], Object] = {}
        self._last = 0

    @property
    def waiting(self) -> int:
        """How many events wait to be written."""
        return self._queue.qsize()

    def event(
        self, obj: Mapping[str, Any], kind: str, reason: str, message: str, *, field_path: str = ""
    ) -> None:
        """Record a core/v1 event; `kind` is Normal or Warning, `obj` an API object with apiVersion and kind."""
        regarding = reference(obj, field_path)
        now = self._clock.timestamp()
        body: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": self._metadata(regarding),
            "involvedObject": regarding,
            "reason": reason,
            "message": message,
            "source": {"component": self._component, **({"host": self._host} if self._host else {})},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        if self._has_room(body) and self._correlator.correlate(body):
            self._queue.put_nowait(body)

    def action(
        self,
        obj: Mapping[str, Any],
        kind: str,
        reason: str,
        action: str,
        note: str,
        *,
        related: Mapping[str, Any] | None = None,
    ) -> None:
        """Record an events.k8s.io/v1 event."""
        regarding = reference(obj)
        body: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": self._metadata(regarding),
            "eventTime": self._clock.micro_timestamp(),
            "reportingController": self._component,
            "reportingInstance": self._host,
            "action": action,
            "reason": reason,
            "regarding": regarding,
            "note": note[:_NOTE_LIMIT],
            "type": kind,
        }
        if related is not None:
            body["related"] = reference(related)
        # What an event says does not tell it apart, but the version of what it is about does.
        key = (kind, action, reason, *_identity(regarding), *_identity(body.get("related") or {}))
        known = self._series.get(key)
        if known is not None and "series" in known:
            # Only the begin of a series is written at once.
            count = known["series"]["count"] + 1
            known["series"] = {"count": count, "lastObservedTime": body["eventTime"]}
            return
        if not self._has_room(body):
            return
        if known is not None:
            known["series"] = {"count": 2, "lastObservedTime": body["eventTime"]}
            body = dict(known)
        else:
            self._series[key] = dict(body)
        self._queue.put_nowait(body)

    def _has_room(self, body: Object) -> bool:
        if self._queue.full():
            _LOG.info("event %s dropped: %d are waiting to be written", body["reason"], _QUEUED)
            return False
        return True

    def _metadata(self, regarding: Mapping[str, Any]) -> Object:
        # Two events of one moment must not get the same name.
        self._last = max(self._last + 1, int(self._clock.now() * 1e9))
        name = f"{regarding.get('name', '')}.{self._last:x}"
        if len(name) > _LONGEST or not _SUBDOMAIN.fullmatch(name):
            name = str(uuid.uuid4())
        return {"name": name, "namespace": regarding.get("namespace") or "default"}

    async def run(self) -> None:
        """Write events until cancelled.

        One that the server refuses is dropped; while there is no connection an event is tried twelve times, and
        those of core/v1 hold up what comes after them.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tend_series())
            while True:
                body = await self._queue.get()
                if await self._write(body):
                    continue
                if body["apiVersion"] == "v1":
                    await self._write_later(body)
                else:
                    group.create_task(self._write_later(body))

    async def _write_later(self, body: Object) -> None:
        for pause in _pauses(body):
            await self._clock.sleep(pause)
            if await self._write(body):
                return
        _LOG.warning("event %s not written: the API server cannot be reached", body["reason"])

    async def _write(self, body: Object) -> bool:
        """Write an event, or a repetition; False when it may be tried again."""
        api_version, namespace = body["apiVersion"], body["metadata"]["namespace"]
        try:
            changes = _changes(body)
            if changes is not None:
                try:
                    await self._client.patch(
                        api_version, "events", body["metadata"]["name"], changes, namespace
                    )
                    return True
                except ClientError as error:
                    if error.code != 404:
                        raise
            await self._client.create(api_version, "events", body, namespace)
        except ClientError as error:
            if not error.code or (error.reason == "AlreadyExists" and "series" in body):
                return False
            _LOG.info("event %s not written: %s", body["reason"], error)
        return True

    async def _tend_series(self) -> None:
        """Write the counts of series now and then, and forget what has not happened again for six minutes."""
        turn = 0
        while True:
            await self._clock.sleep(_FINISH_SECONDS)
            turn += 1
            refresh = turn % _REFRESH_TURNS == 0
            ended = self._clock.now() - _FINISH_SECONDS
            for key, event in list(self._series.items()):
                last = (event.get("series") or {}).get("lastObservedTime") or event["eventTime"]
                is_over = parse_stamp(last) < ended
                written = "series" not in event or not (refresh or is_over) or await self._write(event)
                if is_over and written and self._series.get(key) is event:
                    del self._series[key]


def _changes(body: Object) -> Object | None:
    """The patch for an event that happened again; None for the first time."""
    if body["apiVersion"] != "v1":
        return {"series": body["series"]} if "series" in body else None
    if body["count"] == 1:
        return None
    return {name: body[name] for name in ("message", "count", "lastTimestamp")}


def _pauses(body: Object) -> Iterator[float]:
    """Seconds before each further attempt; components shall not come all at once when the server is back."""
    yield _RETRY_SECONDS * (
        CHANCE.random() if body["apiVersion"] == "v1" else 1.0 + _JITTER * CHANCE.random()
    )
    for _ in range(_ATTEMPTS - 2):
        yield _RETRY_SECONDS * (1.0 if body["apiVersion"] == "v1" else 1.0 + _JITTER * CHANCE.random())


def _identity(regarding: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(regarding.get(name, "")) for name in _REFERENCE)
