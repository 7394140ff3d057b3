"""The API proxy before the embedded API server, with clients that send what the server alone would survive."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator

import pytest
from apiserver_harness import ADMIN, CONFIG_MAPS, serve

from clusters.embedded.apiserver.thread import ServerThread
from clusters.proxies.api_proxy import ApiProxy


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    running = serve()
    yield running
    running.stop()


@pytest.fixture
def proxy(server: ServerThread, caplog: pytest.LogCaptureFixture) -> Iterator[ApiProxy]:
    with caplog.at_level(logging.WARNING), ApiProxy(server.url, server.ca_pem, identity="driver") as running:
        yield running
    assert caplog.records == []


def _exchange(proxy: ApiProxy, line: str, *lines: str, body: bytes = b"") -> bytes:
    fixed = ("Host: x", f"Authorization: Bearer {ADMIN}", "Connection: close", f"Content-Length: {len(body)}")
    data = "\r\n".join((line, *fixed, *lines, "", "")).encode("latin-1") + body
    port = int(proxy.url.rpartition(":")[2])
    context = ssl.create_default_context(cadata=proxy.ca_pem.decode())
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(data)
        received = b""
        while piece := secure.recv(65536):
            received += piece
        return received


def test_long_urls_and_headers_pass(proxy: ApiProxy) -> None:
    names = ",".join(f"name{number}" for number in range(5000))  # about 44 kB
    assert _exchange(proxy, f"GET {CONFIG_MAPS}?labelSelector=a+in+({names}) HTTP/1.1").startswith(
        b"HTTP/1.1 200"
    )
    fields = ",".join(f'"field{number}":1' for number in range(5000)).encode()
    answer = _exchange(
        proxy, f"POST {CONFIG_MAPS} HTTP/1.1", body=b'{"metadata":{"name":"w"},' + fields + b"}"
    )
    assert answer.startswith(b"HTTP/1.1 201")


def test_header_bytes_that_are_no_utf8_pass_and_are_recorded_as_text(proxy: ApiProxy) -> None:
    mark = proxy.mark()
    assert b" 200 " in _exchange(proxy, f"GET {CONFIG_MAPS} HTTP/1.1", "User-Agent: \xff/1")[:20]
    (call,) = proxy.calls(since=mark)
    assert call.user_agent == "\ufffd/1"


def test_watch_over_http_1_0(proxy: ApiProxy) -> None:
    assert _exchange(proxy, f"GET {CONFIG_MAPS}?watch=1&timeoutSeconds=1 HTTP/1.0").startswith(
        b"HTTP/1.0 200"
    )


def test_broken_and_compressed_requests(proxy: ApiProxy) -> None:
    assert b" 400 " in _exchange(proxy, f"GET {CONFIG_MAPS} HTTP/9.9")[:20]
    assert (
        b" 400 " in _exchange(proxy, f"POST {CONFIG_MAPS} HTTP/1.1", "Content-Encoding: gzip", body=b"x")[:20]
    )
