"""A Redis server in this process, for the schedulers of an embedded cluster: fakeredis behind a Unix socket.

The socket is for its owner alone. What it holds ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final

from fakeredis import FakeRedisConnection, FakeServer
from redis.exceptions import NoScriptError, RedisError

_CHUNK: Final = 65536


class LedgerServer:
    """One life of the server."""

    def __init__(self, path: Path) -> None:
        """`path` is that of the socket, in a folder that others cannot enter."""
        self._path = path

    async def run(self) -> None:
        """Serve until cancelled. Raises OSError."""
        self._path.unlink(missing_ok=True)
        store = FakeServer(server_type="redis", version=(7,))
        clients: set[asyncio.StreamWriter] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            clients.add(writer)
            try:
                await _serve(FakeRedisConnection(server=store, protocol=2), reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                clients.discard(writer)
                writer.close()

        server = await asyncio.start_unix_server(serve, self._path)
        try:
            self._path.chmod(0o600)
            await asyncio.Event().wait()
        finally:
            server.close()
            for writer in list(clients):
                writer.transport.abort()
            with contextlib.suppress(OSError):
                self._path.unlink()


async def _serve(
    connection: FakeRedisConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    connection.connect()
    while data := await reader.read(_CHUNK):
        connection.get_socket().sendall(data)
        while connection.can_read():
            try:
                reply = connection.read_response()
            except RedisError as error:
                reply = error
            writer.write(encode(reply))
        await writer.drain()


def encode(value: Any) -> bytes:
    """A reply in RESP2."""
    if value is None:
        return b"$-1\r\n"
    if isinstance(value, Exception):
        # The client library has taken the first word off, by which clients tell errors apart.
        word = "NOSCRIPT" if isinstance(value, NoScriptError) else "ERR"
        return f"-{word} {' '.join(str(value).split())}\r\n".encode()
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, list | tuple):
        return b"*%d\r\n" % len(value) + b"".join(map(encode, value))
    data = value if isinstance(value, bytes) else str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
