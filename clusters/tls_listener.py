"""Listening with TLS in a way that leaves no connection behind.

asyncio's own server forgets connections whose TLS begins or ends when its loop ends: they are neither refused nor
closed, and their clients wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import weakref
from collections.abc import Callable
from typing import Final

from clusters.open_sockets import OpenSockets

_BACKLOG: Final = 512
# Without free descriptors or memory for a connection the next attempt waits, as asyncio's server does.
_PAUSE: Final = 1.0
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class TlsListener:
    """Accepts connections in the running loop and gives each that passes the handshake a protocol."""

    def __init__(self, protocol: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._protocol, self._context = protocol, context
        self._socket: socket.socket | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepted = OpenSockets()
        self._open: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()

    def start(self, host: str, port: int) -> int:
        """Listen on an IP address; 0 takes a free port. Returns the port. Raises OSError."""
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setblocking(False)
            listening.bind((host, port))
            listening.listen(_BACKLOG)
        except BaseException:
            listening.close()
            raise
        self._socket = listening
        self._listen()
        return int(listening.getsockname()[1])

    def _listen(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept, self._socket)

    def _accept(self, listening: socket.socket) -> None:
        # Without an await: a connection that was accepted is in the books.
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                loop.remove_reader(listening)
                loop.call_later(_PAUSE, self._listen)
            return
        accepted.setblocking(False)
        self._accepted.add(accepted)
        task = loop.create_task(self._shake(accepted))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        # Clients that do not speak TLS, or go away, are none of our business.
        with contextlib.suppress(OSError):
            transport, _ = await loop.connect_accepted_socket(self._protocol, accepted, ssl=self._context)
            self._open.add(transport)

    def close(self) -> None:
        """Listen no more; connections stay open, those whose handshake is under way too."""
        listening, self._socket = self._socket, None
        if listening is not None:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    async def break_connections(self) -> None:
        """End all connections that are left, in whatever state they are; after `close`."""
        # Clients that keep their end open would hold the closing handshake of TLS.
        for transport in list(self._open):
            transport.abort()
        # Handshakes see the end of TCP, too.
        await self._accepted.wait_closed(polite=False)
        await asyncio.gather(*self._handshakes, return_exceptions=True)
