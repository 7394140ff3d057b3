"""Connections to a server, and bodies in each of their forms."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dra_api import wire
from dra_api.schema import GVK

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
STREAM_SECONDS: Final = 15.0
_TYPELESS: Final = GVK("", "", "")


@dataclass(frozen=True)
class Endpoint:
    """Where a server listens and what authenticates an administrator."""

    host: str
    port: int
    ca_pem: bytes
    token: str

    def context(self) -> ssl.SSLContext:
        """A TLS context that trusts the server."""
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        context.check_hostname = False
        return context


@dataclass
class Answer:
    """What a server answered, decoded: `body` is a JSON value, or the list of events of a watch."""

    code: int
    content_type: str
    body: Any
    warnings: list[str] = field(default_factory=list)
    retry_after: str | None = None
    note: str = ""
    """What the player itself found wrong, such as protobuf that differs from JSON."""


class Connection:
    """One keep-alive connection."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._context = endpoint.context()
        self._http: http.client.HTTPSConnection | None = None
        self._streaming: list[http.client.HTTPSConnection] = []

    def open(self) -> http.client.HTTPSConnection:
        """A new connection to the same server."""
        return http.client.HTTPSConnection(
            self._endpoint.host, self._endpoint.port, context=self._context, timeout=STREAM_SECONDS
        )

    def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """A request and the whole answer; a connection that the server closed meanwhile is opened again."""
        for attempt in (0, 1):
            if self._http is None:
                self._http = self.open()
            try:
                _put(self._http, method, path, self._with_token(headers), body)
                response = self._http.getresponse()
                data = response.read()
            except (http.client.HTTPException, ConnectionError):
                self.close()
                if attempt:
                    raise
                continue
            if response.will_close:
                self.close()
            return response, data
        raise AssertionError("the loop above returns or raises")

    def stream(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        """A GET whose answer is read bit by bit, on a connection of its own."""
        connection = self.open()
        self._streaming.append(connection)
        _put(connection, "GET", path, self._with_token(headers), None)
        return connection.getresponse()

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._endpoint.token}", **headers}

    def end_streams(self) -> None:
        """Close the connections of all streams."""
        for connection in self._streaming:
            connection.close()
        self._streaming = []

    def close(self) -> None:
        """Close it; the next request opens it again."""
        if self._http is not None:
            self._http.close()
            self._http = None


def _put(
    connection: http.client.HTTPSConnection,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None,
) -> None:
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)


def merged(base: Any, change: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    result = dict(base) if isinstance(base, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def encoded(body: Any, form: str, duplicates: list[str]) -> bytes:
    if form == "protobuf":
        return wire.encode_object(body)
    if form == "yaml":
        return yaml.safe_dump(body, sort_keys=False, allow_unicode=True).encode()
    # Without spaces, as Go clients send it: a real server stores the text of opaque parameters as it came.
    text = compact(body)
    twice = "".join(f"{compact(name)}:{compact(body[name])}," for name in duplicates if name in body)
    return ("{" + twice + text[1:] if twice else text).encode()


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decoded(data: bytes, content_type: str) -> Any:
    """A body of an answer as a JSON value."""
    media_type = content_type.split(";")[0]
    if media_type == PROTOBUF:
        return wire.decode_object(data, _TYPELESS)
    if media_type == YAML:
        return yaml.load(data, _TextLoader)
    if media_type == JSON:
        return json.loads(data)
    return data.decode("utf-8", "replace")


class _TextLoader(yaml.SafeLoader):
    """YAML as JSON has it: times stay texts."""


_TextLoader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for key, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def split_events(data: bytes, content_type: str) -> tuple[list[tuple[str, Any]], bytes]:
    if content_type.startswith(PROTOBUF):
        frames, rest = wire.split_frames(data)
        return [wire.decode_watch_event(frame) for frame in frames], rest
    if content_type.startswith(YAML):
        *documents, rest = data.split(b"---\n")
        events = [yaml.load(document, _TextLoader) for document in documents if document.strip()]
        return [(event["type"], event["object"]) for event in events], (b"---\n" + rest if rest else b"")
    *lines, rest = data.split(b"\n")
    events = [json.loads(line) for line in lines if line.strip()]
    return [(event["type"], event["object"]) for event in events], rest


def difference(one: Any, other: Any, path: str = "") -> str:
    """The first place where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key, ...) != other.get(key, ...):
                return difference(one.get(key), other.get(key), f"{path}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine != theirs:
                return difference(mine, theirs, f"{path}[{index}]")
    return f"{json.dumps(one)[:200]} at {path}, JSON says {json.dumps(other)[:200]}"
