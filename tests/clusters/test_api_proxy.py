"""The API proxy with real sockets before a small TLS server."""

from __future__ import annotations

import http.client
import json
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_upstream import Upstream, connect, send

from clusters.proxies.api_calls import decode_body
from clusters.proxies.api_proxy import ApiProxy
from clusters.proxies.watch_frames import Frames
from dra_api import wire

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def proxy(upstream: Upstream) -> Iterator[ApiProxy]:
    with ApiProxy(upstream.url, upstream.certificates.ca_pem, identity="driver") as proxy:
        yield proxy


def test_request_and_answer_pass_unchanged(proxy: ApiProxy, upstream: Upstream) -> None:
    path = f"{SLICES}/a%2Fb?fieldManager=x%20y"
    status, headers, body = send(proxy, "PATCH", path, {"spec": {}}, headers={"Accept": "application/yaml"})
    assert status == 200
    assert headers["Audit-Id"] == "a1"
    assert json.loads(body) == {"path": path}
    method, raw_path, got, sent = upstream.requests[0]
    assert (method, raw_path, sent) == ("PATCH", path, b'{"spec": {}}')
    assert (got["Authorization"], got["Accept"], got["User-Agent"]) == (
        "Bearer secret-token",
        "application/yaml",
        "test/1",
    )


def test_calls_are_recorded_as_authorization_names_them(proxy: ApiProxy) -> None:
    before = proxy.mark()
    send(proxy, "POST", SLICES, {"metadata": {"generateName": "x-"}})
    (call,) = proxy.calls(since=before)
    assert (call.identity, call.user_agent, call.verb, call.group, call.version) == (
        "driver", "test/1", "create", "resource.k8s.io", "v1",
    )  # fmt: skip
    assert (call.resource, call.name, call.status, call.done) == ("resourceslices", "", 200, True)
    assert call.body == {"metadata": {"generateName": "x-"}}
    assert before <= call.monotonic <= time.monotonic()
    assert 0 < call.duration < 10
    assert "secret-token" not in repr(call) + str(call)
    assert proxy.calls(since=proxy.mark()) == []


def test_protobuf_bodies_are_decoded(proxy: ApiProxy) -> None:
    lease = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l"}, "spec": {}}
    connection = connect(proxy)
    path = "/apis/coordination.k8s.io/v1/namespaces/a/leases"
    connection.request("POST", path, wire.encode_object(lease), {"Content-Type": wire.MEDIA_TYPE})
    connection.getresponse().read()
    connection.close()
    body = proxy.calls()[0].body
    assert (body["kind"], body["metadata"]["name"]) == ("Lease", "l")


def test_bodies_that_cannot_be_read_are_none() -> None:
    assert decode_body(b"{", "application/json") is None
    assert decode_body(b"x", wire.MEDIA_TYPE) is None
    assert decode_body(b"", "application/json") is None
    assert decode_body(b"a: 1", "application/apply-patch+yaml") == {"a": 1}


def test_protobuf_watch_frames_are_kept_whole() -> None:
    frames = Frames("application/vnd.kubernetes.protobuf;stream=watch")
    event = frames.error_event({"kind": "Status", "apiVersion": "v1", "code": 410})
    assert frames.feed(event + event[:5]) == event
    assert frames.feed(event[5:-1]) == b""
    assert frames.feed(event[-1:]) == event
    assert wire.decode_watch_event(event[4:])[1]["code"] == 410


def test_each_identity_has_its_own_listener(proxy: ApiProxy) -> None:
    assert proxy.url_for("kubelet") != proxy.url
    send(proxy, "GET", "/version", identity="kubelet")
    send(proxy, "GET", "/api/v1/namespaces/a/pods/p/status", identity="driver")
    assert [call.verb for call in proxy.calls(identity="kubelet")] == ["get"]
    (call,) = proxy.calls(resource="pods", subresource="status", namespace="a", name="p", verbs=("get",))
    assert call.identity == "driver"
    assert proxy.calls(resource="pods", verbs=("list",)) == []


def test_bodies_with_credentials_are_not_kept(proxy: ApiProxy) -> None:
    send(proxy, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}})
    assert proxy.calls()[0].body is None


@pytest.mark.parametrize(
    ("method", "path", "status", "reason", "message"),
    [
        ("POST", SLICES, 409, "AlreadyExists", 'resourceslices.resource.k8s.io "new" already exists'),
        (
            "PUT",
            f"{SLICES}/s",
            409,
            "Conflict",
            'Operation cannot be fulfilled on resourceslices.resource.k8s.io "s": ',
        ),
        ("GET", SLICES, 410, "Expired", "The resourceVersion for the provided watch is too old."),
        (
            "POST",
            SLICES,
            422,
            "Invalid",
            'resourceslices.resource.k8s.io "new" is invalid: spec: Invalid value: ',
        ),
        ("GET", SLICES, 500, "InternalError", "Internal error occurred: "),
        ("GET", SLICES, 503, "ServiceUnavailable", "the server is unavailable"),
        ("GET", SLICES, 403, "Forbidden", "resourceslices.resource.k8s.io"),
    ],
)
def test_status_faults_answer_like_a_server(
    proxy: ApiProxy, upstream: Upstream, method: str, path: str, status: int, reason: str, message: str
) -> None:
    with proxy.fault(resource="resourceslices", status=status) as fault:
        got, headers, body = send(proxy, method, path, {"metadata": {"name": "new"}})
        assert send(proxy, "GET", "/api/v1/nodes/n")[0] == 200
    answer = json.loads(body)
    assert (got, answer["code"], answer["reason"], answer["status"]) == (status, status, reason, "Failure")
    assert answer["message"].startswith(message)
    assert headers["Content-Type"].startswith("application/json")
    assert fault.hits == 1
    assert [path for _, path, _, _ in upstream.requests] == ["/api/v1/nodes/n"]
    assert proxy.calls(status=status)[0].fault == f"answered {status}"
    assert send(proxy, method, path)[0] == 200


def test_too_many_requests_tells_when_to_come_back(proxy: ApiProxy) -> None:
    with proxy.fault(status=429, retry_after=7, times=1) as fault:
        status, headers, body = send(proxy, "GET", SLICES)
        assert (status, headers["Retry-After"]) == (429, "7")
        assert body == b"Too many requests, please try again later."
        assert send(proxy, "GET", SLICES)[0] == 200
    assert fault.hits == 1


def test_reason_and_message_of_a_fault_can_be_chosen(proxy: ApiProxy) -> None:
    with proxy.fault(status=422, message="because", verbs=("create",)):
        body = json.loads(send(proxy, "POST", SLICES, {})[2])
        assert send(proxy, "GET", SLICES)[0] == 200
    assert body["message"] == "because"


def test_delay_comes_before_the_answer(proxy: ApiProxy) -> None:
    with proxy.fault(delay=0.3) as fault:
        start = time.monotonic()
        assert send(proxy, "GET", SLICES)[0] == 200
        assert time.monotonic() - start >= 0.3
    assert fault.hits == 1


@pytest.mark.parametrize(("cut", "handled"), [("before", 0), ("after", 1)])
def test_cut_connections_give_no_answer(proxy: ApiProxy, upstream: Upstream, cut: Any, handled: int) -> None:
    with proxy.fault(cut=cut), pytest.raises((ConnectionError, http.client.HTTPException, ssl.SSLError)):
        send(proxy, "POST", SLICES, {})
    assert len(upstream.requests) == handled
    call = proxy.wait_for(lambda call: call.done, 5, "the cut call")
    assert call.fault == f"cut {cut} the server handled it"


def open_watch(
    proxy: ApiProxy, upstream: Upstream
) -> tuple[http.client.HTTPSConnection, http.client.HTTPResponse]:
    upstream.watch_open.clear()
    connection = connect(proxy)
    connection.request("GET", f"{SLICES}?watch=true", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert upstream.watch_open.wait(5)
    return connection, answer


def test_watch_events_pass_at_once(proxy: ApiProxy, upstream: Upstream) -> None:
    connection, answer = open_watch(proxy, upstream)
    for number in range(3):
        event = json.dumps({"type": "ADDED", "number": number}).encode() + b"\n"
        upstream.send(event)
        assert answer.readline() == event
    (call,) = proxy.calls(verbs=("watch",))
    assert (call.status, call.done) == (200, False)
    upstream.send(None)
    assert answer.read() == b""
    connection.close()
    proxy.wait_for(lambda call: call.verb == "watch" and call.done, 5, "the end of the watch")
    assert "Accept-Encoding" not in upstream.requests[0][2]


def test_client_that_leaves_ends_the_watch_upstream(proxy: ApiProxy, upstream: Upstream) -> None:
    connection, answer = open_watch(proxy, upstream)
    answer.close()
    connection.close()
    assert upstream.watch_ended.wait(5)


def test_open_watch_expires_between_events(proxy: ApiProxy, upstream: Upstream) -> None:
    connection, answer = open_watch(proxy, upstream)
    upstream.send(b'{"type":"ADDED"}\n{"type":"MOD')
    assert answer.readline() == b'{"type":"ADDED"}\n'
    assert proxy.expire_watches(resource="pods") == 0
    assert proxy.expire_watches(resource="resourceslices") == 1
    event = json.loads(answer.readline())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert answer.read() == b""
    connection.close()
    call = proxy.wait_for(lambda call: call.done, 5, "the end of the watch")
    assert call.fault == "watch expired"


def test_new_watch_is_cut_while_the_fault_lasts(proxy: ApiProxy, upstream: Upstream) -> None:
    with proxy.fault(watch="cut", times=1) as fault:
        connection, answer = open_watch(proxy, upstream)
        with pytest.raises((ConnectionError, http.client.HTTPException, ssl.SSLError)):
            assert answer.read() != b""
        connection.close()
        assert fault.hits == 1
        assert send(proxy, "GET", SLICES)[0] == 200
        connection, answer = open_watch(proxy, upstream)
        upstream.send(b"{}\n")
        assert answer.readline() == b"{}\n"
        connection.close()


def test_answers_of_unknown_length_pass(proxy: ApiProxy) -> None:
    assert send(proxy, "GET", "/api/v1/namespaces/a/pods/p/log")[2] == b"one\ntwo\n"
    assert proxy.calls()[0].status == 200


def test_head_has_no_body(proxy: ApiProxy) -> None:
    status, headers, body = send(proxy, "HEAD", "/version")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_dead_server_looks_dead(upstream: Upstream) -> None:
    closed = Upstream()
    url, ca = closed.url, closed.certificates.ca_pem
    closed.close()
    with ApiProxy(url, ca) as proxy:
        with pytest.raises((ConnectionError, http.client.HTTPException, ssl.SSLError)):
            send(proxy, "GET", "/version", identity="client")
        assert proxy.calls()[0].fault.startswith("no answer: ")


def test_waiting_ends_with_the_call_or_the_reason(proxy: ApiProxy) -> None:
    timer = threading.Timer(0.1, send, (proxy, "GET", "/api/v1/nodes/n"))
    timer.start()
    assert proxy.wait_for_call(resource="nodes", timeout=5).name == "n"
    timer.join()
    with pytest.raises(
        TimeoutError, match=r"the second node: not seen within 0\.05 s; last calls: .* get nodes n -> 200"
    ):
        proxy.wait_for(lambda call: call.name == "m", 0.05, "the second node")


def test_kubeconfig_is_private_and_leads_to_the_proxy(proxy: ApiProxy, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("old")
    path.chmod(0o644)
    proxy.write_kubeconfig(path, token="t", name="kubelet")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    assert document["clusters"][0]["cluster"]["server"] == proxy.url_for("kubelet")
    assert document["users"] == [{"name": "kubelet", "user": {"token": "t"}}]


def test_closed_proxy_refuses_control_and_keeps_its_log(upstream: Upstream) -> None:
    proxy = ApiProxy(upstream.url, upstream.certificates.ca_pem.decode())
    send(proxy, "GET", "/version", identity="client")
    proxy.close()
    proxy.close()
    assert len(proxy.calls()) == 1
    with pytest.raises(RuntimeError, match="closed"):
        proxy.url_for("other")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "a fault needs one of status, cut and watch, or a delay"),
        ({"status": 500, "cut": "before"}, "a fault needs one of"),
        ({"status": 418}, "no answer with status 418 can be made; possible: 401"),
    ],
)
def test_senseless_faults_are_refused(proxy: ApiProxy, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text), proxy.fault(**arguments):
        pass
