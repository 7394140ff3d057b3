"""NoExecute taints: which nodes get one, and how fast, zone by zone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import SyncError
from clusters.embedded.controllers.node_lifecycle import taints
from clusters.embedded.controllers.node_lifecycle.health import condition
from clusters.embedded.controllers.node_lifecycle.taints import NO_EXECUTE, NOT_READY, UNREACHABLE
from clusters.embedded.controllers.node_lifecycle.zones import (
    TaintQueue,
    ZoneState,
    rate,
    zone_of,
    zone_state,
)

# The taint that goes with a status of the condition Ready, and the one that excludes it.
_TAINTS = {
    "False": ((NOT_READY, NO_EXECUTE), (UNREACHABLE, NO_EXECUTE)),
    "Unknown": ((UNREACHABLE, NO_EXECUTE), (NOT_READY, NO_EXECUTE)),
}


class Disruption:
    """The zones of a cluster with their states and queues."""

    def __init__(self, context: Context) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._states: dict[str, ZoneState] = {}
        self._queues: dict[str, TaintQueue] = {}
        self._work = asyncio.Event()

    def see_zone(self, node: Object) -> None:
        """Make the zone of a node known."""
        zone = zone_of(node)
        if zone not in self._states:
            self._states[zone] = ZoneState.INITIAL
            self._queues[zone] = TaintQueue(self._clock.now())

    def _queue(self, node: Object) -> TaintQueue:
        self.see_zone(node)
        return self._queues[zone_of(node)]

    async def reachable(self, node: Object) -> bool:
        """Take both taints from a node; returns whether it had waited for one or had one."""
        both = ((UNREACHABLE, NO_EXECUTE), (NOT_READY, NO_EXECUTE))
        await taints.remove_taints(self._client, self._clock, node, both)
        return self._queue(node).remove(node["metadata"]["name"])

    async def follow(self, node: Object, status: str) -> None:
        """Bring the taints of a node in line with the status of its condition Ready."""
        if status not in _TAINTS:
            if await self.reachable(node):
                self._log.info("node %s is healthy again", node["metadata"]["name"])
            return
        taint, opposite = _TAINTS[status]
        name = node["metadata"]["name"]
        if taints.has(node, opposite):
            await taints.swap(self._client, self._clock, node, (taint,), (opposite,))
            return
        queue = self._queue(node)
        if not taints.has(node, taint):
            queue.remove(name)
        if queue.add(name):
            self._work.set()

    async def waiting(self) -> None:
        """Wait until a node waits for its taint."""
        while not any(self._queues.values()):
            self._work.clear()
            await self._work.wait()

    async def taint_next(self, nodes: Informer) -> None:
        """Taint the nodes whose turn it is."""
        for queue in list(self._queues.values()):
            while (name := queue.head(self._clock.now())) is not None:
                node = nodes.get("", name)
                ready = condition(node, "Ready") if node is not None else None
                if node is None or (ready is not None and ready["status"] not in _TAINTS):
                    queue.done(name, success=True)
                    continue
                if ready is None:
                    queue.done(name, success=False)
                    break
                taint, opposite = _TAINTS[ready["status"]]
                try:
                    await taints.swap(self._client, self._clock, node, (taint,), (opposite,))
                except (ClientError, SyncError) as error:
                    self._log.info("node %s not tainted: %s", name, error)
                    queue.done(name, success=False)
                    break
                queue.done(name, success=True)

    async def update(self, ready: Mapping[str, Sequence[bool]], nodes: Sequence[Object]) -> bool:
        """Take in the readiness of all nodes by zone; returns whether a cluster that seemed lost came back."""
        states = {zone: zone_state(answers) for zone, answers in ready.items()}
        for zone in states:
            self._states.setdefault(zone, ZoneState.INITIAL)
        all_lost = all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        was_lost = self._all_were_lost(states)
        if all_lost and was_lost:
            return False
        now = self._clock.now()
        if all_lost:
            self._log.info("no node is ready: nothing is evicted")
            await self._stop(nodes, now)
            return False
        for zone, state in states.items():
            if was_lost or self._states[zone] is not state:
                self._queues[zone].set_rate(rate(state, len(ready[zone])), now)
                self._states[zone] = state
        return was_lost

    def _all_were_lost(self, states: Mapping[str, ZoneState]) -> bool:
        for zone in [zone for zone in self._states if zone not in states]:
            del self._states[zone]
        return all(state is ZoneState.FULL_DISRUPTION for state in self._states.values())

    async def _stop(self, nodes: Sequence[Object], now: float) -> None:
        """When all nodes seem lost it is rather the controller that is: take the taints back and stop."""
        for node in nodes:
            try:
                await self.reachable(node)
            except (ClientError, SyncError) as error:
                self._log.info("taints of node %s stay: %s", node["metadata"]["name"], error)
        for zone in self._states:
            self._queues[zone].set_rate(0.0, now)
            self._states[zone] = ZoneState.FULL_DISRUPTION
