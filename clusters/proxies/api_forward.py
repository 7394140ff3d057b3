"""The serving half of the API proxy; everything here runs in the proxy's event loop."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from clusters.api_status import ApiError
from clusters.http_server import HEADER_LIMIT, http_server, text_headers
from clusters.open_sockets import OpenSockets
from clusters.proxies.api_calls import ApiCall, CallLog, decode_body, keeps_body
from clusters.proxies.api_faults import Fault, answer, expired
from clusters.proxies.watch_frames import Frames
from clusters.request_info import parse
from clusters.tls_listener import TlsListener

_HOP_BY_HOP: Final = {
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_CONNECT_SECONDS: Final = 10.0
_KEEP_ALIVE: Final = 3600.0
_SHUTDOWN_SECONDS: Final = 0.1


class _Watch:
    """An open watch, and the fault that is to end it."""

    def __init__(self, call: ApiCall) -> None:
        self.call = call
        self.fault: Fault | None = None
        self.struck = asyncio.Event()

    def strike(self, fault: Fault) -> None:
        if self.fault is None and fault.take(self.call.identity, self.call.info):
            self.fault = fault
            self.struck.set()


class Forwarder:
    """Listeners that forward to one API server."""

    def __init__(
        self, upstream_url: str, upstream_ca: str | bytes, log: CallLog, clock: Callable[[], float]
    ) -> None:
        self._upstream = upstream_url.rstrip("/")
        ca = upstream_ca.decode() if isinstance(upstream_ca, bytes) else upstream_ca
        self._tls = ssl.create_default_context(cadata=ca)
        self._log = log
        self._clock = clock
        self._servers: list[tuple[TlsListener, web.Server]] = []
        self._sockets = OpenSockets()
        self._faults: list[Fault] = []
        self._watches: set[_Watch] = set()
        self._session: aiohttp.ClientSession | None = None

    async def listen(self, identity: str, host: str, context: ssl.SSLContext) -> str:
        """Open a listener on a free port; gives its address."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._tls, limit=0, socket_factory=self._sockets.make),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
                auto_decompress=False,
                max_line_size=HEADER_LIMIT,
                max_field_size=HEADER_LIMIT,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
            )

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._handle(identity, request)

        # A client that goes away must end its watch on the server, too.
        server = http_server(handle, keepalive=_KEEP_ALIVE)
        listener = TlsListener(server, context)
        port = listener.start(host, 0)
        self._servers.append((listener, server))
        return f"https://{f'[{host}]' if ':' in host else host}:{port}"

    async def close(self) -> None:
        """Close listeners and connections."""
        for listener, server in self._servers:
            listener.close()
            server.pre_shutdown()
            await server.shutdown(_SHUTDOWN_SECONDS)
            await listener.break_connections()
        if self._session is not None:
            await self._session.close()
        await self._sockets.wait_closed(polite=False)

    async def add_fault(self, fault: Fault) -> None:
        """Inject a fault from now on, into open watches as well."""
        self._faults.append(fault)
        if fault.watch is not None:
            for watch in self._watches:
                watch.strike(fault)

    async def remove_fault(self, fault: Fault) -> None:
        """Stop injecting a fault."""
        self._faults.remove(fault)

    async def _handle(self, identity: str, request: web.BaseRequest) -> web.StreamResponse:
        sent = text_headers(request.headers)
        call = ApiCall(
            time=self._clock(),
            monotonic=time.monotonic(),
            identity=identity,
            user_agent=sent.get("User-Agent", ""),
            method=request.method,
            info=parse(request.method, request.path, request.query),
            query={key: request.query[key] for key in request.query},
            content_type=sent.get("Content-Type", ""),
        )
        try:
            body = await request.content.read()
            if keeps_body(call.info):
                call.raw_body = body
            fault = await self._deciding_fault(call)
            if fault is not None and fault.status is not None:
                error = answer(fault, call.info, decode_body(body, call.content_type))
                call.status = error.code
                return _error_response(error)
            if fault is not None and fault.cut == "before":
                return _reset(request)
            if "Upgrade" in request.headers:
                call.status = 501
                return web.Response(status=501, text="the API proxy does not forward upgraded connections")
            return await self._forward(call, request, body, fault)
        except asyncio.CancelledError:
            call.fault = f"{call.fault}, the client left" if call.fault else "the client left"
            raise
        finally:
            self._log.finish(call, time.monotonic())

    async def _deciding_fault(self, call: ApiCall) -> Fault | None:
        """Let the delays pass; the first fault with an answer or a cut decides."""
        for fault in list(self._faults):
            if fault.watch is not None or not fault.take(call.identity, call.info):
                continue
            call.fault = f"{call.fault}, {fault}" if call.fault else str(fault)
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.status is not None or fault.cut is not None:
                return fault
        return None

    async def _forward(
        self, call: ApiCall, request: web.BaseRequest, body: bytes, fault: Fault | None
    ) -> web.StreamResponse:
        assert self._session is not None  # noqa: S101 - made by the first listener
        headers = _without_hop_by_hop(text_headers(request.headers))
        watching = call.verb == "watch"
        if watching:
            # Events can be told apart only in a plain stream.
            headers.popall("Accept-Encoding", None)
        try:
            upstream = await self._session.request(
                request.method,
                URL(self._upstream + request.raw_path, encoded=True),
                headers=headers,
                data=body or None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            # What a client sees that talks to a dead server itself.
            call.fault = f"{call.fault}, no answer: {error}" if call.fault else f"no answer: {error}"
            return _reset(request)
        with _closing(upstream):
            if watching and upstream.status == 200:
                return await self._watch(call, request, upstream)
            if fault is None and "Content-Length" not in upstream.headers and request.method != "HEAD":
                return await self._stream(call, request, upstream)
            try:
                content = await upstream.read()
            except aiohttp.ClientError as error:
                call.fault = f"cut by the server: {error}"
                return _reset(request)
            call.status = upstream.status
            if fault is not None and fault.cut == "after":
                return _reset(request)
            if request.method == "HEAD":
                return await _head(request, upstream)
            return web.Response(
                status=upstream.status,
                reason=upstream.reason,
                headers=_without_hop_by_hop(upstream.headers),
                body=content,
            )

    async def _begin(
        self, call: ApiCall, request: web.BaseRequest, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=upstream.status, reason=upstream.reason, headers=_without_hop_by_hop(upstream.headers)
        )
        await response.prepare(request)
        call.status = upstream.status
        return response

    async def _stream(
        self, call: ApiCall, request: web.BaseRequest, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Pass an answer of unknown length on, as it comes."""
        response = await self._begin(call, request, upstream)
        try:
            async for data in upstream.content.iter_any():
                await response.write(data)
        except aiohttp.ClientPayloadError as error:
            call.fault = f"cut by the server: {error}"
            return _reset(request, response)
        # The client must find the call in the log when it has the whole answer.
        self._log.add(call)
        await response.write_eof()
        return response

    async def _watch(
        self, call: ApiCall, request: web.BaseRequest, upstream: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Pass a watch on, event by event as they come, until either side or a fault ends it."""
        response = await self._begin(call, request, upstream)
        self._log.add(call)
        watch = _Watch(call)
        self._watches.add(watch)
        for fault in self._faults:
            if fault.watch is not None:
                watch.strike(fault)
        frames = Frames(upstream.headers.get("Content-Type", ""))
        struck = asyncio.ensure_future(watch.struck.wait())
        arrived: asyncio.Future[bytes] | None = None
        try:
            while True:
                arrived = asyncio.ensure_future(upstream.content.readany())
                await asyncio.wait((arrived, struck), return_when=asyncio.FIRST_COMPLETED)
                if watch.fault is not None:
                    return await self._end_watch(watch.fault, call, request, response, frames)
                try:
                    data = arrived.result()
                except aiohttp.ClientError as error:
                    call.fault = f"cut by the server: {error}"
                    return _reset(request, response)
                if not data:
                    await response.write(frames.rest())
                    await response.write_eof()
                    return response
                events = frames.feed(data)
                if events:
                    await response.write(events)
        finally:
            self._watches.discard(watch)
            for task in (struck, arrived):
                if task is not None:
                    task.cancel()

    async def _end_watch(
        self,
        fault: Fault,
        call: ApiCall,
        request: web.BaseRequest,
        response: web.StreamResponse,
        frames: Frames,
    ) -> web.StreamResponse:
        call.fault = f"{call.fault}, {fault}" if call.fault else str(fault)
        if fault.watch == "cut":
            return _reset(request, response)
        await response.write(frames.error_event(expired()))
        await response.write_eof()
        return response


def _without_hop_by_hop(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    kept: CIMultiDict[str] = CIMultiDict()
    for key, value in headers.items():
        if key.lower() not in _HOP_BY_HOP:
            kept.add(key, value)
    return kept


@contextmanager
def _closing(upstream: aiohttp.ClientResponse) -> Iterator[None]:
    """Drop the connection unless the answer was read to its end: a server must see at once that a watch is over."""
    try:
        yield
    finally:
        connection = upstream.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        upstream.close()


async def _head(request: web.BaseRequest, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=upstream.status, headers=_without_hop_by_hop(upstream.headers))
    if "Content-Length" in upstream.headers:
        response.content_length = int(upstream.headers["Content-Length"])
    await response.prepare(request)
    await response.write_eof()
    return response


def _reset(request: web.BaseRequest, response: web.StreamResponse | None = None) -> web.StreamResponse:
    """Drop the connection at once; the client sees it reset or closed without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return response if response is not None else web.Response()


def _error_response(error: ApiError) -> web.Response:
    if error.code == 429:
        # An overloaded server answers in plain text.
        return web.Response(status=429, text=error.message, headers=error.headers)
    body = json.dumps(error.status(), separators=(",", ":")).encode() + b"\n"
    return web.Response(status=error.code, body=body, headers=error.headers, content_type="application/json")
