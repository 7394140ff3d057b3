"""Judges nodes by their leases, and writes that one is lost."""

from __future__ import annotations

import asyncio
from typing import Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.node_lifecycle.health import Health, condition, lost, observe

_ATTEMPTS: Final = 5
_PAUSE: Final = 0.02
_LEASES: Final = "kube-node-lease"


class SkippedError(Exception):
    """The cache of leases cannot be trusted just now: no node is judged by it."""


class Monitor:
    """The health of all nodes."""

    def __init__(self, context: Context, leases: Informer) -> None:
        self._client, self._clock, self._log = context.client, context.clock, context.log
        self._leases = leases
        self._health: dict[str, Health] = {}
        self._breaker = context.gates.get("NodeControllerLeaseCircuitBreaker", True)
        self._needed_version = 0

    def health(self, name: str) -> Health | None:
        """What is known of a node."""
        return self._health.get(name)

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._health.pop(name, None)

    def refresh(self, name: str) -> None:
        """Count the silence of a node from now on."""
        health = self._health.get(name)
        if health is not None:
            health.probe = self._clock.now()

    async def update(self, node: Object) -> tuple[Object, bool]:
        """Judge a node; returns it with the conditions that it has now, and whether it was ready before.

        Raises SkippedError, and ClientError when its status could not be written.
        """
        for _ in range(_ATTEMPTS):
            try:
                return await self._try(node)
            except ClientError as error:
                failure = error
            await asyncio.sleep(_PAUSE)
            node = await self._client.get("v1", "nodes", node["metadata"]["name"])
        raise failure

    async def _try(self, node: Object) -> tuple[Object, bool]:
        name = node["metadata"]["name"]
        if self._breaker and int(self._leases.resource_version or 0) < self._needed_version:
            raise SkippedError("the cache of leases is behind the server")
        before = condition(node, "Ready")
        was_ready = before is not None and before["status"] == "True"
        lease = self._leases.get(_LEASES, name)
        health, grace = observe(node, self._health.get(name), lease, self._clock.now())
        self._health[name] = health
        if self._clock.now() <= health.probe + grace:
            return node, was_ready
        if self._breaker:
            await self._check_live(name, health)
        marked = lost(node, self._clock.timestamp())
        if before is None or condition(marked, "Ready") != before:
            self._log.info("node %s gave no sign of life for %.0f s", name, self._clock.now() - health.probe)
            await self._client.update("v1", "nodes", marked, "status")
            self._health[name] = Health(health.probe, condition(marked, "Ready"), lease)
        return marked, was_ready

    async def _check_live(self, name: str, health: Health) -> None:
        """Compare the lease in the cache with the server's before anything follows from its age."""
        try:
            live = await self._client.find("coordination.k8s.io/v1", "leases", name, _LEASES)
        except ClientError as error:
            raise SkippedError(f"error looking up lease to verify node {name}: {error}") from None
        if live is None:
            return
        seen = health.lease["metadata"]["resourceVersion"] if health.lease is not None else ""
        version = live["metadata"]["resourceVersion"]
        if version != seen:
            self._needed_version = max(self._needed_version, int(version))
            raise SkippedError(f"the lease of node {name} is newer than its cached copy")
