"""Writes the statuses of Pods: each new one once, the last one counts; then removes Pods that have ended."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.conditions import OWNED, find, terminal_condition
from clusters.embedded.kubelet.pods.objects import TERMINAL, Object
from clusters.embedded.kubelet.pods.status_patch import status_patch

_SYNC_PERIOD: Final = 10.0
_MESSAGE_BYTES: Final = 12 * 1024
_NOT_OWNED: Final = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
    "nominatedNodeName",
    "resize",
    "volumeHealth",
)
"""Fields that others write; they stay as the API server has them."""
_TERMINATED_TEXT: Final = "The container could not be located when the pod was terminated"


@dataclass
class _Entry:
    """The status of one Pod; `written` is the version that the API server got."""

    name: str
    namespace: str
    status: Object
    version: int = 1
    written: int = 0
    finished: bool = False
    failures: int = 0


@dataclass
class _Queue:
    """UIDs to write, each once."""

    order: dict[str, None] = field(default_factory=dict)
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, uid: str) -> None:
        self.order[uid] = None
        self.event.set()

    async def get(self) -> str:
        while not self.order:
            self.event.clear()
            await self.event.wait()
        uid = next(iter(self.order))
        del self.order[uid]
        return uid


class StatusManager:
    """The statuses of all Pods of a node."""

    def __init__(
        self,
        client: ApiClient,
        clock: Clock,
        log: logging.Logger,
        could_run: Callable[[str], bool],
        pod_of: Callable[[str], Object | None],
    ) -> None:
        """`could_run` says whether a Pod may have containers or claims in use; `pod_of` gives the object of a UID."""
        self._client, self._clock, self._log = client, clock, log
        self._could_run, self._pod_of = could_run, pod_of
        self._entries: dict[str, _Entry] = {}
        self._queue = _Queue()

    def get(self, uid: str) -> Object | None:
        """The status that was generated last."""
        entry = self._entries.get(uid)
        return entry.status if entry is not None else None

    def set(self, pod: Object, status: Object) -> None:
        """Take a new status; it is written in the background if it differs, and in any case for a deleted Pod."""
        self._update(pod, copy.deepcopy(status), force=objects.deleted(pod), finished=False)

    def terminate(self, pod: Object) -> None:
        """The Pod has ended for good: its status becomes terminal, and the object may go."""
        known = self._entries.get(objects.uid(pod))
        status = copy.deepcopy(known.status if known is not None else objects.status(pod))
        if _was_initialized(pod, status):
            for container in status.get("containerStatuses") or []:
                _end(container)
        for container in _begun(status.get("initContainerStatuses") or []):
            _end(container)
        if status.get("phase") not in TERMINAL:
            status["phase"] = "Failed"
        self._update(pod, status, force=True, finished=True)

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._entries.pop(uid, None)

    def _update(self, pod: Object, status: Object, *, force: bool, finished: bool) -> None:
        uid = objects.uid(pod)
        entry = self._entries.get(uid)
        old = entry.status if entry is not None else objects.status(pod)
        self._normalize(pod, status, old)
        if entry is None:
            self._entries[uid] = _Entry(objects.name(pod), objects.namespace(pod), status, finished=finished)
        elif entry.status == status and not force:
            return
        else:
            entry.status = status
            entry.version += 1
            entry.finished = entry.finished or finished
        self._queue.add(uid)

    def _normalize(self, pod: Object, status: Object, old: Object) -> None:
        now = self._clock.timestamp()
        if generation := pod["metadata"].get("generation"):
            status["observedGeneration"] = max(generation, old.get("observedGeneration") or 0)
        status["startTime"] = old.get("startTime") or status.get("startTime") or now
        for condition in status.get("conditions") or []:
            known = find(old.get("conditions") or [], condition["type"])
            if known is not None and known["status"] == condition["status"]:
                condition["lastTransitionTime"] = known.get("lastTransitionTime") or now
            else:
                condition["lastTransitionTime"] = now
            condition.setdefault("lastProbeTime", None)
        limit = _MESSAGE_BYTES // max(1, len(list(objects.all_containers(pod))))
        for field_name in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(field_name) or []:
                for state in (container.get("state"), container.get("lastState")):
                    ended = (state or {}).get("terminated")
                    if ended and "message" in ended:
                        ended["message"] = ended["message"].encode()[:limit].decode("utf-8", "ignore")

    # Writing

    async def run(self) -> None:
        """Write until cancelled; look at all Pods now and then for what others changed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_again())
            while True:
                uid = await self._queue.get()
                with contextlib.suppress(ClientError):
                    await self._write(uid)

    async def _look_again(self) -> None:
        while True:
            await self._clock.sleep(_SYNC_PERIOD)
            for uid, entry in list(self._entries.items()):
                pod = self._pod_of(uid)
                if entry.written < entry.version or (
                    pod is not None
                    and (self._deletable(pod, entry) or _differs(objects.status(pod), entry.status))
                ):
                    self._queue.add(uid)

    async def _write(self, uid: str) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        version, status, finished = entry.version, entry.status, entry.finished
        try:
            pod = await self._client.find("v1", "pods", entry.name, entry.namespace)
            if pod is None:
                return
            if objects.uid(pod) != uid:
                self._entries.pop(uid, None)
                return
            merged = merge_status(pod, status, could_run=self._could_run(uid))
            patch = status_patch(uid, objects.status(pod), merged)
            if patch is not None:
                pod = await self._client.patch(
                    "v1", "pods", entry.name, patch, entry.namespace, subresource="status"
                )
            entry.written = max(entry.written, version)
            if finished and self._deletable(pod, entry):
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                await self._client.delete("v1", "pods", entry.name, entry.namespace, body)
                self._entries.pop(uid, None)
        except ClientError as error:
            self._log.warning(
                'Failed to update status for pod pod="%s/%s" err="%s"', entry.namespace, entry.name, error
            )
            raise

    @staticmethod
    def _deletable(pod: Object, entry: _Entry) -> bool:
        return entry.finished and objects.deleted(pod) and objects.is_terminal(pod)


def merge_status(pod: Object, new: Object, *, could_run: bool) -> Object:
    """The status to write: what the kubelet owns from `new`, the rest as the API server has it.

    A Pod that could still have running containers does not become terminal.
    """
    old = objects.status(pod)
    merged = dict(new)
    for field_name in _NOT_OWNED:
        merged.pop(field_name, None)
        if field_name in old:
            merged[field_name] = old[field_name]
    ending = old.get("phase") not in TERMINAL and new.get("phase") in TERMINAL
    conditions = [item for item in old.get("conditions") or [] if item["type"] not in OWNED]
    for condition in new.get("conditions") or []:
        if condition["type"] in OWNED:
            conditions.append(condition)
        elif condition["type"] == "DisruptionTarget" and ending and not could_run:
            conditions = [item for item in conditions if item["type"] != "DisruptionTarget"]
            conditions.append(condition)
    if ending and could_run:
        for field_name in ("phase", "reason", "message"):
            merged.pop(field_name, None)
            if field_name in old:
                merged[field_name] = old[field_name]
    if merged.get("phase") in TERMINAL:
        for index, condition in enumerate(conditions):
            if condition["type"] in ("Ready", "ContainersReady") and condition["status"] == "True":
                forced = terminal_condition(pod, condition["type"], str(merged["phase"]))
                times = {
                    key: condition[key] for key in ("lastProbeTime", "lastTransitionTime") if key in condition
                }
                conditions[index] = {**forced, **times}
    merged["conditions"] = conditions
    return merged


def _differs(api: Object, own: Object) -> bool:
    """Whether somebody changed what the kubelet owns."""
    ignored = (*_NOT_OWNED, "conditions", "observedGeneration")
    first: dict[str, Any] = {key: item for key, item in api.items() if key not in ignored}
    second: dict[str, Any] = {key: item for key, item in own.items() if key not in ignored}
    return first != second or _owned(api) != _owned(own)


def _owned(status: Object) -> dict[str, Object]:
    return {
        condition["type"]: {key: item for key, item in condition.items() if item is not None}
        for condition in status.get("conditions") or []
        if condition["type"] in OWNED
    }


def _was_initialized(pod: Object, status: Object) -> bool:
    """Whether all init containers are known to have done their work, or none is needed."""
    if not objects.init_containers(pod):
        return True
    for container in status.get("containerStatuses") or []:
        if "terminated" in (container.get("lastState") or {}) or "waiting" not in container["state"]:
            return True
    init = status.get("initContainerStatuses") or []
    if not init:
        return False
    if objects.is_sidecar(objects.init_containers(pod)[len(init) - 1]):
        return "running" in init[-1]["state"] and bool(init[-1].get("started"))
    ends = ((init[-1].get(part) or {}).get("terminated") for part in ("state", "lastState"))
    return any(ended is not None and ended.get("exitCode") == 0 for ended in ends)


def _begun(init: list[Object]) -> list[Object]:
    """Init containers up to the last with a sign of a start; the first in any case."""
    for index in range(len(init) - 1, -1, -1):
        if "waiting" not in init[index]["state"] or "terminated" in (init[index].get("lastState") or {}):
            return init[: index + 1]
    return init[:1]


def _end(container: Object) -> None:
    if "terminated" in container["state"]:
        return
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": _TERMINATED_TEXT}
    container["state"] = {"terminated": ended}
