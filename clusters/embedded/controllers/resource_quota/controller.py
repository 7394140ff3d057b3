"""Computes status.used of quotas, anew after deletions and every few minutes.

Source: kubernetes v1.37.2 `pkg/controller/resourcequota`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers
from clusters.embedded.controllers.discovery import ServedResource, discover
from clusters.embedded.controllers.resource_quota.objects import CountedObjects, version_of
from clusters.embedded.quota.amounts import Amounts, add, as_json, mask, parse
from clusters.embedded.quota.evaluator import Evaluator, GroupResource, measure
from clusters.embedded.quota.registry import EXTENDED_RESOURCE, IGNORED, Registry

_WORKERS: Final = 5
_RESYNC: Final = 300.0
_CLASSES: Final = GroupResource("resource.k8s.io", "deviceclasses")
_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
_PODS: Final = GroupResource("", "pods")

Key = tuple[str, str]


class ResourceQuotaController:
    """Keeps the usage of quotas; quotas without any come first."""

    name = "resourcequota-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        discovery = await discover(context.client)
        served = discovery.preferred("create", "list", "watch", "delete")
        async with asyncio.TaskGroup() as group:
            life = _Life(context, served, group)
            group.create_task(life.quotas.run())
            await life.quotas.wait_synced()
            context.log.info("caches are filled")
            group.create_task(run_workers(life.urgent, life.sync, _WORKERS, log=context.log))
            group.create_task(run_workers(life.queue, life.sync, _WORKERS, log=context.log))
            while True:
                await context.clock.sleep(_RESYNC)
                for quota in life.quotas.items():
                    life.queue.add(_key(quota))


class _Life:
    def __init__(self, context: Context, served: list[ServedResource], group: asyncio.TaskGroup) -> None:
        self._client, self._log = context.client, context.log
        self._served = served
        self.queue: WorkQueue[Key] = WorkQueue(context.clock)
        self.urgent: WorkQueue[Key] = WorkQueue(context.clock)
        self._objects = CountedObjects(context.reader, group, self._freed)
        extended = context.gates.get(EXTENDED_RESOURCE, True)
        self._registry = Registry(self._objects, context.clock.now, extended=extended)
        self._evaluators = [
            self._registry.get(GroupResource(each.group, each.plural))
            for each in served
            if each.namespaced and GroupResource(each.group, each.plural) not in IGNORED
        ]
        self.quotas = Informer(context.reader, "v1", "resourcequotas")
        self.quotas.index("namespace", lambda quota: [quota["metadata"]["namespace"]])
        self.quotas.add_handler(self._quota_changed)

    def _quota_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        if old is not None and _hard(old, "spec") == _hard(new, "spec"):
            # Changes of the status come from here or from admission.
            return
        hard, used = _hard(new, "status"), (new.get("status") or {}).get("used") or {}
        unknown = [name for name in hard if name not in used]
        if _hard(new, "spec") != hard or any(each.matching(unknown) for each in self._evaluators):
            self.urgent.add(_key(new))
        else:
            self.queue.add(_key(new))

    def _freed(self, resource: GroupResource, namespace: str) -> None:
        evaluator = self._registry.get(resource)
        for quota in self.quotas.by_index("namespace", namespace):
            if evaluator.matching(_hard(quota, "status")):
                self.queue.add(_key(quota))

    async def sync(self, key: Key) -> None:
        """Compute the usage of one quota, and write it when it is not what the quota says."""
        quota = self.quotas.get(*key)
        if quota is None:
            return
        hard = _hard(quota, "spec")
        status: dict[str, Any] = quota.get("status") or {}
        known = parse(status.get("used"))
        used = mask({**known, **await self._usage(quota, list(hard))}, hard)
        current = self.quotas.get(*key)
        if current is not quota:
            # The quota changed while a cache was filled: what was computed is older than it.
            self.queue.add(key)
            return
        written = hard == _hard(quota, "status") and "hard" in status and "used" in status
        if written and used == known:
            return
        body = {**quota, "status": {"hard": as_json(hard), "used": as_json(used)}}
        await self._client.update("v1", "resourcequotas", body, subresource="status")

    async def _usage(self, quota: Object, names: list[str]) -> Amounts:
        """What is in use of each name that somebody can measure."""
        if any(name.startswith("requests.") and "/" in name for name in names):
            # Which names of extended resources mean devices depends on the classes.
            await self._fill(_CLASSES, None)
        total: Amounts = {}
        known: set[str] = set()
        for evaluator in self._evaluators:
            if not evaluator.matching(names):
                continue
            await self._fill(evaluator.resource, evaluator)
            if evaluator.resource == _CLAIMS:
                await self._fill(_PODS, self._registry.get(_PODS))
                await self._fill(_CLASSES, None)
            measured = evaluator.matching(names)
            known.update(measured)
            objects = self._objects.list(*evaluator.resource, quota["metadata"]["namespace"])
            total = add(total, measure(evaluator, measured, quota, objects))
        # As upstream, a name that one evaluator measures may grow by what another one counts.
        return mask(total, known)

    async def _fill(self, resource: GroupResource, evaluator: Evaluator | None) -> None:
        version = version_of(resource, self._served)
        if resource == _CLASSES:
            version = next(
                (each.api_version for each in self._served if each.plural == _CLASSES.resource), None
            )
        if version is not None:
            await self._objects.fill(resource, version, evaluator)


def _hard(quota: Object, part: str) -> Amounts:
    return parse((quota.get(part) or {}).get("hard"))


def _key(quota: Object) -> Key:
    metadata = quota["metadata"]
    return metadata["namespace"], metadata["name"]
