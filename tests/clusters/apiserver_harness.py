"""A served API and a plain HTTP client for the tests of the API server."""

from __future__ import annotations

import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

ADMIN = "admin-token"
BOB = "bob-token"
JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@dataclass
class Answer:
    """An HTTP answer."""

    code: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """One identity's connections to a server."""

    def __init__(self, server: ServerThread, token: str | None = ADMIN) -> None:
        self._server = server
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(server.ca_pem)
            file.flush()
            context = ssl.create_default_context(cafile=str(Path(file.name)))
        self._pool = urllib3.PoolManager(ssl_context=context, retries=False, timeout=20.0)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers["User-Agent"] = "tester/1.0"

    def close(self) -> None:
        self._pool.clear()

    def request(
        self, method: str, path: str, body: Any = None, kind: str | None = JSON, **headers: str
    ) -> Answer:
        """`body` is bytes, text or something to be sent as JSON; header names have _ for -."""
        sent = {**self._headers, **{key.replace("_", "-"): value for key, value in headers.items()}}
        if body is not None and not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        if body is not None and kind:
            sent["Content-Type"] = kind
        response = self._pool.request(
            method, self._server.url + path, body=body, headers=sent, redirect=False
        )
        return Answer(response.status, response.headers, response.data)

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Answer:
        return self.request("PUT", path, body, **headers)

    def patch(self, path: str, body: Any, kind: str = MERGE, **headers: str) -> Answer:
        return self.request("PATCH", path, body, kind, **headers)

    def delete(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.request("DELETE", path, body, **headers)

    def created(self, path: str, body: Any) -> Any:
        """POST that must succeed; returns the object."""
        answer = self.post(path, body)
        assert answer.code == 201, answer.body
        return answer.json

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Stream]:
        """A watch, open while the block runs."""
        sent = {**self._headers, **{key.replace("_", "-"): value for key, value in headers.items()}}
        response = self._pool.request("GET", self._server.url + path, headers=sent, preload_content=False)
        stream = Stream(response)
        try:
            yield stream
        finally:
            response.close()


class Stream:
    """The events of a watch."""

    def __init__(self, response: Any) -> None:
        self.code = response.status
        self.headers = response.headers
        self._response = response
        self._rest = b""

    def next(self) -> Any:
        """The next event; fails when the stream ends or stays silent for 20 s."""
        while b"\n" not in self._rest:
            piece = self._response.read1(65536)
            assert piece, f"the stream ended after {self._rest!r}"
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def names(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    def rest(self) -> bytes:
        """Everything until the stream ends."""
        data, self._rest = self._rest, b""
        while piece := self._response.read1(65536):
            data += piece
        return data


def tokens() -> StaticTokens:
    """An administrator and a user without rights."""
    return StaticTokens({ADMIN: User("admin", groups=(MASTERS,)), BOB: User("bob")})


def serve(**settings: Any) -> ServerThread:
    """A running server."""
    return ServerThread(ServerConfig(tokens=tokens(), **settings)).start()


@contextmanager
def connected(**settings: Any) -> Iterator[Http]:
    """An administrator's client of a server that runs while the block does."""
    server = serve(**settings)
    client = Http(server)
    try:
        yield client
    finally:
        client.close()
        server.stop()


def resource_slice(name: str = "", **spec: Any) -> dict[str, Any]:
    """A valid slice with one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name} if name else {"generateName": "s-"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
            **spec,
        },
    }


def claim(name: str) -> dict[str, Any]:
    """A valid claim of one device."""
    exactly = {"deviceClassName": "gpu.example.com"}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """A valid pod of one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "probe:1"}], **spec}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, "data": data}


def in_parallel(*functions: Any) -> None:
    """Run functions in threads and wait for all."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
