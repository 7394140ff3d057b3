"""The taint eviction controller: deletes pods that do not tolerate the NoExecute taints of their node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.pod_status import disrupt

_ATTEMPTS: Final = 5
_PAUSE: Final = 0.01
_CONDITION: Final = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
Key = tuple[str, str]


class TaintEvictionController:
    """Evicts pods at once, or when the time for which they tolerate a taint is over.

    That time begins anew with each life of the controller, as upstream's does.
    """

    name = "taint-eviction-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            await _Life(context, group).run()


@dataclass(frozen=True)
class _Eviction:
    """A deletion that waits for its time; without a task it is under way."""

    since: float
    task: asyncio.Task[None] | None


class _Life:
    def __init__(self, context: Context, group: asyncio.TaskGroup) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._group = group
        self._nodes = Informer(context.reader, "v1", "nodes")
        self._pods = Informer(context.reader, "v1", "pods")
        self._pods.index("node", lambda pod: [pod.get("spec", {}).get("nodeName", "")])
        self._events = EventRecorder(context.client, TaintEvictionController.name, context.clock)
        self._evictions: dict[Key, _Eviction] = {}

    async def run(self) -> None:
        self._group.create_task(self._events.run())
        for informer, handler in ((self._nodes, self._node_changed), (self._pods, self._pod_changed)):
            informer.add_handler(handler)
            self._group.create_task(informer.run())
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        self._log.info("caches are filled")

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        before, now = no_execute_taints(old), no_execute_taints(new)
        if new is None or (old is not None and before == now):
            return
        for pod in self._pods.by_index("node", new["metadata"]["name"]):
            if now:
                self._judge(pod, now)
            else:
                self._cancel(_key(pod))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._cancel(_key(old))
            return
        if old is not None and _concerns(old) == _concerns(new):
            return
        now = no_execute_taints(self._nodes.get("", new["spec"].get("nodeName", "")))
        if now:
            self._judge(new, now)

    def _judge(self, pod: Object, taints: Sequence[Object]) -> None:
        key = _key(pod)
        now = self._clock.now()
        seconds = toleration_seconds(taints, pod["spec"].get("tolerations") or [])
        if seconds is None:
            self._cancel(key)
            return
        if seconds < 0:
            self._cancel(key)
            self._add(key, now, now)
            return
        since = now
        waiting = self._evictions.get(key)
        if waiting is not None and waiting.task is not None:
            since = waiting.since
            if since < now:
                # The time that began with an earlier taint ends first.
                return
            self._cancel(key)
        self._add(key, since, now + seconds)

    def _add(self, key: Key, since: float, moment: float) -> None:
        if key in self._evictions:
            return
        wait = moment > since
        task = self._group.create_task(self._evict(key, moment if wait else None))
        self._evictions[key] = _Eviction(since, task if wait else None)

    def _cancel(self, key: Key) -> None:
        eviction = self._evictions.pop(key, None)
        if eviction is not None and eviction.task is not None:
            eviction.task.cancel()
            self._tell(key, "Cancelling deletion of")

    def _tell(self, key: Key, what: str) -> None:
        namespace, name = key
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
        self._events.event(obj, "Normal", "TaintManagerEviction", f"{what} Pod {namespace}/{name}")

    async def _evict(self, key: Key, moment: float | None) -> None:
        if moment is not None:
            await self._clock.sleep_until(moment)
            # From here on nobody cancels it.
            self._evictions[key] = _Eviction(moment, None)
        self._tell(key, "Marking for deletion")
        for _ in range(_ATTEMPTS):
            try:
                await self._delete(*key)
                break
            except ClientError as error:
                self._log.info("pod %s/%s not deleted: %s", *key, error)
            await asyncio.sleep(_PAUSE)
        self._evictions.pop(key, None)

    async def _delete(self, namespace: str, name: str) -> None:
        pod = await self._client.get("v1", "pods", name, namespace)
        await disrupt(self._client, self._clock, pod, _CONDITION)
        await self._client.delete("v1", "pods", name, namespace)


def no_execute_taints(node: Object | None) -> list[Object]:
    """The taints of a node that evict."""
    taints = node.get("spec", {}).get("taints") or [] if node is not None else []
    return [taint for taint in taints if taint["effect"] == "NoExecute"]


def toleration_seconds(taints: Sequence[Object], tolerations: Sequence[Object]) -> float | None:
    """How long a pod may stay: None for ever, -1 not at all; of several tolerations that matter the shortest counts.

    A toleration of zero or fewer seconds means now, which is 0.
    """
    used = []
    for taint in taints:
        toleration = next((one for one in tolerations if _tolerates(one, taint)), None)
        if toleration is None:
            return -1
        used.append(toleration)
    limits = [one["tolerationSeconds"] for one in used if one.get("tolerationSeconds") is not None]
    return max(0, min(limits)) if limits else None


def _tolerates(toleration: Mapping[str, Any], taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return bool((toleration.get("value") or "") == (taint.get("value") or ""))
    # Lt and Gt belong to a feature that is off.
    return bool(operator == "Exists")


def _key(pod: Object) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _concerns(pod: Object) -> tuple[Any, ...]:
    return pod["spec"].get("nodeName"), pod["spec"].get("tolerations") or []
