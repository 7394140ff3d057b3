"""Requests that no honest client sends: each gets a 4xx, and the server's log stays empty."""

from __future__ import annotations

import base64
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from apiserver_harness import (
    ADMIN,
    APPLY,
    CLAIMS,
    CONFIG_MAPS,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Http,
    claim,
    config_map,
    serve,
)

from clusters.embedded.apiserver.thread import ServerThread

YAML = "application/yaml"


@pytest.fixture(scope="module")
def server() -> Iterator[ServerThread]:
    running = serve()
    yield running
    running.stop()


@pytest.fixture
def http(server: ServerThread, caplog: pytest.LogCaptureFixture) -> Iterator[Http]:
    client = Http(server)
    with caplog.at_level(logging.WARNING):
        yield client
    client.close()
    assert caplog.records == []


def _raw(server: ServerThread, *pieces: bytes) -> bytes:
    """Send pieces one by one and read until the server ends the connection or has answered."""
    context = ssl.create_default_context(cadata=server.ca_pem.decode())
    port = int(server.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        for piece in pieces:
            secure.sendall(piece)
        received = b""
        while piece := secure.recv(65536):
            received += piece
        return received


def _head(line: str, *lines: str) -> bytes:
    fixed = ("Host: x", f"Authorization: Bearer {ADMIN}", "Connection: close")
    return "\r\n".join((line, *fixed, *lines, "", "")).encode("latin-1")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01garbage\r\n\r\n",
        b"GET api/v1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api HTTP/1.1\r\n\r\n",
        b"GET /version HTTP/9.9\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        _head("GET /api HTTP/1.1", "X: a\x00b"),
        _head(f"POST {CONFIG_MAPS} HTTP/1.1", "Content-Length: -1"),
        _head(f"POST {CONFIG_MAPS} HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked")
        + b"0\r\n\r\n",
    ],
)
def test_broken_http(http: Http, server: ServerThread, data: bytes) -> None:
    assert _raw(server, data).split(b" ", 2)[1] == b"400"


def test_a_body_that_breaks_off_in_a_chunk(http: Http, server: ServerThread) -> None:
    head = _head(f"POST {CONFIG_MAPS} HTTP/1.1", "Transfer-Encoding: chunked")
    # In one write the parser meets the fault before the request is handled.
    assert b" 400 " in _raw(server, head + b"2\r\n{}\r\nZZ\r\n")[:20]


def test_compressed_bodies_are_read_as_they_are(http: Http) -> None:
    for encoding in ("gzip", "deflate", "br"):
        answer = http.post(CONFIG_MAPS, b"\x1f\x8b hello", Content_Encoding=encoding)
        assert answer.code == 400
        assert "couldn't get version/kind; json parse error" in answer.json["message"]


def test_watch_over_http_1_0(http: Http, server: ServerThread) -> None:
    with_one = http.created(CONFIG_MAPS, config_map("old-http"))
    received = _raw(server, _head(f"GET {CONFIG_MAPS}?watch=1&timeoutSeconds=1 HTTP/1.0"))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert json.loads(body.splitlines()[0])["object"]["metadata"] == with_one["metadata"]


def test_headers_that_are_no_utf8(http: Http, server: ServerThread) -> None:
    assert (
        b" 401 " in _raw(server, b"GET /api HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n")[:20]
    )
    answer = _raw(server, _head("GET /api/v1/pods HTTP/1.1", "Impersonate-User: \xff"))
    assert b" 403 " in answer[:20]
    assert 'User \\"\ufffd\\" cannot list'.encode() in answer
    body = json.dumps(config_map("agent", a="b"))
    answer = _raw(
        server,
        _head(f"POST {CONFIG_MAPS} HTTP/1.1", "User-Agent: \xff\tx/1", f"Content-Length: {len(body)}"),
        body.encode(),
    )
    assert '"manager":"\ufffdx"'.encode() in answer


def test_aliases_cannot_multiply_a_document(http: Http) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    bomb = "\n".join(lines)
    for answer in (
        http.request("POST", CONFIG_MAPS, bomb, YAML),
        http.patch(f"{CONFIG_MAPS}/bomb?fieldManager=a", bomb, APPLY),
    ):
        assert answer.code == 400
        assert "yaml: document contains excessive aliasing" in answer.json["message"]


def test_a_usual_number_of_aliases_is_fine(http: Http) -> None:
    values = "\n".join(f"  k{i}: *v" for i in range(2000))
    assert (
        http.request(
            "POST", CONFIG_MAPS, f"x: &v text\nmetadata: {{name: aliases}}\ndata:\n{values}", YAML
        ).code
        == 201
    )


def _nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def _with_parameters(name: str, parameters: bytes) -> bytes:
    body = claim(name)
    body["spec"]["devices"]["config"] = [{"opaque": {"driver": "d.example.com", "parameters": "HERE"}}]
    return json.dumps(body).encode().replace(b'"HERE"', parameters)


@pytest.mark.parametrize("levels", [300, 600, 900, 5000, 100_000])
def test_deep_documents_are_refused(http: Http, levels: int) -> None:
    http.post(CONFIG_MAPS, config_map("deep"))
    deep, one = _nested(levels), f"{CONFIG_MAPS}/deep"
    answers = [http.post(CLAIMS, _with_parameters("deep", deep))]
    answers.append(http.request("POST", CLAIMS, _with_parameters("deep", deep), YAML))
    answers.append(http.patch(f"{one}?fieldManager=a", deep, APPLY))
    if levels >= 900:  # less is too deep for nobody: an unknown field is dropped
        answers += [http.patch(one, deep, MERGE), http.patch(one, deep, STRATEGIC)]
    fields = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    body = json.dumps({"metadata": {"name": "deep", "managedFields": [{**fields, "fieldsV1": "HERE"}]}})
    answers.append(http.put(one, body.encode().replace(b'"HERE"', deep)))
    assert {answer.code for answer in answers} <= {400, 422}


def test_what_is_kept_can_be_read_in_every_form(http: Http) -> None:
    assert http.post(CLAIMS, _with_parameters("nested", _nested(200))).code == 201
    for accept in (JSON, YAML):
        assert http.get(f"{CLAIMS}/nested", Accept=accept).code == 200
    assert http.patch(f"{CLAIMS}/nested", {"metadata": {"labels": {"a": "b"}}}).code == 200


def test_copies_of_copies_are_limited(http: Http) -> None:
    http.created(CONFIG_MAPS, config_map("copies"))
    text: dict[str, Any] = {"op": "add", "path": "/x", "value": {"a": "y" * 1000}}
    # Each copy doubles: 1 kB, 2 kB, ... the sum passes 3 MiB at the 12th.
    copies = [{"op": "copy", "from": "/x", "path": f"/x/{number}"} for number in range(30)]
    assert http.patch(f"{CONFIG_MAPS}/copies", [text, *copies[:8]], JSON_PATCH).code == 200
    answer = http.patch(f"{CONFIG_MAPS}/copies", [text, *copies], JSON_PATCH)
    assert (answer.code, answer.json["reason"]) == (422, "Invalid")


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 25, "1_0", "\u0661", "0x1"])
def test_odd_numbers(http: Http, number: str) -> None:
    assert http.get(f"{CONFIG_MAPS}?limit={quote(number)}").code == 400
    assert http.get(f"{CONFIG_MAPS}?resourceVersion={quote(number)}").code == 400
    # 25 digits are a float in YAML, which is no text either.
    body = f"metadata: {{name: odd}}\ndata: {{a: {'9' * 5000}}}"
    assert http.request("POST", CONFIG_MAPS, body, YAML).code == 400
    http.post(CONFIG_MAPS, config_map("odd"))
    answer = http.put(f"{CONFIG_MAPS}/odd", {"metadata": {"name": "odd", "resourceVersion": number}})
    assert (answer.code, answer.json.get("reason")) == (500, None)


def test_warnings_are_cut_to_what_clients_can_read(http: Http) -> None:
    unknown = {f"field{number:04}": 1 for number in range(5000)}
    header = http.post(CONFIG_MAPS, {**config_map("warned"), **unknown}).headers["Warning"]
    # `unknown field "field0000"` has 25 characters: 163 of them have 4075, the 164th passes 4096.
    assert header.count("299 - ") == 164
    long = http.post(CONFIG_MAPS, {**config_map("long"), "x" * 5000: 1}).headers["Warning"]
    assert long == '299 - "unknown field \\"' + "x" * 241 + '"'


def test_bad_continue_tokens(http: Http) -> None:
    for token in ("zzz", "e30", "W10", "!", quote(base64.urlsafe_b64encode(b"[" * 5000).decode())):
        answer = http.get(f"{CONFIG_MAPS}?limit=1&continue={token}")
        assert answer.code == 400
        assert answer.json["message"].startswith("invalid continue token: continue key is not valid: ")


def test_key_order_survives_updates(http: Http) -> None:
    created = http.created(CONFIG_MAPS, config_map("ordered", a="b"))
    body = {"data": {"a": "c"}, "metadata": {"labels": {"x": "y"}, "name": "ordered"}}
    replaced = http.put(f"{CONFIG_MAPS}/ordered", body).json
    assert list(replaced) == list(created) == ["kind", "apiVersion", "metadata", "data"]
    assert list(replaced["metadata"])[:6] == [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "labels",
    ]
