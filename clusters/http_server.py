"""The HTTP layer of our servers: limits, and what becomes of clients that do not speak HTTP properly."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy


class _FaultsOfServersOnly(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, (HttpProcessingError, web.RequestPayloadError, ConnectionError))


# aiohttp logs a broken request with its traceback, and without a configured logger Python prints it to stderr.
_LOG: Final = logging.getLogger(__name__)
_LOG.addFilter(_FaultsOfServersOnly())
HEADER_LIMIT: Final = 1024 * 1024
"""Bytes of a request line or a header: selectors and signed tokens exceed the 8 KiB that aiohttp allows."""


def http_server(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], *, keepalive: float
) -> web.Server:
    """A server for the running event loop; idle connections last `keepalive` seconds.

    A client that goes away cancels its request. Bodies stay as they were sent, compressed or not. A broken
    request is answered with 400 and not logged.
    """
    return web.Server(
        handle,
        handler_cancellation=True,
        access_log=None,
        logger=_LOG,
        auto_decompress=False,
        keepalive_timeout=keepalive,
        max_line_size=HEADER_LIMIT,
        max_field_size=HEADER_LIMIT,
    )


def text_headers(headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """The headers with the replacement character for bytes that are no UTF-8, as in Go.

    aiohttp keeps such bytes as lone surrogates, which can be encoded nowhere.
    """
    if all(value.isascii() for value in headers.values()):
        return headers
    clean = ((key, value.encode("utf-8", "surrogateescape")) for key, value in headers.items())
    return CIMultiDictProxy(CIMultiDict((key, value.decode("utf-8", "replace")) for key, value in clean))
