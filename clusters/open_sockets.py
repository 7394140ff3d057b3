"""The sockets of a loop's connections, which must be closed before the loop ends.

asyncio closes a socket some rounds of its loop after a transport was told to close, and first waits for the other
side's part in the end of TLS. A loop that ends in between leaves the socket open until the garbage collector finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from typing import Final

from aiohttp import AddrInfoType

_ROUND: Final = 0.001
_PATIENCE: Final = 1000


class OpenSockets:
    """Knows sockets until they are closed; used in one event loop."""

    def __init__(self) -> None:
        self._known: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def add(self, known: socket.socket) -> None:
        """Know a socket from now on."""
        self._known.add(known)

    def make(self, address: AddrInfoType) -> socket.socket:
        """A socket that is known, for an address to connect to; a `socket_factory` of aiohttp's connectors."""
        family, kind, protocol, *_ = address
        made = socket.socket(family, kind, protocol)
        self._known.add(made)
        return made

    async def wait_closed(self, *, polite: bool = True) -> None:
        """Wait until all sockets are closed, whose transports were told to close.

        The end of TCP is seen without the other side: it comes when that does not take part in the end of TLS within
        about a second; at once where `polite` is False. What has no transport any more stays open.
        """
        # Rounds and not a time: on a machine with much else to do each may take long.
        for _ in range(_PATIENCE if polite else 0):
            if not self._left():
                return
            await asyncio.sleep(_ROUND)
        for one in self._left():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(_PATIENCE):
            if not self._left():
                return
            await asyncio.sleep(_ROUND)

    def _left(self) -> list[socket.socket]:
        return [one for one in self._known if one.fileno() != -1]
