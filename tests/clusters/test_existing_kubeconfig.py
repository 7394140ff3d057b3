"""The credentials of kubeconfigs, against a server that writes down how it was asked."""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.client import UNTRUSTED, ClientError
from clusters.existing import kubeconfig
from clusters.interface import ClusterError
from clusters.tls import Authority, Certificates


@dataclass
class Asked:
    """One request: its path as sent, the Authorization header, and the name in the client's certificate."""

    path: str
    authorization: str
    subject: str


@dataclass
class Server:
    """An HTTPS server of a cluster; answers every request with an empty list."""

    authority: Authority
    certificates: Certificates
    url: str
    asked: list[Asked] = field(default_factory=list)


def _serve(asked: list[Asked], context: ssl.SSLContext | None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection: Any = self.connection
            certificate = connection.getpeercert() if context is not None else {}
            names = dict(pair for part in (certificate or {}).get("subject", ()) for pair in part)
            asked.append(Asked(self.path, self.headers.get("Authorization", ""), names.get("commonName", "")))
            body = json.dumps({"items": []}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


@pytest.fixture
def server() -> Iterator[Server]:
    authority = Authority()
    certificates = authority.server("api", "127.0.0.1", "api.example.com")
    context = certificates.server_context()
    context.load_verify_locations(cadata=certificates.ca_pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    found = Server(authority, certificates, "")
    running = _serve(found.asked, context)
    found.url = f"https://127.0.0.1:{running.server_address[1]}"
    yield found
    running.shutdown()
    running.server_close()


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "mine",
        "contexts": [{"name": "mine", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        **more,
    }
    path.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    return path


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def trusting(server: Server, **more: Any) -> dict[str, Any]:
    return {"server": server.url, "certificate-authority-data": encoded(server.certificates.ca_pem), **more}


def ask(path: Path, context: str = "") -> None:
    client = kubeconfig.load(path, context).client()
    try:
        assert client.list("v1", "nodes") == []
    finally:
        client.close()


def test_a_token_is_sent(server: Server, tmp_path: Path) -> None:
    ask(write(tmp_path / "k", trusting(server), {"token": "abc"}))
    assert server.asked == [Asked("/api/v1/nodes", "Bearer abc", "")]


def test_a_token_file_is_read_anew_and_kept_while_it_is_away(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    # Relative paths are meant from the kubeconfig's folder.
    connection = kubeconfig.load(write(tmp_path / "k", trusting(server), {"tokenFile": "token"}))
    client = connection.client()
    client.list("v1", "nodes")
    file.write_text("two\n")
    client.list("v1", "nodes")
    file.unlink()
    client.list("v1", "nodes")
    client.close()
    assert [one.authorization for one in server.asked] == ["Bearer one", "Bearer two", "Bearer two"]


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_is_shown_inline_and_from_files(
    server: Server, tmp_path: Path, inline: bool
) -> None:
    own = server.authority.client("jane")
    user: dict[str, Any]
    if inline:
        user = {
            "client-certificate-data": encoded(own.certificate_pem),
            "client-key-data": encoded(own.key_pem),
        }
    else:
        (tmp_path / "cert.pem").write_bytes(own.certificate_pem)
        (tmp_path / "key.pem").write_bytes(own.key_pem)
        user = {"client-certificate": "cert.pem", "client-key": str(tmp_path / "key.pem")}
    ask(write(tmp_path / "k", trusting(server), user))
    assert server.asked == [Asked("/api/v1/nodes", "", "jane")]


def test_a_plugin_gives_the_token(server: Server, tmp_path: Path) -> None:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "of-plugin"},
    }
    script = tmp_path / "plugin.py"
    script.write_text(f"print({json.dumps(credential)!r})")
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
    # Another context than the current one, which has no user.
    contexts = [
        {"name": "mine", "context": {"cluster": "c", "user": "nobody"}},
        {"name": "other", "context": {"cluster": "c", "user": "u"}},
    ]
    ask(write(tmp_path / "k", trusting(server), {"exec": plugin}, contexts=contexts), "other")
    assert [one.authorization for one in server.asked] == ["Bearer of-plugin"]


def test_a_server_with_a_path_is_asked_below_it(server: Server, tmp_path: Path) -> None:
    cluster = trusting(server) | {"server": f"{server.url}/k8s/clusters/c-12/"}
    ask(write(tmp_path / "k", cluster, {"token": "abc"}))
    assert [one.path for one in server.asked] == ["/k8s/clusters/c-12/api/v1/nodes"]


def test_the_name_in_the_certificate_can_be_another_than_the_address(server: Server, tmp_path: Path) -> None:
    ask(write(tmp_path / "good", trusting(server, **{"tls-server-name": "api.example.com"}), {}))
    bad = write(tmp_path / "bad", trusting(server, **{"tls-server-name": "other.example.com"}), {})
    with pytest.raises(ClientError) as error:
        ask(bad)
    assert error.value.reason == UNTRUSTED


def test_who_does_not_want_to_look_at_certificates_need_not(server: Server, tmp_path: Path) -> None:
    untrusted = write(tmp_path / "k", {"server": server.url}, {"token": "abc"})
    with pytest.raises(ClientError) as error:
        ask(untrusted)
    assert error.value.reason == UNTRUSTED
    blind = write(tmp_path / "b", {"server": server.url, "insecure-skip-tls-verify": True}, {"token": "abc"})
    ask(blind)
    assert [one.authorization for one in server.asked] == ["Bearer abc"]


def test_a_proxy_is_gone_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []
    running = _serve(asked, None)
    url = f"http://127.0.0.1:{running.server_address[1]}"
    far = {"server": "http://api.far.example.com"}
    try:
        ask(write(tmp_path / "given", {**far, "proxy-url": url}, {"token": "abc"}))
        monkeypatch.setenv("HTTP_PROXY", url)
        ask(write(tmp_path / "variable", far, {"token": "def"}))
    finally:
        running.shutdown()
        running.server_close()
    path = "http://api.far.example.com/api/v1/nodes"
    assert asked == [Asked(path, "Bearer abc", ""), Asked(path, "Bearer def", "")]


CLUSTER: dict[str, Any] = {"server": "https://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("cluster", "user", "more", "text"),
    [
        (
            CLUSTER,
            {},
            {"current-context": None},
            "it has no current-context; choose one with --context: mine",
        ),
        (
            CLUSTER,
            {},
            {"current-context": "min"},
            'current-context "min": no such context; did you mean "mine"?; there is mine',
        ),
        (CLUSTER, {}, {"clusters": []}, 'no entry "c" in clusters'),
        (CLUSTER, {}, {"users": None}, 'no entry "u" in users'),
        (
            {"server": "api.example.com"},
            {},
            {},
            'server "api.example.com" of context mine: must be a URL that begins with https://',
        ),
        (
            CLUSTER,
            {"as": "jane"},
            {},
            "as: acting as somebody else is not supported; give that account's own credentials",
        ),
        (
            {**CLUSTER, "proxy-url": "socks5://me:secret@proxy:1080"},
            {},
            {},
            "proxy socks5://proxy: must be an HTTP proxy (http:// or https://); others are not supported",
        ),
        (CLUSTER, {"token": "two\nlines"}, {}, "token: must be one line of printable ASCII characters"),
        (CLUSTER, {"tokenFile": "none"}, {}, "token file FOLDER/none: No such file or directory"),
        (CLUSTER, {"client-certificate": "c"}, {}, "client-certificate FOLDER/c: No such file or directory"),
        (
            CLUSTER,
            {"client-certificate-data": encoded(b"x")},
            {},
            "the user has a client certificate but no client-key",
        ),
        (
            {**CLUSTER, "certificate-authority": "ca.crt"},
            {},
            {},
            "certificate-authority: no file FOLDER/ca.crt",
        ),
        (
            {**CLUSTER, "certificate-authority-data": "%"},
            {},
            {},
            "certificate-authority-data: not base64: Only base64 data is allowed",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(
    cluster: dict[str, Any], user: dict[str, Any], more: dict[str, Any], text: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "k", cluster, user, **more)
    with pytest.raises(ClusterError) as error:
        kubeconfig.load(path)
    assert str(error.value) == f"--kubeconfig {path}: {text.replace('FOLDER', str(tmp_path))}"


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "no-such-plugin",
                    "args": [],
                }
            },
            "no-such-plugin",
        ),
        (
            {"client-certificate-data": encoded(b"x"), "client-key-data": encoded(b"y")},
            "not a pair of PEM texts",
        ),
    ],
)
def test_credentials_that_do_not_work_are_told_in_one_line(
    user: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError) as error:
        kubeconfig.load(write(tmp_path / "k", CLUSTER, user))
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "no such file"),
        ("a: [", "not valid YAML"),
        ("- a\n", "not a kubeconfig"),
        ("kind: Pod\n", "not a kubeconfig"),
    ],
)
def test_files_that_are_no_kubeconfigs_are_refused(content: str | None, text: str, tmp_path: Path) -> None:
    path = tmp_path / "k"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClusterError) as error:
        kubeconfig.load(path)
    assert str(error.value).startswith(f"--kubeconfig {path}: ")
    assert text in str(error.value)
