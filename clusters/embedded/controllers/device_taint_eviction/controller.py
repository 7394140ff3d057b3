"""The component: evicts pods when their time has come and tells rules about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clusters.client import ClientError
from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.device_taint_eviction import rule_status
from clusters.embedded.controllers.device_taint_eviction.evictions import Eviction, Evictions
from clusters.embedded.controllers.pod_status import disrupt
from clusters.embedded.controllers.resource_claim.created import SeenDeleted
from clusters.embedded.controllers.run import run_controller

_RULES_GATE: Final = "DRADeviceTaintRules"
_API: Final = "resource.k8s.io/v1"
_RULES: Final = (_API, "devicetaintrules")
_WORKERS: Final = 8
_STATUS_SECONDS: Final = 10.0
_CONDITION: Final = ("DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint")
_EVENT: Final = "DeviceTaintManagerEviction"


@dataclass(frozen=True)
class _Item:
    """A pod that may have to go or, without namespace, a rule whose status may have to be written."""

    namespace: str
    name: str
    uid: str


class DeviceTaintEvictionController:
    """Evicts pods at once, or when the time for which their claims tolerate a taint is over."""

    name = "device-taint-eviction-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        await _Life(context).run()


class _Life:
    def __init__(self, context: Context) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._queue: WorkQueue[_Item] = WorkQueue(context.clock)
        self._recorder = EventRecorder(context.client, DeviceTaintEvictionController.name, context.clock)
        self._pods = Informer(context.reader, "v1", "pods")
        self._claims = Informer(context.reader, _API, "resourceclaims")
        self._slices = Informer(context.reader, _API, "resourceslices")
        self._rules: Informer | None = None
        if context.gates.get(_RULES_GATE, True):
            self._rules = Informer(context.reader, *_RULES)
        self._evictions = Evictions(self._pods, self._judge)
        self._due: dict[_Item, Eviction] = {}
        self._evicted = SeenDeleted()
        self._counts: dict[str, int] = {}
        """How many pods went because of a rule, by its UID."""

    async def run(self) -> None:
        self._claims.add_handler(self._evictions.claim_changed)
        self._pods.add_handler(self._pod_changed)
        self._slices.add_handler(self._evictions.slice_changed)
        informers = [self._pods, self._claims, self._slices]
        if self._rules is not None:
            self._rules.add_handler(self._rule_changed)
            informers.append(self._rules)
        await run_controller(
            self._log, informers, self._queue, self._sync, workers=_WORKERS, recorder=self._recorder
        )

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._due.pop(_item(old), None)
            return
        # What else changes in a pod, its new condition above all, is no reason to look again.
        if old is None or _concerns(old) != _concerns(new):
            self._judge(new)

    def _rule_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._counts.pop(old["metadata"]["uid"], None)
        if old is not None and new is not None and old["spec"] == new["spec"]:
            return
        if new is not None:
            # Told before the first pod goes.
            self._queue.add(_item(new))
        self._evictions.rule_changed(old, new)

    def _judge(self, pod: Object) -> None:
        eviction = self._evictions.of_pod(pod)
        item = _item(pod)
        if eviction is None:
            if self._due.pop(item, None) is not None:
                self._tell(item, "Cancelling deletion")
            return
        self._due[item] = eviction
        self._queue.add_after(item, eviction.when - self._clock.now())
        self._tell_rules_later(eviction)

    def _tell_rules_later(self, eviction: Eviction) -> None:
        """Other pods may follow soon, and the caches may not show yet what was done."""
        for name, uid in eviction.rules():
            self._queue.add_after(_Item("", name, uid), _STATUS_SECONDS)

    def _tell(self, item: _Item, message: str) -> None:
        metadata = {"name": item.name, "namespace": item.namespace, "uid": item.uid}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        self._recorder.event(pod, "Normal", _EVENT, message)

    async def _sync(self, item: _Item) -> None:
        if item.namespace:
            await self._evict(item)
        else:
            await self._write_status(item)

    async def _evict(self, item: _Item) -> None:
        eviction = self._due.get(item)
        if eviction is None or item.uid in self._evicted:
            return
        left = eviction.when - self._clock.now()
        if left > 0:
            self._queue.add_after(item, left)
            return
        deleted = await self._delete(item)
        self._due.pop(item, None)
        self._evicted.add(item.uid)
        if not deleted:
            return
        self._log.info("evicted pod %s/%s", item.namespace, item.name)
        for _, uid in eviction.rules():
            self._counts[uid] = self._counts.get(uid, 0) + 1
        self._tell_rules_later(eviction)

    async def _delete(self, item: _Item) -> bool:
        """Delete a pod; False when it was gone already. One that is being deleted counts as deleted."""
        pod = await self._client.find("v1", "pods", item.name, item.namespace)
        if pod is None or pod["metadata"]["uid"] != item.uid:
            return False
        if "deletionTimestamp" in pod["metadata"]:
            return True
        self._tell(item, "Marking for deletion")
        try:
            await disrupt(self._client, self._clock, pod, _CONDITION, observed=False)
            body = {"preconditions": {"uid": item.uid}}
            await self._client.delete("v1", "pods", item.name, item.namespace, body)
        except ClientError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def _write_status(self, item: _Item) -> None:
        rule = self._rules.get("", item.name) if self._rules is not None else None
        if rule is None or rule["metadata"]["uid"] != item.uid:
            return
        old = rule_status.present(rule)
        if old and old.get("observedGeneration", 0) == rule["metadata"].get("generation", 0):
            # The time changes with each change, of the message as well.
            left = parse_stamp(old["lastTransitionTime"]) + _STATUS_SECONDS - self._clock.now()
            if left > 0:
                self._queue.add_after(item, left)
                return
        new = rule_status.condition(rule, self._evictions, self._counts.get(item.uid, 0))
        if all(old.get(name, "") == value for name, value in new.items()):
            return
        new["lastTransitionTime"] = self._clock.timestamp()
        body = {
            "apiVersion": _API,
            "kind": "DeviceTaintRule",
            "metadata": {"name": item.name, "uid": item.uid},
            "status": {"conditions": [new]},
        }
        await self._client.apply(
            *_RULES, body, field_manager=DeviceTaintEvictionController.name, subresource="status"
        )


def _item(obj: Object) -> _Item:
    metadata = obj["metadata"]
    return _Item(metadata.get("namespace", ""), metadata["name"], metadata["uid"])


def _concerns(pod: Object) -> tuple[object, ...]:
    status = pod.get("status", {})
    return (
        pod["spec"].get("nodeName"),
        status.get("resourceClaimStatuses") or [],
        status.get("extendedResourceClaimStatus"),
    )
