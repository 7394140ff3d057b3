"""One gRPC connection to a plugin, watched as a kubelet watches it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from clusters.embedded.kubelet.rules import rpc_text
from node_api import sockets

# gRPC's own watcher thread wakes every 0.2 s and fails loudly on a closed channel: a channel is closed only
# when that thread has had the time to notice that nobody watches any more.
_WATCHER_SECONDS = 0.45


class RpcFailedError(Exception):
    """A call failed as a whole; the text is a Go client's."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """A channel to a socket that connects at once and again after every loss.

    Waiting times between attempts are gRPC's: 1 s, growing to 120 s.
    """

    def __init__(self, path: str, changed: Callable[[bool], None] = lambda connected: None) -> None:
        """Start to connect.

        Args:
            path: the socket.
            changed: called with the new state, in a thread of its own, whenever the connection comes or goes.

        Raises:
            SocketPathError: if the path is too long.
        """
        self.path = path
        self._changed = changed
        self._lock = threading.Lock()
        self._calls: set[Any] = set()
        self._closed = False
        self._state = threading.Condition()
        self._connected = False
        self._channel = sockets.channel(path)
        self._channel.subscribe(self._watch, try_to_connect=True)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        with self._state:
            return self._connected

    def _watch(self, state: grpc.ChannelConnectivity) -> None:
        connected = state is grpc.ChannelConnectivity.READY
        with self._state:
            different = connected != self._connected
            self._connected = connected
            self._state.notify_all()
        if state is grpc.ChannelConnectivity.IDLE:
            # gRPC would wait for the next call; the loss of a plugin must be noticed and healed without one.
            with self._lock:
                if not self._closed:
                    self._channel.subscribe(_ignore, try_to_connect=True)
                    self._channel.unsubscribe(_ignore)
        if different:
            self._changed(connected)

    def wait_connected(self, timeout: float) -> bool:
        """Wait for a connection, at most so many seconds; return whether there is one."""
        with self._state:
            self._state.wait_for(lambda: self._connected or self._closed, timeout)
            return self._connected and not self._closed

    def call(self, full_method: str, request: Message, response: Any, timeout: float) -> Any:
        """Make a unary call; a lost or impossible connection fails it at once.

        Args:
            full_method: "/<service>/<method>".
            request: its message.
            response: the class of the answer.
            timeout: deadline in seconds, which the server sees.

        Raises:
            RpcFailedError: if there is no answer, also when the connection is closed meanwhile.
        """
        method = self._channel.unary_unary(
            full_method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        with self._lock:
            if self._closed:
                raise RpcFailedError(
                    grpc.StatusCode.CANCELLED, "rpc error: code = Canceled desc = connection closed"
                )
            pending = method.future(request, timeout=timeout)
            self._calls.add(pending)
        try:
            return pending.result()
        except grpc.FutureCancelledError:
            text = rpc_text(grpc.StatusCode.CANCELLED, "context canceled", self.path)
            raise RpcFailedError(grpc.StatusCode.CANCELLED, text) from None
        except grpc.RpcError:
            code = pending.code()
            raise RpcFailedError(code, rpc_text(code, pending.details() or "", self.path)) from None
        finally:
            with self._lock:
                self._calls.discard(pending)

    def close(self) -> threading.Thread | None:
        """Cancel running calls and disconnect in the background; return the thread that ends with it."""
        with self._lock:
            if self._closed:
                return None
            self._closed = True
            running = list(self._calls)
        for call in running:
            call.cancel()
        self._channel.unsubscribe(self._watch)
        with self._state:
            self._state.notify_all()
        closer = threading.Timer(_WATCHER_SECONDS, self._channel.close)
        closer.daemon = True
        closer.start()
        return closer


def _ignore(state: grpc.ChannelConnectivity) -> None:
    """Take no notice."""
