"""The proxy between kubelet and plugins: every call is seen, and can be disturbed.

The driver puts its registration sockets into a directory of the proxy, and the proxy puts one of its own for
each into the kubelet's directory. The answer to GetInfo names a socket of the proxy instead of the driver's
service socket; everything else passes byte for byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from google.protobuf.message import DecodeError

from clusters.proxies.grpc_calls import Call, CallLog
from clusters.proxies.grpc_faults import Action, ActiveFault, Fault
from clusters.proxies.grpc_forward import UNLIMITED, Forwarder
from node_api import services, sockets
from node_api.gen import registration_pb2
from node_api.registry import Identity, registration_sockets
from node_api.watched import WatchedChannel

__all__ = ["Action", "ActiveFault", "Call", "Fault", "PluginProxy"]

_GET_INFO = services.full_method(services.REGISTRATION, services.GET_INFO)
# The proxy must not add its own waiting to the kubelet's: it tries again quickly.
_RECONNECT = (("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 500))
# The kubelet gives GetInfo 1 s; a service socket that is there accepts at once.
_FIRST_CONNECT_SECONDS = 0.5
# Calls that fail because the driver is gone get this time to say so before the proxy's server stops.
_LAST_ANSWERS_SECONDS = 0.5
_WORKERS = 64


def _server(handler: Forwarder) -> grpc.Server:
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="plugin-proxy")
    return grpc.server(pool, handlers=[handler], options=list(UNLIMITED))


class _RegistrationMirror:
    """The proxy's socket in the kubelet's directory for one registration socket of a driver."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self.closed = False
        self.channel = sockets.channel(path, (*UNLIMITED, *_RECONNECT))
        self.served: sockets.ServedSocket | None = None

    def close(self) -> None:
        if self.served is not None:
            self.served.close()
        self.channel.close()


class _ServiceMirror:
    """The proxy's socket for a driver's service socket, up and down with it.

    A kubelet's choice of the plugin depends on the connection: if the driver is gone, its mirror must refuse
    connections too.
    """

    def __init__(self, endpoint: str, path: Path, forwarder: Callable[[grpc.Channel], Forwarder]) -> None:
        self.endpoint = endpoint
        self.path = path
        self.users: set[_RegistrationMirror] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._served: sockets.ServedSocket | None = None
        self._ready = threading.Event()
        self._upstream = WatchedChannel(endpoint, self._changed, (*UNLIMITED, *_RECONNECT))
        self._forwarder = forwarder(self._upstream.channel)
        self._ready.set()

    def wait_up(self, timeout: float) -> None:
        """Wait until the mirror is up with its driver, at most so many seconds."""
        if self._upstream.wait_connected(timeout):
            self._changed(True)

    def _changed(self, connected: bool) -> None:
        self._ready.wait()
        with self._lock:
            if self._closed:
                return
            if connected and self._served is None:
                self._served = sockets.serve(_server(self._forwarder), self.path)
            elif not connected and self._served is not None:
                served, self._served = self._served, None
                # A killed driver leaves its socket file, a stopped one removes it: so does the mirror.
                if not os.path.lexists(self.endpoint):
                    served.unlink()
                served.server.stop(_LAST_ANSWERS_SECONDS)

    def close(self) -> list[threading.Thread]:
        """Remove the socket; return the thread that ends when everything is closed."""
        with self._lock:
            self._closed = True
            served, self._served = self._served, None
        if served is not None:
            served.close()
        with contextlib.suppress(sockets.SocketPathError):
            sockets.remove_stale(self.path)
        closer = self._upstream.close()
        return [closer] if closer else []


class PluginProxy:
    """Mirrors the registration sockets of a directory into the kubelet's and forwards all calls. Thread-safe."""

    def __init__(
        self,
        driver_registry_dir: str | os.PathLike[str],
        kubelet_registry_dir: str | os.PathLike[str],
        socket_dir: str | os.PathLike[str],
        *,
        poll_interval: float = 0.02,
    ) -> None:
        """Prepare a proxy; nothing runs before `start`.

        Args:
            driver_registry_dir: where drivers put their registration sockets.
            kubelet_registry_dir: the registration directory that the kubelet watches.
            socket_dir: for the proxy's service sockets; keep its path short.
            poll_interval: seconds between looks at the drivers' directory.
        """
        self._drivers = Path(driver_registry_dir)
        self._kubelet = Path(kubelet_registry_dir)
        self._sockets = Path(socket_dir)
        self._poll_interval = poll_interval
        self._log = CallLog()
        self._lock = threading.Lock()
        self._faults: list[ActiveFault] = []
        self._mirrors_lock = threading.Lock()
        self._registrations: dict[str, _RegistrationMirror] = {}
        self._mirrors: dict[str, _ServiceMirror] = {}
        self._number = 0
        self._stopped = threading.Event()
        self._closers: list[threading.Thread] = []
        self._thread: threading.Thread | None = None
        self.problems: dict[str, str] = {}
        """Registration socket of a driver -> why it cannot be mirrored."""

    # Life cycle

    def start(self) -> None:
        """Begin to mirror; the directories are made if missing. Without effect when running."""
        if self._thread is not None:
            return
        for directory in (self._drivers, self._kubelet, self._sockets):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._stopped.clear()
        self._thread = threading.Thread(target=self._mirror_forever, name="plugin-proxy", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Remove all sockets of the proxy, cancel running calls and end all threads, within 2 s."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopped.set()
        thread.join()
        self.clear_faults()
        for path in list(self._registrations):
            self._close_registration(path)
        for closer in self._closers:
            closer.join(2.0)
        self._closers.clear()

    def __enter__(self) -> PluginProxy:
        """Start."""
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        """Stop."""
        self.stop()

    # Record and faults

    def calls(self, since: float = 0.0, *, method: str = "") -> list[Call]:
        """Return the recorded calls that came in from the monotonic time on, of one method or all."""
        return [call for call in self._log.calls(since) if method in ("", call.method)]

    def wait_calls(self, method: str, *, count: int = 1, since: float = 0.0, timeout: float) -> list[Call]:
        """Wait until so many calls of the method have ended and return them.

        Raises:
            TimeoutError: if they have not within the timeout (seconds).
        """
        return self._log.wait(
            lambda call: call.method == method and call.code is not None, count, since, timeout
        )

    def inject(self, fault: Fault) -> ActiveFault:
        """Let the fault hit calls from now on; several faults can hit one call, in the order of injection."""
        active = ActiveFault(fault)
        with self._lock:
            self._faults.append(active)
        return active

    def clear_faults(self) -> None:
        """Remove all faults and release what they hold."""
        with self._lock:
            faults, self._faults = self._faults, []
        for active in faults:
            active.remove()

    def _take_faults(self, call: Call) -> list[ActiveFault]:
        with self._lock:
            return [active for active in self._faults if active.take(call)]

    # Mirroring

    def _mirror_forever(self) -> None:
        while not self._stopped.is_set():
            self._reconcile(registration_sockets(self._drivers))
            self._stopped.wait(self._poll_interval)

    def _reconcile(self, found: dict[str, Identity]) -> None:
        for path, mirror in list(self._registrations.items()):
            if found.get(path) != mirror.identity:
                self._close_registration(path)
        for path in [path for path in self.problems if path not in found]:
            del self.problems[path]
        for path, identity in found.items():
            if path not in self._registrations and path not in self.problems:
                try:
                    self._registrations[path] = self._open_registration(path, identity)
                except (OSError, ValueError) as problem:
                    # Tried again only when the socket is made anew: what is wrong is the path.
                    self.problems[path] = str(problem)
        self._closers = [closer for closer in self._closers if closer.is_alive()]

    def _mirror_path(self, path: str) -> Path:
        """The same name in the kubelet's directory, or a short one if that is too long for a socket."""
        name = os.path.relpath(path, self._drivers)
        wanted = self._kubelet / name
        try:
            sockets.check_socket_path(wanted)
        except sockets.SocketPathError:
            return self._kubelet / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}-reg.sock"
        return wanted

    def _open_registration(self, path: str, identity: Identity) -> _RegistrationMirror:
        mirror = _RegistrationMirror(path, identity)
        forwarder = Forwarder(
            mirror.channel,
            path,
            self._log,
            self._take_faults,
            self._stopped,
            rewrite=lambda method, message: self._rewrite(mirror, method, message),
            # A kubelet waits for the connection before it asks.
            wait_for_ready=True,
        )
        try:
            mirror.served = sockets.serve(_server(forwarder), self._mirror_path(path))
        except (OSError, ValueError):
            mirror.close()
            raise
        return mirror

    def _close_registration(self, path: str) -> None:
        registration = self._registrations.pop(path)
        registration.close()
        with self._mirrors_lock:
            # An answer to GetInfo may still be under way.
            registration.closed = True
            for endpoint, mirror in list(self._mirrors.items()):
                mirror.users.discard(registration)
                if not mirror.users:
                    del self._mirrors[endpoint]
                    self._closers += mirror.close()

    def _rewrite(self, registration: _RegistrationMirror, method: str, message: bytes) -> bytes:
        """Put the proxy's socket in place of the driver's into the answer to GetInfo."""
        if method != _GET_INFO:
            return message
        try:
            info = registration_pb2.PluginInfo.FromString(message)
        except DecodeError:
            return message
        # An empty endpoint means the registration socket, and the kubelet knows only the mirror of that.
        if not info.endpoint:
            return message
        try:
            mirror = self._mirror(info.endpoint, registration)
        except (OSError, ValueError):
            # The kubelet shall meet the unusable endpoint itself.
            return message
        mirror.wait_up(_FIRST_CONNECT_SECONDS)
        info.endpoint = str(mirror.path)
        return info.SerializeToString()

    def _mirror(self, endpoint: str, user: _RegistrationMirror) -> _ServiceMirror:
        """The mirror of a service socket: one for each, so that a kubelet sees equal ones as equal."""
        with self._mirrors_lock:
            if user.closed:
                raise ValueError("the registration socket is gone")
            mirror = self._mirrors.get(endpoint)
            if mirror is None:
                self._number += 1
                path = self._sockets / f"{self._number}.sock"
                sockets.check_socket_path(path)
                mirror = _ServiceMirror(
                    endpoint,
                    path,
                    lambda channel: Forwarder(channel, endpoint, self._log, self._take_faults, self._stopped),
                )
                self._mirrors[endpoint] = mirror
            mirror.users.add(user)
            return mirror
