"""The sockets of a driver: opened in order, made anew when somebody has removed them, closed in reverse order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc

from driver.sdk import log
from driver.sdk.readiness import Readiness
from node_api.sockets import ServedSocket, SocketPathError, serve

CONDITION: Final = "sockets"
_GRACE_SECONDS: Final = 5.0
"""How long calls may run on that came through a socket that was removed."""


class Listening:
    """Sockets with the servers behind them. Safe to use from several threads."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._lock = threading.Lock()
        self._served: dict[Path, tuple[ServedSocket, Callable[[], grpc.Server]]] = {}
        self._closed = False

    def open(self, path: Path, make: Callable[[], grpc.Server]) -> None:
        """Serve on a socket; `make` gives a server that is not started.

        Raises:
            OSError, SocketPathError: if the socket cannot be made.
        """
        self._served[path] = (serve(make(), path), make)

    def run(self, stop: threading.Event, interval: float) -> None:
        """Look after the sockets every `interval` seconds until `stop` is set."""
        while not stop.wait(interval):
            self.look()

    def look(self) -> None:
        """Make the sockets anew that are not there any more; a directory that has gone is waited for."""
        problems = []
        for path, (served, make) in list(self._served.items()):
            if served.present:
                continue
            try:
                self._again(path, served, make)
            except (OSError, SocketPathError) as problem:
                problems.append(f"{path} was removed: {problem}")
        self._readiness.set(CONDITION, "; ".join(problems))

    def _again(self, path: Path, before: ServedSocket, make: Callable[[], grpc.Server]) -> None:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{path.parent} is not there; make it again")
        with self._lock:
            if self._closed:
                return
            self._served[path] = (serve(make(), path), make)
        log.warning("socket was removed by somebody, made it anew", path=path)
        # Who is connected already finds the way to the new one by himself.
        before.server.stop(_GRACE_SECONDS)

    def close(self, grace: float) -> None:
        """Remove the sockets, the last one first; running calls get `grace` seconds."""
        with self._lock:
            self._closed = True
        for served, _ in reversed(self._served.values()):
            served.close(grace)
