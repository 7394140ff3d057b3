"""A client channel that connects by itself and tells when the connection comes and goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from node_api import sockets

# gRPC's own watcher thread looks every 0.2 s and fails loudly on a closed channel, so a channel is closed only
# after that thread has ended. Its state is not public; without it only time can tell.
_WATCHER_SECONDS = 1.0
_LONGEST_WATCHER_SECONDS = 30.0


class WatchedChannel:
    """A channel to a socket that connects at once and again after every loss. Thread-safe."""

    def __init__(
        self,
        path: str,
        changed: Callable[[bool], None] = lambda connected: None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Start to connect.

        Args:
            path: the socket.
            changed: called with the new state, in a thread of gRPC, whenever the connection comes or goes.
            options: channel arguments. Without any, attempts are 1 s apart at first, later up to 120 s.

        Raises:
            SocketPathError: if the path is too long.
        """
        self._changed = changed
        self._lock = threading.Lock()
        self._state = threading.Condition()
        self._connected = False
        self._closed = False
        self.channel = sockets.channel(path, options)
        self.channel.subscribe(self._watch, try_to_connect=True)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        with self._state:
            return self._connected and not self._closed

    def _watch(self, state: grpc.ChannelConnectivity) -> None:
        connected = state is grpc.ChannelConnectivity.READY
        with self._state:
            different = connected != self._connected and not self._closed
            self._connected = connected
            self._state.notify_all()
        if state is grpc.ChannelConnectivity.IDLE:
            # gRPC would wait for the next call; a loss must be noticed and healed without one.
            with self._lock:
                if not self._closed:
                    self.channel.subscribe(_ignore, try_to_connect=True)
                    self.channel.unsubscribe(_ignore)
        if different:
            self._changed(connected)

    def wait_connected(self, timeout: float) -> bool:
        """Wait for a connection, at most so many seconds; return whether there is one."""
        with self._state:
            self._state.wait_for(lambda: self._connected or self._closed, timeout)
            return self._connected and not self._closed

    def close(self) -> threading.Thread | None:
        """Disconnect in the background; return the thread that ends with it, None when closed before."""
        with self._lock, self._state:
            if self._closed:
                return None
            self._closed = True
            self._state.notify_all()
        self.channel.unsubscribe(self._watch)
        closer = threading.Thread(target=self._close, name="close-channel", daemon=True)
        closer.start()
        return closer

    def _close(self) -> None:
        watcher: Any = getattr(self.channel, "_connectivity_state", None)
        if hasattr(watcher, "polling"):
            deadline = time.monotonic() + _LONGEST_WATCHER_SECONDS
            while watcher.polling and time.monotonic() < deadline:
                time.sleep(0.01)
        else:
            time.sleep(_WATCHER_SECONDS)
        self.channel.close()


def _ignore(state: grpc.ChannelConnectivity) -> None:
    """Take no notice."""
