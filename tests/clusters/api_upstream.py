"""A small TLS server behind the API proxy, and requests through the proxy."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from clusters import tls
from clusters.proxies.api_proxy import ApiProxy
from clusters.tls_listener import TlsListener


class Upstream:
    """An API server that echoes what it got, and streams watches that the test feeds."""

    def __init__(self) -> None:
        self.certificates = tls.generate("127.0.0.1")
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.watch_ended = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.queues: list[asyncio.Queue[bytes | None]] = []
        self.watch_open = threading.Event()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(10)

    async def _start(self) -> str:
        self.server = web.Server(self._handle, handler_cancellation=True)
        self.listener = TlsListener(self.server, self.certificates.server_context())
        return f"https://127.0.0.1:{self.listener.start('127.0.0.1', 0)}"

    async def _stop(self) -> None:
        self.listener.close()
        await self.server.shutdown(0.1)
        await self.listener.break_connections()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        self.requests.append((request.method, request.raw_path, dict(request.headers), body))
        if request.query.get("watch"):
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            queue: asyncio.Queue[bytes | None] = asyncio.Queue()
            self.queues.append(queue)
            self.watch_open.set()
            try:
                while (data := await queue.get()) is not None:
                    await response.write(data)
            finally:
                self.watch_ended.set()
            return response
        if request.path.endswith("/log"):
            stream = web.StreamResponse(headers={"Content-Type": "text/plain"})
            stream.enable_chunked_encoding()
            await stream.prepare(request)
            await stream.write(b"one\n")
            await stream.write(b"two\n")
            return stream
        return web.json_response({"path": request.raw_path}, headers={"Audit-Id": "a1"})

    def send(self, data: bytes | None) -> None:
        self.loop.call_soon_threadsafe(self.queues[-1].put_nowait, data)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


def connect(proxy: ApiProxy, identity: str = "driver") -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cadata=proxy.ca_pem.decode())
    where = urlsplit(proxy.url_for(identity))
    assert where.hostname is not None
    return http.client.HTTPSConnection(where.hostname, where.port, context=context, timeout=10)


def send(
    proxy: ApiProxy,
    method: str,
    path: str,
    body: Any = None,
    identity: str = "driver",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    connection = connect(proxy, identity)
    data = None if body is None else json.dumps(body).encode()
    sent = {"User-Agent": "test/1", "Authorization": "Bearer secret-token", **(headers or {})}
    if data:
        sent["Content-Type"] = "application/json"
    try:
        connection.request(method, path, data, sent)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()
