"""The API client against servers that answer byte for byte what a test says."""

from __future__ import annotations

import datetime
import email.utils
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver.sdk.api import Api, ApiFailure, Connection, failure_from
from driver.sdk.errors import ClaimError, SettingsError

Answer = bytes | Callable[[socket.socket], None]
CLAIM = {"metadata": {"name": "c", "namespace": "ns", "uid": "u"}}


class Server:
    """Plain HTTP; each request gets the next answer, then the last one for ever. `requests` are heads as text."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[str] = []
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        self._serving: list[threading.Thread] = []

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._serving.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    try:
                        data = connection.recv(65536)
                    except OSError:
                        return
                    if not data:
                        return
                    head += data
                self.requests.append(head.decode())
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if not isinstance(answer, bytes):
                    answer(connection)
                    return
                connection.sendall(answer)

    def cut(self) -> None:
        """Close all connections, as a server does that restarts."""
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self.cut()
        for thread in self._serving:
            thread.join()


def answer(body: Any, status: str = "200 OK", **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *lines, "", ""])
    return head.encode() + data


def status(code: int, name: str = "", **details: Any) -> dict[str, Any]:
    found = {"kind": "Status", "metadata": {}, "code": code, "reason": "NotFound", "message": "no"}
    return {**found, "details": {"name": name, **details}}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Server, Api]]]:
    servers: list[Server] = []
    apis: list[Api] = []

    def start(*answers: Answer, user: dict[str, Any] | None = None, **cluster: Any) -> tuple[Server, Api]:
        server = Server(*answers)
        servers.append(server)
        api = Api(kubeconfig(tmp_path, server.port, user or {"token": "t"}, **cluster), "driver/node")
        apis.append(api)
        return server, api

    yield start
    for api in apis:
        api._pool.clear()
    for server in servers:
        server.close()


def kubeconfig(folder: Path, port: int, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / f"config-{port}"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}", **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


def test_names_that_are_none_do_not_become_another_path(serve: Any) -> None:
    server, api = serve(answer(CLAIM))
    for namespace, name in (
        ("ns", "../../../secrets/x"),
        ("..", "c"),
        ("ns", ""),
        ("ns", "a%2fb"),
        ("ns", "c?x"),
    ):
        with pytest.raises(ApiFailure, match="is not the name of an object"):
            api.claim(namespace, name)
    assert server.requests == []
    assert api.claim("ns", "a.b-c") == CLAIM
    assert server.requests[0].startswith(
        "GET /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/a.b-c HTTP/1.1"
    )


@pytest.mark.parametrize(
    ("body", "gone"),
    [
        (status(404, "c"), True),
        (status(404, "other"), False),
        (b"404 page not found", False),
        ({"kind": "Status", "code": 404, "reason": "NotFound", "message": "no such resource"}, False),
    ],
)
def test_a_claim_is_gone_only_when_the_server_speaks_of_that_claim(
    serve: Any, tmp_path: Path, body: Any, gone: bool
) -> None:
    server, _ = serve(answer(body, "404 Not Found"))
    connection = Connection()
    api = connection.connect(kubeconfig(tmp_path, server.port, {"token": "t"}), "driver/node")
    if gone:
        assert connection.claim("ns", "c") is None
    else:
        with pytest.raises(ClaimError, match="retrieve claim ns/c: 404"):
            connection.claim("ns", "c")
    api._pool.clear()


def test_an_event_of_a_watch_is_read_when_it_comes_with_or_without_chunks(serve: Any) -> None:
    line = json.dumps({"type": "ADDED", "object": CLAIM}).encode() + b"\n"
    second, seen = threading.Event(), []

    def plain(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + line[:20])
        connection.sendall(line[20:])
        assert second.wait(10)
        connection.sendall(line)

    def chunked(connection: socket.socket) -> None:
        for part in (line[:9], line[9:]):
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if part == line[:9] else b""
            connection.sendall(head + b"%x\r\n%b\r\n" % (len(part), part))
        assert second.wait(10)
        connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(line), line))

    for answerer in (plain, chunked):
        second.clear()
        seen.clear()
        _, api = serve(answerer)
        for kind, item in api.watch_slices("", "1"):
            # The second event is only sent when the first one has been read.
            seen.append((kind, item))
            second.set()
        assert seen == [("ADDED", CLAIM)] * 2


def test_a_watch_that_is_cut_in_a_chunk_is_a_failure_and_not_an_end(serve: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    _, api = serve(lambda connection: connection.sendall(head + b"ff\r\n{"))
    with pytest.raises(ApiFailure, match="no answer") as failure:
        list(api.watch_slices("", "1"))
    assert failure.value.transient


def test_a_connection_of_a_server_that_has_restarted_is_not_used_again(serve: Any) -> None:
    server, api = serve(answer(CLAIM))
    api.claim("ns", "c")
    api.claim("ns", "c")
    assert len(server.connections) == 1
    server.cut()
    # The client must have a moment to hear of it.
    while not any(module_closed(connection) for connection in pooled(api)):
        time.sleep(0.001)
    assert api.claim("ns", "c") == CLAIM
    assert len(server.connections) == 2


def pooled(api: Api) -> list[socket.socket]:
    (pool,) = api._pool.pools._container.values()
    return [connection.sock for connection in pool.pool.queue if connection and connection.sock]


def module_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        connection.setblocking(True)


def test_a_silent_end_of_the_server_is_noticed_by_the_kernel(serve: Any) -> None:
    _, api = serve(answer(CLAIM))
    api.claim("ns", "c")
    (connection,) = pooled(api)
    idle, interval, count = (
        connection.getsockopt(socket.IPPROTO_TCP, option)
        for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    )
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert idle + interval * count <= 30


def test_a_redirect_is_not_followed_with_the_token(serve: Any) -> None:
    elsewhere, _ = serve(answer(CLAIM))
    _, api = serve(answer(b"", "302 Found", Location=f"http://127.0.0.1:{elsewhere.port}/"))
    with pytest.raises(ApiFailure, match="302"):
        api.claim("ns", "c")
    assert elsewhere.requests == []


def test_retry_after_may_be_a_date_and_is_not_believed_without_limit() -> None:
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=60)
    found = failure_from(503, "{}", email.utils.format_datetime(soon, usegmt=True)).retry_after
    # Dates have whole seconds.
    assert 55 < found <= 60
    for text in ("1e9", "inf", email.utils.format_datetime(soon.replace(year=2200), usegmt=True)):
        assert failure_from(503, "{}", text).retry_after == 600
    for text in ("-5", "nan", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Foo 2015"):
        assert failure_from(503, "{}", text).retry_after == 0


@pytest.mark.parametrize(
    "body",
    ['{"details": "x"}', '{"details": {"causes": {"a": 1}, "retryAfterSeconds": []}}', '{"details": {"causes": [7]}}',
     "[" * 100_000, "null"],
)  # fmt: skip
def test_an_answer_of_any_shape_is_only_a_failure(body: str) -> None:
    failure = failure_from(500, body)
    assert (failure.retry_after, failure.causes, failure.subject) == (0, (), "")


@pytest.mark.parametrize("content", [b"", b"one\ntwo-secret", b"\xff\xfe-secret"])
def test_a_broken_token_file_is_told_without_its_content(serve: Any, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    server, api = serve(answer(CLAIM), user={"tokenFile": str(file)})
    with pytest.raises(ApiFailure, match=r"no credentials: token file .* must hold one line") as failure:
        api.claim("ns", "c")
    assert failure.value.transient
    assert "secret" not in str(failure.value)
    file.write_text("good\n")
    api.claim("ns", "c")
    # While it is being replaced the last one serves.
    file.write_bytes(content)
    api.claim("ns", "c")
    assert ["authorization: bearer good" in head.lower() for head in server.requests] == [True, True]


def test_a_proxy_of_the_kubeconfig_is_used(serve: Any, tmp_path: Path) -> None:
    through, _ = serve(answer(CLAIM))
    _, api = serve(answer(b"{}"), **{"proxy-url": f"http://127.0.0.1:{through.port}"})
    assert api.claim("ns", "c") == CLAIM
    assert through.requests[0].startswith("GET http://127.0.0.1:")
    with pytest.raises(SettingsError, match="proxy socks5://host: must be an HTTP proxy"):
        Api(kubeconfig(tmp_path, 1, {}, **{"proxy-url": "socks5://me:password@host"}), "driver/node")


def test_the_name_in_the_certificate_may_differ_from_the_address(tmp_path: Path) -> None:
    names: list[str | None] = []

    def hello(_socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = hello

    def greet(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, pytest.raises(ssl.SSLError):
            context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        port = listener.getsockname()[1]
        config = kubeconfig(
            tmp_path, port, {}, **{"server": f"https://127.0.0.1:{port}", "tls-server-name": "kubernetes"}
        )
        with pytest.raises(ApiFailure, match="no answer"):
            Api(config, "driver/node").claim("ns", "c")
        thread.join()
    assert names == ["kubernetes"]


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        (
            {},
            {"server": "127.0.0.1:6443"},
            'server "127.0.0.1:6443" of context c: must be a URL that begins with https://',
        ),
        ({"as": "somebody", "token": "t"}, {}, "as: acting as somebody else is not supported"),
        ({"token": "two\nlines-secret"}, {}, "token: must be one line of printable ASCII characters"),
    ],
)
def test_settings_that_cannot_work_are_told_at_once(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as problem:
        Api(kubeconfig(tmp_path, 1, user, **cluster), "driver/node")
    assert message in str(problem.value)
    assert "secret" not in str(problem.value)


def test_a_token_file_wins_over_a_token(serve: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    server, api = serve(answer(CLAIM), user={"tokenFile": str(file), "token": "fixed"})
    api.claim("ns", "c")
    file.write_text("rotated")
    api.claim("ns", "c")
    assert ["bearer fixed" in head.lower() for head in server.requests] == [True, False]
