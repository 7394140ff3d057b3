"""The pod garbage collector: pods that nobody is left to end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.pod_status import disrupt

_PERIOD: Final = 20.0
# A node that is missing for this long is looked for at the server, in seconds.
_QUARANTINE: Final = 40.0
_TERMINATED_LIMIT: Final = 12500
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_ORPHANED: Final = ("DeletionByPodGC", "PodGC: node no longer exists")


class PodGarbageCollector:
    """Deletes pods of nodes that no longer exist, terminating pods without a node, and very many finished ones."""

    name = "pod-garbage-collector-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        life = _Life(context)
        async with asyncio.TaskGroup() as group:
            for informer in (life.pods, life.nodes):
                group.create_task(informer.run())
            await life.pods.wait_synced()
            await life.nodes.wait_synced()
            context.log.info("caches are filled")
            while True:
                await life.collect()
                await context.clock.sleep(_PERIOD)


class _Life:
    def __init__(self, context: Context) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self.pods = Informer(context.reader, "v1", "pods")
        self.nodes = Informer(context.reader, "v1", "nodes")
        self._missing_until: dict[str, float] = {}

    async def collect(self) -> None:
        """One pass over all pods."""
        pods = self.pods.items()
        await self._delete_all(self._finished(pods))
        await self._delete_all(pod for pod in pods if self._out_of_service(pod))
        lost = await self._lost_nodes(pods)
        await self._delete_all((pod for pod in pods if pod["spec"].get("nodeName") in lost), _ORPHANED)
        await self._delete_all(
            pod for pod in pods if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
        )

    def _finished(self, pods: list[Object]) -> list[Object]:
        """The finished pods beyond the limit: evicted ones first, then the oldest."""
        finished = [pod for pod in pods if _phase(pod) not in ("Pending", "Running", "Unknown", "")]
        finished.sort(
            key=lambda pod: (
                not (_phase(pod) == "Failed" and pod["status"].get("reason") == "Evicted"),
                pod["metadata"]["creationTimestamp"],
                pod["metadata"]["name"],
            )
        )
        return finished[: max(0, len(finished) - _TERMINATED_LIMIT)]

    def _out_of_service(self, pod: Object) -> bool:
        """Whether the pod is being deleted on a node that an administrator declared dead."""
        node = self.nodes.get("", pod["spec"].get("nodeName", ""))
        if node is None or "deletionTimestamp" not in pod["metadata"]:
            return False
        conditions = node.get("status", {}).get("conditions") or []
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
        taints = node.get("spec", {}).get("taints") or []
        return not ready and any(taint["key"] == _OUT_OF_SERVICE for taint in taints)

    async def _lost_nodes(self, pods: Iterable[Object]) -> set[str]:
        """Nodes that pods name and that were missing long enough."""
        now = self._clock.now()
        for pod in pods:
            name = pod["spec"].get("nodeName")
            if name and self.nodes.get("", name) is None:
                self._missing_until.setdefault(name, now + _QUARANTINE)
        lost = set()
        for name in [name for name, moment in self._missing_until.items() if moment <= now]:
            del self._missing_until[name]
            if self.nodes.get("", name) is not None:
                continue
            try:
                if await self._client.find("v1", "nodes", name) is None:
                    lost.add(name)
            except ClientError as error:
                self._log.info("node %s not looked up: %s", name, error)
        return lost

    async def _delete_all(self, pods: Iterable[Object], condition: tuple[str, str] | None = None) -> None:
        for pod in pods:
            metadata = pod["metadata"]
            try:
                # As failed: no kubelet is there to write how the pod ended.
                if _phase(pod) not in ("Succeeded", "Failed"):
                    await disrupt(self._client, self._clock, pod, condition, "Failed")
                grace = {"gracePeriodSeconds": 0}
                await self._client.delete("v1", "pods", metadata["name"], metadata["namespace"], grace)
            except ClientError as error:
                if error.code != 404:
                    self._log.info(
                        "pod %s/%s not deleted: %s", metadata["namespace"], metadata["name"], error
                    )
                continue
            self._log.info("deleted pod %s/%s by force", metadata["namespace"], metadata["name"])


def _phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", ""))
