"""One gRPC connection to a plugin, watched and worded as by a kubelet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from google.protobuf.message import Message

from clusters.embedded.kubelet.rules import rpc_text
from node_api.watched import WatchedChannel


class RpcFailedError(Exception):
    """A call failed as a whole; the text is a Go client's."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """A connection to a socket that is kept up; waiting times between attempts are gRPC's, as a kubelet's."""

    def __init__(self, path: str, changed: Callable[[bool], None] = lambda connected: None) -> None:
        """Start to connect; see WatchedChannel for the arguments."""
        self.path = path
        self._lock = threading.Lock()
        self._calls: set[Any] = set()
        self._closed = False
        self._watched = WatchedChannel(path, changed)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._watched.connected

    def wait_connected(self, timeout: float) -> bool:
        """Wait for a connection, at most so many seconds; return whether there is one."""
        return self._watched.wait_connected(timeout)

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
        cancelled = rpc_text(grpc.StatusCode.CANCELLED, "context canceled", self.path)
        with self._lock:
            if self._closed:
                raise RpcFailedError(grpc.StatusCode.CANCELLED, cancelled)
            method = self._watched.channel.unary_unary(
                full_method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            pending = method.future(request, timeout=timeout)
            self._calls.add(pending)
        try:
            return pending.result()
        except grpc.FutureCancelledError:
            raise RpcFailedError(grpc.StatusCode.CANCELLED, cancelled) from None
        except grpc.RpcError:
            code = pending.code()
            raise RpcFailedError(code, rpc_text(code, pending.details() or "", self.path)) from None
        finally:
            with self._lock:
                self._calls.discard(pending)

    def stream(self, full_method: str, request: Message, response: Any) -> Iterator[Any]:
        """Make a call with a stream of answers and yield them; see `call`."""
        with self._lock:
            if self._closed:
                cancelled = rpc_text(grpc.StatusCode.CANCELLED, "context canceled", self.path)
                raise RpcFailedError(grpc.StatusCode.CANCELLED, cancelled)
            method = self._watched.channel.unary_stream(
                full_method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            running = method(request)
            self._calls.add(running)
        try:
            yield from running
        except grpc.RpcError:
            code = running.code()
            raise RpcFailedError(code, rpc_text(code, running.details() or "", self.path)) from None
        finally:
            running.cancel()
            with self._lock:
                self._calls.discard(running)

    def close(self) -> threading.Thread | None:
        """Cancel running calls and disconnect in the background; return the thread that ends with it."""
        with self._lock:
            self._closed = True
            running = list(self._calls)
        for call in running:
            call.cancel()
        return self._watched.close()
