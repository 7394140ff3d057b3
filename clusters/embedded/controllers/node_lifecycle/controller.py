"""The component: what it watches, and the passes over all nodes."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import SyncError, WorkQueue, run_workers
from clusters.embedded.controllers.node_lifecycle import taints
from clusters.embedded.controllers.node_lifecycle.disruption import Disruption
from clusters.embedded.controllers.node_lifecycle.health import condition
from clusters.embedded.controllers.node_lifecycle.monitor import Monitor, SkippedError
from clusters.embedded.controllers.node_lifecycle.pods import mark_not_ready
from clusters.embedded.controllers.node_lifecycle.zones import zone_of
from clusters.embedded.controllers.run import run_controller

_MONITOR_PERIOD: Final = 5.0
_TAINT_PERIOD: Final = 0.1
_NODE_WORKERS, _POD_WORKERS = 8, 4
# After time was skipped, running kubelets renew their leases at once; they get this long, in real seconds.
_SETTLE_SECONDS: Final = 1.0
_LEASES: Final = "kube-node-lease"
_BETA_LABELS: Final = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)


class NodeLifecycleController:
    """Marks nodes whose kubelets are silent, and taints nodes by their conditions."""

    name = "node-lifecycle-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        await _Life(context).run()


class _Life:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._client, self._clock, self._log = context.client, context.clock, context.log
        reader = context.reader
        self._nodes = Informer(reader, "v1", "nodes")
        self._leases = Informer(reader, "coordination.k8s.io/v1", "leases", _LEASES)
        self._pods = Informer(reader, "v1", "pods")
        self._pods.index("node", lambda pod: [pod.get("spec", {}).get("nodeName", "")])
        self._events = EventRecorder(context.client, "node-controller", context.clock)
        self._node_queue: WorkQueue[str] = WorkQueue(context.clock)
        self._pod_queue: WorkQueue[tuple[str, str]] = WorkQueue(context.clock)
        self._monitor = Monitor(context, self._leases)
        self._disruption = Disruption(context)
        self._known: dict[str, Object] = {}
        self._retry: set[str] = set()
        # No node is tainted in the middle of a pass: its end may find that nothing is to be evicted.
        self._pass = asyncio.Lock()

    async def run(self) -> None:
        self._nodes.add_handler(self._node_changed)
        self._pods.add_handler(self._pod_changed)
        await run_controller(
            self._log,
            (self._nodes, self._leases, self._pods),
            self._node_queue,
            self._sync_node,
            workers=_NODE_WORKERS,
            recorder=self._events,
            further=(
                lambda: run_workers(self._pod_queue, self._sync_pod, _POD_WORKERS, log=self._log),
                self._watch_health,
                self._taint,
            ),
        )

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._node_queue.add(new["metadata"]["name"])
        elif old is not None:
            self._retry.discard(old["metadata"]["name"])

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        node = new["spec"].get("nodeName")
        if node and (old is None or old["spec"].get("nodeName") != node):
            self._pod_queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    async def _sync_node(self, name: str) -> None:
        """NoSchedule taints by condition, and old names of labels."""
        node = self._nodes.get("", name)
        if node is None:
            return
        missing, needless = taints.no_schedule_changes(node)
        try:
            if missing or needless:
                await taints.swap(self._client, self._clock, node, missing, needless)
            labels = node["metadata"].get("labels") or {}
            changed = {
                second: labels[first]
                for first, second in _BETA_LABELS
                if first in labels and labels.get(second) != labels[first]
            }
            if changed:
                await self._client.patch("v1", "nodes", name, {"metadata": {"labels": changed}})
        except ClientError as error:
            if error.code != 404:
                raise

    async def _sync_pod(self, key: tuple[str, str]) -> None:
        """A pod that comes to a node which is not ready is not ready either."""
        pod = self._pods.get(*key)
        if pod is None:
            return
        name = pod["spec"]["nodeName"]
        health = self._monitor.health(name)
        if health is None or self._nodes.get("", name) is None or health.ready is None:
            return
        if health.ready["status"] != "True":
            await mark_not_ready(self._client, self._clock, self._events, [pod])

    async def _watch_health(self) -> None:
        while True:
            async with self._pass:
                await self._check_all()
            started, real = self._clock.now(), time.monotonic()
            await self._clock.sleep(_MONITOR_PERIOD)
            skipped = (self._clock.now() - started) - (time.monotonic() - real)
            if skipped > _SETTLE_SECONDS:
                await asyncio.sleep(_SETTLE_SECONDS)

    async def _check_all(self) -> None:
        nodes = self._nodes.items()
        await self._classify(nodes)
        ready: dict[str, list[bool]] = {}
        for answer in await asyncio.gather(*(self._check(node) for node in nodes), return_exceptions=True):
            if isinstance(answer, tuple):
                zone, is_ready = answer
                ready.setdefault(zone, []).append(is_ready)
            elif isinstance(answer, (ClientError, SyncError)):
                self._log.info("health of a node not updated: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer
        if await self._disruption.update(ready, nodes):
            for node in nodes:
                self._monitor.refresh(node["metadata"]["name"])

    async def _classify(self, nodes: list[Object]) -> None:
        names = {node["metadata"]["name"] for node in nodes}
        for node in nodes:
            name = node["metadata"]["name"]
            self._disruption.see_zone(node)
            if name not in self._known:
                self._tell(node, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
                self._known[name] = node
                try:
                    await self._disruption.reachable(node)
                except (ClientError, SyncError) as error:
                    self._log.info("taints of node %s stay: %s", name, error)
        for name in [name for name in self._known if name not in names]:
            text = f"Node {name} event: Removing Node {name} from Controller"
            self._tell(self._known.pop(name), "RemovingNode", text)
            self._monitor.forget(name)

    def _tell(self, node: Object, reason: str, text: str) -> None:
        metadata = {"name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}
        self._events.event({"apiVersion": "v1", "kind": "Node", "metadata": metadata}, "Normal", reason, text)

    async def _check(self, node: Object) -> tuple[str, bool] | None:
        """Judge a node; returns its zone and whether it is ready, None when it does not count."""
        try:
            node, was_ready = await self._monitor.update(node)
        except SkippedError as error:
            self._log.info("%s", error)
            return None
        ready = condition(node, "Ready")
        if ready is not None:
            await self._react(node, ready["status"], was_ready=was_ready)
        if "node.kubernetes.io/exclude-disruption" in (node["metadata"].get("labels") or {}):
            return None
        return zone_of(node), ready is not None and ready["status"] == "True"

    async def _react(self, node: Object, status: str, *, was_ready: bool) -> None:
        """Taints, an event, and the readiness of the pods."""
        name = node["metadata"]["name"]
        try:
            await self._disruption.follow(node, status)
        except (ClientError, SyncError) as error:
            self._log.info("taints of node %s not changed: %s", name, error)
        turned = status != "True" and was_ready
        if turned:
            self._tell(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        if turned or (name in self._retry and not was_ready):
            try:
                await mark_not_ready(
                    self._client, self._clock, self._events, self._pods.by_index("node", name)
                )
            except SyncError as error:
                self._retry.add(name)
                self._log.info("pods of node %s not marked: %s", name, error)
                return
        self._retry.discard(name)

    async def _taint(self) -> None:
        while True:
            await self._disruption.waiting()
            async with self._pass:
                await self._disruption.taint_next(self._nodes)
            await self._clock.sleep(_TAINT_PERIOD)
