"""The plugin half of a kubelet: finds registration sockets, registers drivers, calls them.

It knows nothing of Pods: the half that does decides what to prepare and keeps what was prepared.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.embedded.kubelet import rules
from clusters.embedded.kubelet.connection import RpcFailedError
from clusters.embedded.kubelet.events import EventLog, PluginEvent
from clusters.embedded.kubelet.handshake import Timeouts
from clusters.embedded.kubelet.reconciler import Plugin, Reconciler, Registration
from clusters.embedded.kubelet.rules import Backoff, ClaimReference, PluginError, PreparedDevice
from node_api import services
from node_api.messages import message_types

__all__ = [
    "Backoff",
    "ClaimReference",
    "PluginError",
    "PluginManager",
    "PrepareResult",
    "PreparedDevice",
    "Registration",
    "Timeouts",
]


@dataclass(frozen=True)
class PrepareResult:
    """A successful Prepare: the devices by claim UID, and how it came about (`seconds` it took)."""

    devices: dict[str, tuple[PreparedDevice, ...]]
    endpoint: str
    service: str
    seconds: float


class PluginManager:
    """Registers and calls the DRA plugins of one node. Thread-safe; calls run concurrently.

    Differences from a real kubelet, which are only about time: sockets are noticed within `poll_interval`
    instead of at a tick of 1 s.
    """

    def __init__(
        self,
        node_name: str,
        registry_dir: str | os.PathLike[str],
        *,
        poll_interval: float = 0.03,
        timeouts: Timeouts | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        """Prepare a manager; nothing runs before `start`.

        Args:
            node_name: for messages.
            registry_dir: the registration directory; made at the start if missing.
            poll_interval: seconds between looks at the directory.
            timeouts: of handshake and calls; a kubelet's own by default.
            backoff: between registration attempts on one socket; a kubelet's own by default.
        """
        self.node_name = node_name
        self.registry_dir = os.fspath(registry_dir)
        self.poll_interval = poll_interval
        self.timeouts = timeouts or Timeouts()
        self.backoff = backoff or Backoff()
        self.events = EventLog()
        self._lock = threading.Lock()
        # One life of the kubelet process: all that a restart forgets.
        self._life: Reconciler | None = None

    # Life cycle

    def start(self) -> None:
        """Begin to watch the directory; without effect when running."""
        with self._lock:
            if self._life is None:
                Path(self.registry_dir).mkdir(mode=0o750, parents=True, exist_ok=True)
                self._life = Reconciler(
                    self.registry_dir, self.events, self.poll_interval, self.timeouts, self.backoff
                )
                self.events.add(PluginEvent("started"))
                self._life.start()

    def stop(self) -> None:
        """Forget all registrations, cancel running calls and end all threads, within 2 s."""
        with self._lock:
            life, self._life = self._life, None
            if life is not None:
                life.end()
                self.events.add(PluginEvent("stopped"))

    def restart(self) -> None:
        """Forget everything and register every socket of the directory again; the event log goes on."""
        self.stop()
        self.start()

    def __enter__(self) -> PluginManager:
        """Start."""
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        """Stop."""
        self.stop()

    # Registrations

    def registrations(self) -> list[Registration]:
        """Return the registered plugins, per driver oldest first."""
        life = self._life
        return [plugin.record() for plugin in life.plugins()] if life else []

    def is_registered(self, driver: str) -> bool:
        """Whether a plugin of the driver has completed the handshake, the final notification included."""
        life = self._life
        return life is not None and any(
            plugin.info.driver == driver and plugin.notified for plugin in life.plugins()
        )

    def wait_registered(self, driver: str, timeout: float) -> Registration:
        """Wait until the driver is registered and return the plugin that calls go to.

        Raises:
            TimeoutError: with the last problem, if it is not within the timeout (seconds).
        """
        deadline = time.monotonic() + timeout
        seen = self.events.count
        while not self.is_registered(driver):
            left = deadline - time.monotonic()
            if left > 0:
                seen = self.events.wait_beyond(seen, left)
                continue
            problem = self.last_problem() or f"no usable socket appeared in {self.registry_dir}"
            raise TimeoutError(f"driver {driver} is not registered after {timeout:g} s: {problem}")
        return self.target(driver)

    def target(self, driver: str) -> Registration:
        """Return the plugin that calls go to: the newest connected one, else the newest.

        Raises:
            PluginError: if the driver is not registered.
        """
        return self._current(driver).target(driver).record()

    def endpoint(self, driver: str) -> Path:
        """Return the socket that calls go to; see `target`."""
        return Path(self.target(driver).endpoint)

    def last_problem(self) -> str:
        """Return why the latest failed registration of a present socket failed; "" if there is none."""
        life = self._life
        return life.last_problem() if life else ""

    # Calls

    def prepare(
        self,
        driver: str,
        claims: Sequence[ClaimReference],
        *,
        version: str | None = None,
        timeout: float | None = None,
    ) -> PrepareResult:
        """Call NodePrepareResources once for all claims and check the answer.

        Args:
            driver: name of the driver.
            claims: in the order of the request.
            version: service to call instead of the registered one, for example "v1beta1.DRAPlugin".
            timeout: deadline in seconds instead of the kubelet's 45.

        Raises:
            PluginError: the driver is not registered, the call failed, or the answer breaks a rule. The first
                error counts; what else the plugin prepared is not told, a retry has to repeat all claims.
        """
        started = time.monotonic()
        plugin, service, response = self._call(
            driver, services.NODE_PREPARE_RESOURCES, claims, version, timeout
        )
        with self._logged_failure(plugin):
            devices = rules.check_prepare(claims, response)
        return PrepareResult(devices, plugin.info.endpoint, service, time.monotonic() - started)

    def unprepare(
        self,
        driver: str,
        claims: Sequence[ClaimReference],
        *,
        version: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Call NodeUnprepareResources once for all claims and check the answer; see `prepare`."""
        plugin, _, response = self._call(driver, services.NODE_UNPREPARE_RESOURCES, claims, version, timeout)
        with self._logged_failure(plugin):
            rules.check_unprepare(claims, response)

    def health_reports(self, endpoint: str) -> Iterator[Any]:
        """Yield the messages of the health stream of the plugin at this endpoint until the stream ends.

        Raises:
            PluginError: no plugin with a health service is registered there, or the stream failed.
        """
        life = self._life
        plugins = life.plugins() if life is not None else []
        plugin = next((found for found in plugins if found.info.endpoint == endpoint), None)
        if plugin is None or plugin.info.health_service is None:
            raise PluginError(f"no DRA plugin with a health service at {endpoint}", "not-registered")
        full = services.full_method(plugin.info.health_service, services.NODE_WATCH_RESOURCES)
        types = message_types(full)
        if types is None:
            raise ValueError(f"{full} is not a health service")
        try:
            yield from plugin.connection.stream(full, types.request(), types.response)
        except RpcFailedError as problem:
            raise PluginError(f"NodeWatchResources: {problem}", "rpc", problem.code) from problem

    def _current(self, driver: str) -> Reconciler:
        life = self._life
        if life is None:
            raise rules.not_registered(driver)
        return life

    @contextlib.contextmanager
    def _logged_failure(self, plugin: Plugin) -> Iterator[None]:
        try:
            yield
        except PluginError as problem:
            self.events.add(
                PluginEvent("call-failed", plugin.info.driver, plugin.info.endpoint, str(problem))
            )
            raise

    def _call(
        self,
        driver: str,
        method: str,
        claims: Sequence[ClaimReference],
        version: str | None,
        timeout: float | None,
    ) -> tuple[Plugin, str, Any]:
        plugin = self._current(driver).target(driver)
        service = version or plugin.info.service
        full = services.full_method(service, method)
        types = message_types(full)
        if types is None:
            allowed = " or ".join(services.DRA_SERVICES)
            raise ValueError(f"version {service!r} is not a DRA service: use {allowed}")
        listed = [{"namespace": claim.namespace, "uid": claim.uid, "name": claim.name} for claim in claims]
        request = types.request(claims=listed)
        self.events.add(PluginEvent("called", driver, plugin.info.endpoint, f"{service} {method}"))
        with self._logged_failure(plugin):
            try:
                deadline = self.timeouts.call if timeout is None else timeout
                response = plugin.connection.call(full, request, types.response, deadline)
            except RpcFailedError as problem:
                raise PluginError(f"{method}: {problem}", "rpc", problem.code) from problem
        return plugin, service, response
