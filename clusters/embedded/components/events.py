"""Recording of events the way client-go does it.

Equal events of one component become one object whose count grows. Two forms exist: core/v1 events (controllers,
kubelet) and events.k8s.io/v1 events with an action (scheduler).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object

_LOG: Final = logging.getLogger(__name__)
_REMEMBERED: Final = 4096
_SIMILAR_SECONDS: Final = 600.0
_SIMILAR_LIMIT: Final = 10
_COMBINED: Final = "(combined from similar events): "
_MESSAGE_LIMIT: Final = 1024
_ATTEMPTS: Final = 3


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
    """Records events of one component in the background; `run` must be running for them to be written."""

    def __init__(self, client: ApiClient, component: str, clock: Clock, host: str = "") -> None:
        """`component` and `host` are the source; for events with an action, controller and instance."""
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._queue: asyncio.Queue[tuple[str, tuple[Any, ...], Object]] = asyncio.Queue()
        self._known: OrderedDict[tuple[Any, ...], Object] = OrderedDict()
        self._similar: OrderedDict[tuple[Any, ...], tuple[float, set[str]]] = OrderedDict()

    def event(
        self, obj: Mapping[str, Any], kind: str, reason: str, message: str, *, field_path: str = ""
    ) -> None:
        """Record a core/v1 event; `kind` is Normal or Warning, `obj` an API object with apiVersion and kind."""
        regarding = reference(obj, field_path)
        message = self._combined(regarding, kind, reason, message)
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
        self._queue.put_nowait(("v1", (*_identity(regarding), kind, reason, message), body))

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
            "note": note[:_MESSAGE_LIMIT],
            "type": kind,
        }
        if related is not None:
            body["related"] = reference(related)
        key = (*_identity(regarding), kind, reason, action, note)
        self._queue.put_nowait(("events.k8s.io/v1", key, body))

    def _metadata(self, regarding: Mapping[str, Any]) -> Object:
        nanoseconds = int(self._clock.now() * 1e9)
        name = regarding.get("name", "")
        return {"name": f"{name}.{nanoseconds:x}", "namespace": regarding.get("namespace") or "default"}

    def _combined(self, regarding: Object, kind: str, reason: str, message: str) -> str:
        """Beyond ten different messages of one reason within ten minutes they count as one event."""
        key = (*_identity(regarding), kind, reason)
        now = self._clock.now()
        last, messages = self._similar.get(key, (now, set()))
        if now - last > _SIMILAR_SECONDS:
            messages = set()
        messages.add(message)
        self._similar[key] = (now, messages)
        self._similar.move_to_end(key)
        _trim(self._similar)
        return _COMBINED + message if len(messages) > _SIMILAR_LIMIT else message

    async def run(self) -> None:
        """Write events until cancelled; one that cannot be written is dropped after three attempts."""
        while True:
            api_version, key, body = await self._queue.get()
            for attempt in range(_ATTEMPTS):
                try:
                    await self._write(api_version, key, body)
                    break
                except ClientError as error:
                    if error.code in (403, 422) or attempt == _ATTEMPTS - 1:
                        _LOG.info("event %s not written: %s", body["reason"], error)
                        break
                    await asyncio.sleep(0.1 * 2**attempt)

    async def _write(self, api_version: str, key: tuple[Any, ...], body: Object) -> None:
        # Combined events differ in their text only.
        key = tuple(
            _COMBINED if isinstance(part, str) and part.startswith(_COMBINED) else part for part in key
        )
        known = self._known.get(key)
        namespace = body["metadata"]["namespace"]
        if known is not None:
            patch = self._repeat(api_version, known, body)
            try:
                name = known["metadata"]["name"]
                self._known[key] = await self._client.patch(api_version, "events", name, patch, namespace)
                self._known.move_to_end(key)
                return
            except ClientError as error:
                if error.code != 404:
                    raise
        self._known[key] = await self._client.create(api_version, "events", body, namespace)
        self._known.move_to_end(key)
        _trim(self._known)

    def _repeat(self, api_version: str, known: Object, body: Object) -> Object:
        if api_version == "v1":
            return {
                "message": body["message"],
                "count": int(known.get("count", 1)) + 1,
                "lastTimestamp": body["lastTimestamp"],
            }
        count = int((known.get("series") or {}).get("count", 1)) + 1
        return {"series": {"count": count, "lastObservedTime": body["eventTime"]}}


def _identity(regarding: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        str(regarding.get(name, ""))
        for name in ("apiVersion", "kind", "namespace", "name", "uid", "fieldPath")
    )


def _trim(known: OrderedDict[Any, Any]) -> None:
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
