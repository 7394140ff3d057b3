"""Logs of pods, fetched from the kubelet of their node (api-machinery section 13)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from apiserver_harness import PODS, Http, connected, pod

from clusters import tls
from clusters.tls_listener import TlsListener

TOKEN = "api-server"


@dataclass
class FakeKubelet:
    """Answers /containerLogs with what a test says, and keeps what it was asked."""

    port: int = 0
    ca: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    status: int = 200
    text: bytes = b"one\ntwo\n"
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append((request.path, request.query_string, request.headers.get("Authorization", "")))
        if self.status != 200:
            return web.Response(status=self.status, text=self.text.decode())
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(self.text)
        if "follow" in request.query:
            await self.more.wait()
            await response.write(b"three\n")
        await response.write_eof()
        return response


class KubeletThread:
    def __init__(self) -> None:
        self.kubelet = FakeKubelet()
        self.loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def _run(self) -> None:
        self.loop.run_until_complete(self._serve())
        self.loop.close()

    async def _serve(self) -> None:
        certificates = tls.generate("127.0.0.1")
        self.kubelet.ca = certificates.ca_pem.decode()
        server = web.Server(self.kubelet.handle)
        listener = TlsListener(server, certificates.server_context())
        self.kubelet.port = listener.start("127.0.0.1", 0)
        self._ready.set()
        await self._stop.wait()
        listener.close()
        await server.shutdown(1)
        await listener.break_connections()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


@pytest.fixture(scope="module")
def kubelet_thread() -> Iterator[KubeletThread]:
    thread = KubeletThread()
    yield thread
    thread.stop()


@pytest.fixture
def kubelet(kubelet_thread: KubeletThread) -> FakeKubelet:
    found = kubelet_thread.kubelet
    found.asked.clear()
    found.status, found.text = 200, b"one\ntwo\n"
    return found


@pytest.fixture(scope="module")
def http(kubelet_thread: KubeletThread) -> Iterator[Http]:
    kubelet = kubelet_thread.kubelet
    with connected(kubelet_token=TOKEN, kubelet_ca=kubelet.ca) as client:
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        }
        client.created("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
        client.created("/api/v1/nodes", {"metadata": {"name": "silent"}})
        client.created(PODS, pod("one", nodeName="n"))
        several = [{"name": name, "image": "i"} for name in ("a", "b")]
        init = [{"name": "i", "image": "i"}]
        client.created(PODS, pod("several", nodeName="n", containers=several, initContainers=init))
        client.created(PODS, pod("waiting"))
        client.created(PODS, pod("lost", nodeName="silent"))
        yield client


def test_a_log_comes_from_the_kubelet(http: Http, kubelet: FakeKubelet) -> None:
    answer = http.get(f"{PODS}/one/log?tailLines=5&timestamps=true&sinceSeconds=3&limitBytes=9&previous=1")
    assert (answer.code, answer.body) == (200, b"one\ntwo\n")
    assert answer.headers["Content-Type"] == "text/plain"
    ((path, query, authorization),) = kubelet.asked
    assert path == "/containerLogs/default/one/a"
    assert set(query.split("&")) == {
        "previous=true", "timestamps=true", "sinceSeconds=3", "tailLines=5", "limitBytes=9",
    }  # fmt: skip
    assert authorization == f"Bearer {TOKEN}"


def test_a_followed_log_arrives_piece_by_piece(
    http: Http, kubelet_thread: KubeletThread, kubelet: FakeKubelet
) -> None:
    with http.stream(f"{PODS}/one/log?follow=true") as stream:
        assert stream._response.read1(100) == b"one\ntwo\n"
        kubelet_thread.loop.call_soon_threadsafe(kubelet.more.set)
        assert stream.rest() == b"three\n"


def test_containers_are_chosen_by_name(http: Http, kubelet: FakeKubelet) -> None:
    assert http.get(f"{PODS}/several/log?container=i").code == 200
    assert kubelet.asked[0][0] == "/containerLogs/default/several/i"
    refused = http.get(f"{PODS}/several/log").json
    assert (refused["code"], refused["message"]) == (
        400,
        "a container name must be specified for pod several, choose one of: [i a b]",
    )
    refused = http.get(f"{PODS}/several/log?container=x").json
    assert (refused["code"], refused["message"]) == (400, "container x is not valid for pod several")


def test_pods_without_a_node_have_an_empty_log(http: Http) -> None:
    answer = http.get(f"{PODS}/waiting/log")
    assert (answer.code, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("status", "code", "reason", "message"),
    [
        (400, 400, "BadRequest", "TEXT"),
        (404, 404, "NotFound", "the server could not find the requested resource ( pods/log one)"),
        (500, 500, "InternalError", "Internal error occurred: TEXT"),
        (
            503,
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request ( pods/log one)",
        ),
    ],
)
def test_refusals_of_the_kubelet(
    http: Http, kubelet: FakeKubelet, status: int, code: int, reason: str, message: str
) -> None:
    text = 'container "a" in pod "one" is waiting to start: ContainerCreating'
    kubelet.status, kubelet.text = status, text.encode()
    refused = http.get(f"{PODS}/one/log").json
    assert (refused["code"], refused["reason"]) == (code, reason)
    assert refused["message"] == message.replace("TEXT", text)


def test_unreachable_kubelets_are_named(http: Http) -> None:
    answer = http.get(f"{PODS}/lost/log").json
    assert (answer["code"], answer["message"]) == (
        500,
        "no preferred addresses found; known addresses: []",
    )
    assert http.get(f"{PODS}/missing/log").json["message"] == 'pods "missing" not found'


def test_a_kubelet_that_is_down_is_an_error_without_a_reason(http: Http) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    http.created(
        "/api/v1/nodes", {"metadata": {"name": "down"}, "status": {"addresses": addresses, **endpoint}}
    )
    http.created(PODS, pod("cut", nodeName="down"))
    answer = http.get(f"{PODS}/cut/log").json
    assert (answer["code"], answer.get("reason")) == (500, None)
    assert answer["message"] == (
        f'Get "https://127.0.0.1:{port}/containerLogs/default/cut/a": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    )


def test_options_are_judged(http: Http) -> None:
    refused = http.get(f"{PODS}/one/log?tailLines=-1&sinceSeconds=0").json
    assert refused["code"] == 422
    assert refused["message"] == (
        'PodLogOptions "one" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, '
        "sinceSeconds: Invalid value: 0: must be greater than 0]"
    )
    refused = http.get(f"{PODS}/one/log?tailLines=x").json
    assert refused["message"] == 'strconv.ParseInt: parsing "x": invalid syntax'


def test_connections_into_containers_are_refused_with_a_reason(http: Http) -> None:
    for what in ("exec", "attach", "portforward"):
        refused = http.post(f"{PODS}/one/{what}?command=ls", None).json
        assert refused["code"] == 400
        assert refused["message"].startswith(f"pods/{what} is not available: ")


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def evict(http: Http, name: str) -> dict[str, object]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    answer = http.post(f"{PODS}/{name}/eviction", body).json
    assert isinstance(answer, dict)
    return answer


def running(http: Http, name: str, label: str) -> None:
    body = pod(name, nodeName="n")
    body["metadata"]["labels"] = {"app": label}
    http.created(PODS, body)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert http.patch(f"{PODS}/{name}/status", {"status": status}).code == 200


def budget(http: Http, name: str, label: str, allowed: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": label}}}
    http.created(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
    }
    assert http.patch(f"{BUDGETS}/{name}/status", {"status": status}).code == 200


def test_a_budget_stops_evictions(http: Http) -> None:
    running(http, "guarded", "guarded")
    budget(http, "tight", "guarded", 0)
    refused = evict(http, "guarded")
    assert (refused["code"], refused["reason"]) == (429, "TooManyRequests")
    assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget tight needs 1 healthy pods and has 1 currently",
    }
    assert refused["details"] == {"causes": [cause]}
    assert "deletionTimestamp" not in http.get(f"{PODS}/guarded").json["metadata"]


def test_an_eviction_uses_up_the_budget_and_marks_the_pod(http: Http) -> None:
    running(http, "spare", "spare")
    budget(http, "loose", "spare", 1)
    assert evict(http, "spare")["status"] == "Success"
    gone = http.get(f"{PODS}/spare").json
    assert "deletionTimestamp" in gone["metadata"]
    condition = gone["status"]["conditions"][-1]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    status = http.get(f"{BUDGETS}/loose").json["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["spare"]
