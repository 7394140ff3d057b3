"""Follows the health reports of the registered drivers, and has Pods looked at whose devices changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import grpc

from clusters.embedded.kubelet.dra.claims import ClaimCache
from clusters.embedded.kubelet.dra.health import HealthCache, read_report
from clusters.embedded.kubelet.events import PluginEvent
from clusters.embedded.kubelet.plugins import PluginManager
from clusters.embedded.kubelet.rules import PluginError
from clusters.embedded.kubelet.threads import in_thread

_RETRY_SECONDS: Final = 5.0
_RELEVANT: Final = ("registered", "deregistered")


class HealthMonitor:
    """One stream for each registered plugin that has the service."""

    def __init__(
        self,
        plugins: PluginManager,
        health: HealthCache,
        claims: ClaimCache,
        changed: Callable[[str], None],
        log: logging.Logger,
    ) -> None:
        """`changed` is told the UID of a Pod whose devices changed."""
        self._plugins, self._health, self._claims = plugins, health, claims
        self._pod_changed, self._log = changed, log
        self._streams: dict[tuple[str, float], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follow until cancelled.

        A stream that ended is opened again after five seconds; real ones, because a driver process is waited for.
        """
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()

        def note(event: PluginEvent) -> None:
            if event.kind in _RELEVANT and not loop.is_closed():
                loop.call_soon_threadsafe(wake.set)

        self._plugins.events.subscribe(note)
        async with asyncio.TaskGroup() as group:
            while True:
                wake.clear()
                present = {
                    (plugin.endpoint, plugin.since): plugin.driver
                    for plugin in self._plugins.registrations()
                    if plugin.health_service is not None
                }
                for key, driver in present.items():
                    if key not in self._streams:
                        self._streams[key] = group.create_task(self._follow(driver, key[0]))
                for key in [key for key in self._streams if key not in present]:
                    self._streams.pop(key).cancel()
                await wake.wait()

    async def _follow(self, driver: str, endpoint: str) -> None:
        loop = asyncio.get_running_loop()

        def read() -> grpc.StatusCode | None:
            """Read the stream to its end; returns its code."""
            try:
                for report in self._plugins.health_reports(endpoint):
                    loop.call_soon_threadsafe(self._take, driver, report)
            except PluginError as error:
                return error.code
            return None

        while True:
            try:
                code = await in_thread(read)
            finally:
                self._health.clear(driver)
            if code is grpc.StatusCode.UNIMPLEMENTED:
                self._log.info("Driver does not support WatchResources health stream, stopping: %s", driver)
                return
            await asyncio.sleep(_RETRY_SECONDS)

    def _take(self, driver: str, report: object) -> None:
        changed = self._health.update(driver, read_report(report.devices))  # type: ignore[attr-defined]
        if not changed:
            return
        pods: set[str] = set()
        for info in self._claims.items():
            state = info.drivers.get(driver)
            if state is not None and any(
                (device.pool_name, device.device_name) in changed for device in state.devices
            ):
                pods |= info.pods
        for uid in pods:
            self._pod_changed(uid)
