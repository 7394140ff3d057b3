"""Keeps registrations in line with the registration directory, as long as a kubelet process lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from clusters.embedded.kubelet import rules
from clusters.embedded.kubelet.connection import Connection
from clusters.embedded.kubelet.events import EventKind, EventLog, PluginEvent
from clusters.embedded.kubelet.handshake import Handshake, PluginInfo, RegistrationError, Timeouts
from node_api.registry import Identity, registration_sockets


@dataclass(frozen=True)
class Registration:
    """A registered plugin.

    Attributes:
        driver: name of its driver.
        socket: registration socket.
        endpoint: service socket, where calls go.
        supported_versions: as the plugin listed them.
        service: the service that is called, the first usable one of that list.
        health_service: the health service, None if the plugin has none.
        connected: whether there is a connection to the endpoint now.
        since: monotonic time at which it was registered.
    """

    driver: str
    socket: str
    endpoint: str
    supported_versions: tuple[str, ...]
    service: str
    health_service: str | None
    connected: bool
    since: float


@dataclass
class Plugin:
    """A registered plugin with its connection; `notified`: the handshake is complete."""

    info: PluginInfo
    socket: str
    identity: Identity
    connection: Connection
    notified: bool = False
    since: float = field(default_factory=time.monotonic)

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the endpoint now."""
        return self.connection.connected

    def record(self) -> Registration:
        """Return what users see of it."""
        info = self.info
        return Registration(
            info.driver,
            self.socket,
            info.endpoint,
            info.supported_versions,
            info.service,
            info.health_service,
            self.connected,
            self.since,
        )


class Reconciler:
    """All registrations of one kubelet process; a restart makes a new one. Thread-safe."""

    def __init__(
        self,
        registry_dir: str,
        events: EventLog,
        poll_interval: float,
        timeouts: Timeouts,
        backoff: rules.Backoff,
    ) -> None:
        """Prepare; nothing runs before `start`. See PluginManager for the arguments."""
        self._registry_dir = registry_dir
        self._events = events
        self._poll_interval = poll_interval
        self._timeouts = timeouts
        self._backoff = backoff
        self._lock = threading.RLock()
        self._ended = threading.Event()
        # Driver -> its plugins, oldest first.
        self._plugins: dict[str, list[Plugin]] = {}
        self._connections: set[Connection] = set()
        # Registration socket -> running attempt; failures so far and when the last was; why it failed.
        self._running: dict[str, threading.Thread] = {}
        self._failures: dict[str, tuple[int, float]] = {}
        self._problems: dict[str, str] = {}
        self._thread = threading.Thread(target=self._reconcile_forever, name="kubelet-plugins", daemon=True)

    def start(self) -> None:
        """Begin to watch the directory."""
        self._thread.start()

    def end(self) -> None:
        """Stop everything; registrations are forgotten without a word to the plugins."""
        self._ended.set()
        # Everything here ends by itself within its own short waits; the limit is for a starved machine.
        deadline = time.monotonic() + 2.0
        self._thread.join(2.0)
        with self._lock:
            connections = list(self._connections)
            threads = list(self._running.values())
            self._plugins.clear()
        threads += filter(None, [connection.close() for connection in connections])
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _log(self, kind: EventKind, driver: str = "", path: str = "", text: str = "") -> None:
        if not self._ended.is_set():
            self._events.add(PluginEvent(kind, driver, path, text))

    def _open(self, path: str, driver: str = "") -> Connection:
        def changed(connected: bool) -> None:
            self._log("connected" if connected else "disconnected", driver, path)

        connection = Connection(path, changed if driver else lambda connected: None)
        with self._lock:
            self._connections.add(connection)
            ended = self._ended.is_set()
        if ended:
            connection.close()
        return connection

    def _close(self, connection: Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        connection.close()

    # Reconciliation

    def _reconcile_forever(self) -> None:
        while not self._ended.is_set():
            self._reconcile(registration_sockets(self._registry_dir))
            self._ended.wait(self._poll_interval)

    def _reconcile(self, wanted: dict[str, Identity]) -> None:
        """Bring the registrations in line with the directory; old ones go before new ones come."""
        with self._lock:
            known = {plugin.socket: plugin for plugins in self._plugins.values() for plugin in plugins}
            for path, plugin in known.items():
                if path not in self._running and wanted.get(path) != plugin.identity:
                    self._remove(plugin)
                    why = "socket was made anew" if path in wanted else "socket is gone"
                    self._log("deregistered", plugin.info.driver, path, why)
            for path in [path for path in self._problems if path not in wanted]:
                del self._problems[path]
            registered = {plugin.socket for plugins in self._plugins.values() for plugin in plugins}
            for path, identity in wanted.items():
                if path in registered or path in self._running or not self._due(path):
                    continue
                thread = threading.Thread(
                    target=self._attempt,
                    args=(path, identity),
                    name=f"register-{Path(path).name}",
                    daemon=True,
                )
                self._running[path] = thread
                thread.start()

    def _due(self, path: str) -> bool:
        failures, last = self._failures.get(path, (0, 0.0))
        return failures == 0 or time.monotonic() - last > self._backoff.delay(failures)

    def _attempt(self, path: str, identity: Identity) -> None:
        """One registration operation on one socket."""
        self._log("registering", path=path)
        connection: Connection | None = None
        try:
            connection = self._open(path)
            handshake = Handshake(
                path, self._timeouts, lambda info: self._add(info, path, identity), self._take_back(path)
            )
            info = handshake.run(connection)
        # A socket path that is too long for a client is a ValueError.
        except (RegistrationError, ValueError) as problem:
            with self._lock:
                failures, _ = self._failures.get(path, (0, 0.0))
                self._failures[path] = (failures + 1, time.monotonic())
                self._problems.pop(path, None)
                self._problems[path] = str(problem)
            self._log("registration-failed", path=path, text=str(problem))
        else:
            with self._lock:
                self._failures.pop(path, None)
                self._problems.pop(path, None)
                for plugin in self._plugins.get(info.driver, []):
                    if plugin.socket == path:
                        plugin.notified = True
            self._log("registered", info.driver, path, f"{info.service} at {info.endpoint}")
        finally:
            if connection is not None:
                self._close(connection)
            with self._lock:
                self._running.pop(path, None)

    def _take_back(self, path: str) -> Callable[[PluginInfo], None]:
        def take_back(info: PluginInfo) -> None:
            with self._lock:
                for plugin in list(self._plugins.get(info.driver, [])):
                    if plugin.socket == path:
                        self._remove(plugin)

        return take_back

    def _add(self, info: PluginInfo, path: str, identity: Identity) -> None:
        with self._lock:
            if self._ended.is_set():
                raise ValueError("the kubelet is stopping")
            plugins = self._plugins.setdefault(info.driver, [])
            if any(plugin.info.endpoint == info.endpoint for plugin in plugins):
                raise ValueError(
                    f"endpoint {info.endpoint} already registered for DRA driver plugin {info.driver}"
                )
            plugins.append(Plugin(info, path, identity, self._open(info.endpoint, info.driver)))

    def _remove(self, plugin: Plugin) -> None:
        plugins = self._plugins[plugin.info.driver]
        plugins.remove(plugin)
        if not plugins:
            del self._plugins[plugin.info.driver]
        self._close(plugin.connection)

    # Questions and calls

    def plugins(self) -> list[Plugin]:
        """Return the registered plugins, per driver oldest first."""
        with self._lock:
            return [plugin for plugins in self._plugins.values() for plugin in plugins]

    def last_problem(self) -> str:
        """Return why the latest failed registration of a present socket failed; "" if there is none."""
        with self._lock:
            return next(reversed(self._problems.values()), "")

    def target(self, driver: str) -> Plugin:
        """Return the plugin that calls go to.

        Raises:
            PluginError: if the driver is not registered.
        """
        with self._lock:
            plugin = rules.call_target(self._plugins.get(driver, []))
        if plugin is None:
            raise rules.not_registered(driver)
        return plugin
