"""Removes the node's ResourceSlices when their driver is not there: at the start, and after a lost connection."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient
from clusters.embedded.kubelet.events import PluginEvent
from clusters.embedded.kubelet.plugins import PluginManager

_RESOURCE: Final = ("resource.k8s.io/v1", "resourceslices")
_FIRST_RETRY, _LAST_RETRY, _JITTER, _ATTEMPTS = 1.0, 300.0, 0.2, 100
_RELEVANT: Final = ("registered", "deregistered", "connected", "disconnected", "registering")


class SliceWiper:
    """Wipes slices that name the node. Slices with a selector, or for all nodes, are not its business."""

    def __init__(
        self, node_name: str, client: ApiClient, clock: Clock, plugins: PluginManager, delay: float
    ) -> None:
        self._node, self._client, self._clock = node_name, client, clock
        self._plugins, self._delay = plugins, delay
        self._log = logging.getLogger(__name__)
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._known: set[str] = set()
        self._changed = asyncio.Event()

    async def run(self, log: logging.Logger) -> None:
        """Wipe everything once, then follow the connections until cancelled."""
        self._log = log
        loop = asyncio.get_running_loop()

        def note(event: PluginEvent) -> None:
            if event.kind in _RELEVANT and not loop.is_closed():
                loop.call_soon_threadsafe(self._changed.set)

        self._plugins.events.subscribe(note)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._wipe(""))
            while True:
                self._changed.clear()
                self._follow(group)
                await self._changed.wait()

    def _follow(self, group: asyncio.TaskGroup) -> None:
        """Start a timer for drivers that lost their last connection, stop it for those that are back."""
        connected: dict[str, bool] = {}
        for plugin in self._plugins.registrations():
            connected[plugin.driver] = connected.get(plugin.driver, False) or plugin.connected
        self._known |= connected.keys()
        for driver in self._known:
            timer = self._timers.get(driver)
            if connected.get(driver):
                if timer is not None:
                    timer.cancel()
                    del self._timers[driver]
            elif timer is None:
                self._timers[driver] = group.create_task(self._wipe_later(driver))
        self._known = set(connected) | set(self._timers)

    async def _wipe_later(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self._wipe(driver)
        # The driver is forgotten until it registers again.
        if driver in self._known and self._plugins.is_registered(driver):
            return
        self._timers.pop(driver, None)
        self._known.discard(driver)

    async def _wipe(self, driver: str) -> None:
        """Delete the slices of the driver, of all drivers with ""."""
        selector = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        pause = _FIRST_RETRY
        for _ in range(_ATTEMPTS):
            try:
                await self._client.get("v1", "nodes", self._node)
                await self._client.delete_collection(*_RESOURCE, fieldSelector=selector)
            except ClientError as error:
                self._log.info(
                    "ResourceSlices of %r not wiped, will retry: %s", driver or "all drivers", error
                )
                await self._clock.sleep(pause * (1 + CHANCE.random() * _JITTER))
                pause = min(pause * 2, _LAST_RETRY)
            else:
                self._log.info("wiped ResourceSlices, selector %s", selector)
                return
