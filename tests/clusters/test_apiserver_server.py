"""Start, stop and restart of the API server, and slow clients."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
import tempfile
import threading
import time
from pathlib import Path

import pytest
from apiserver_harness import ADMIN, CONFIG_MAPS, Http, config_map, serve, tokens

from clusters.client import closing_sockets
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.server import ListenError
from clusters.embedded.apiserver.thread import ServerThread


def test_starts_and_stops_quickly() -> None:
    server = ServerThread(ServerConfig(tokens=tokens()))
    # What it costs, not how long it takes: that depends on what else the machine does.
    began = time.process_time()
    server.start()
    assert time.process_time() - began < 0.5
    server.stop()
    server.stop()


def test_taken_port_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = ServerThread(ServerConfig(port=port))
        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: .*choose another port"):
            server.start()
    server.stop()


def test_stop_ends_open_watches_cleanly() -> None:
    server = serve()
    http = Http(server)
    received: list[bytes] = []
    with http.stream(f"{CONFIG_MAPS}?watch=1") as stream:
        reader = threading.Thread(target=lambda: received.append(stream.rest()))
        reader.start()
        began = time.monotonic()
        server.stop()
        reader.join(5)
        assert time.monotonic() - began < 8, "the end of TLS is not waited for, which takes 30 s"
    assert received == [b""], "the stream ends with its last chunk, not with a broken connection"
    http.close()


def test_stop_does_not_wait_for_requests_that_hang() -> None:
    server = serve()
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    port = int(server.url.rpartition(":")[2])
    head = f"Host: x\r\nAuthorization: Bearer {ADMIN}\r\n"
    half_a_body = f"POST {CONFIG_MAPS} HTTP/1.1\r\n{head}Content-Length: 9\r\n\r\n{{"
    future = f"GET {CONFIG_MAPS}?resourceVersion=99999 HTTP/1.1\r\n{head}\r\n"
    silent = socket.create_connection(("127.0.0.1", port))
    with silent, contextlib.ExitStack() as stack:
        for text in (half_a_body, future, "GET /api", ""):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            secure = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            secure.sendall(text.encode())
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 8, "the end of TLS is not waited for, which takes 30 s"


def test_restart_keeps_objects_address_and_certificate() -> None:
    server = serve()
    http = Http(server)
    stored = http.created(CONFIG_MAPS, config_map("kept"))
    url, ca_pem = server.url, server.ca_pem
    server.stop()
    server.start()
    assert (server.url, server.ca_pem) == (url, ca_pem)
    assert http.get(f"{CONFIG_MAPS}/kept").json == stored
    since = stored["metadata"]["resourceVersion"]
    http.created(CONFIG_MAPS, config_map("later"))
    with http.stream(f"{CONFIG_MAPS}?watch=1&resourceVersion={since}") as stream:
        assert stream.names(1) == [("ADDED", "later")]
    http.close()
    server.stop()


def test_slow_watchers_are_cut_off_and_do_not_slow_the_server() -> None:
    server = serve(watch_queue=5)
    http = Http(server)
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    port = int(server.url.rpartition(":")[2])
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    plain.connect(("127.0.0.1", port))
    with plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as slow:
        slow.sendall(
            f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode()
        )
        assert slow.recv(12) == b"HTTP/1.1 200"
        # Far more than socket buffers and the queue hold together.
        for number in range(30):
            http.created(CONFIG_MAPS, config_map(f"m{number}", a="x" * 500_000))
        slow.settimeout(10)
        received = 0
        try:
            while piece := slow.recv(1 << 20):
                received += len(piece)
        except (ConnectionError, ssl.SSLError):
            pass
        assert received < 30 * 500_000
    http.close()
    server.stop()


def test_plain_http_does_not_harm_the_server() -> None:
    server = serve()
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        plain.settimeout(5)
        while plain.recv(1024):
            pass
    http = Http(server)
    assert http.get("/healthz").code == 200
    http.close()
    server.stop()


def test_certificate_names_the_host() -> None:
    server = serve()
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        Path(file.name).write_bytes(server.ca_pem)
        context = ssl.create_default_context(cafile=file.name)
    # What Python 3.13 and other clients demand by default.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    port = int(server.url.rpartition(":")[2])
    for name in ("127.0.0.1", "localhost", "kubernetes.default.svc"):
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            assert secure.version() == "TLSv1.3"
    server.stop()


def test_a_client_leaves_no_socket_open_when_its_server_ends_before_tls_begins() -> None:
    context = closing_sockets(ssl.create_default_context())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        plain = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        # Closed with a reset.
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        number = plain.fileno()
        with pytest.raises(ConnectionResetError):
            context.wrap_socket(plain, server_hostname="localhost")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
