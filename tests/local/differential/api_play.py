"""Plays one sequence of operations against one API server and keeps what it answered.

An operation is a plain dict, so that a failing sequence can be printed, stored and played again:

* `id` (number), `op` (its kind for the counts), `method`, `path`, `query`, `headers`;
* `body`: a JSON value or None; `form`: how it is sent (json, yaml, protobuf or the media type of a patch);
* `duplicates`: names of top-level fields that are sent twice; `raw`: text to send instead of `body`;
* `base`: the id of an operation whose answer is the body, changed by `body` as a JSON merge patch;
* `watch`: the end of a stream (see `Player.watch`); such an operation is answered at the end of the sequence;
* `fresh`: the answer may come from a cache, so a consistent read of this path goes first.

Texts may hold references to earlier answers of the same server: `${rv:ID}`, `${uid:ID}`, `${name:ID}`,
`${continue:ID}`, `${listrv:ID}`. Where an answer has no such value, something stands in
that fits nothing; without a page to continue from, a list begins anew.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import ssl
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dra_api import wire
from dra_api.schema import GVK

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
FORMS: Final = {"json": JSON, "yaml": YAML, "protobuf": PROTOBUF}
MARK: Final = "differential/end"
_REFERENCE: Final = re.compile(r"\$\{(rv|uid|name|continue|listrv):(\d+)\}")
_STAND_INS: Final = {"rv": "1", "uid": "no-such-uid", "name": "no-such-name", "continue": "", "listrv": "1"}
_STREAM_SECONDS: Final = 15.0
_TYPELESS: Final = GVK("", "", "")

Operation = dict[str, Any]


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

    def open(self) -> http.client.HTTPSConnection:
        """A new connection to the same server."""
        return http.client.HTTPSConnection(
            self._endpoint.host, self._endpoint.port, context=self._context, timeout=_STREAM_SECONDS
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
        _put(connection, "GET", path, self._with_token(headers), None)
        return connection.getresponse()

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._endpoint.token}", **headers}

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


def _object_of(path: str) -> str:
    """The path of the whole object, below its group and version."""
    parts = path.removesuffix("/status").split("/")
    return "/".join(parts[4 if parts[1] == "apis" else 3 :])


def _text(body: Any, form: str, duplicates: list[str]) -> bytes:
    if form == "protobuf":
        return wire.encode_object(body)
    if form == "yaml":
        return yaml.safe_dump(body, sort_keys=False, allow_unicode=True).encode()
    # Without spaces, as Go clients send it: a real server stores the text of opaque parameters as it came.
    text = _compact(body)
    twice = "".join(f"{_compact(name)}:{_compact(body[name])}," for name in duplicates if name in body)
    return ("{" + twice + text[1:] if twice else text).encode()


def _compact(value: Any) -> str:
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


class Player:
    """Plays sequences against one server, one after the other."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._connection = Connection(endpoint)
        self._memory: dict[str, dict[int, str]] = {}
        self._bodies: dict[int, Any] = {}
        self._latest: dict[str, Any] = {}
        self._streams: list[tuple[Operation, http.client.HTTPResponse]] = []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def play(self, operations: list[Operation]) -> dict[int, Answer]:
        """The answers by operation id. Watches are read to their end last."""
        self._memory = {name: {} for name in _STAND_INS}
        self._bodies, self._latest, self._streams = {}, {}, []
        answers: dict[int, Answer] = {}
        try:
            for operation in operations:
                answer = self._one(operation)
                if answer is not None:
                    answers[operation["id"]] = answer
            for operation, response in self._streams:
                answers[operation["id"]] = self._read_stream(operation, response)
        finally:
            for _, response in self._streams:
                response.close()
        return answers

    def request(self, method: str, path: str, body: Any = None, media_type: str = JSON) -> tuple[int, Any]:
        """A plain request outside of a sequence; returns code and body."""
        data = None if body is None else _compact(body).encode()
        headers = {"Content-Type": media_type} if data is not None else {}
        response, got = self._connection.send(method, path, headers, data)
        return response.status, decoded(got, response.headers.get("Content-Type", ""))

    def _one(self, operation: Operation) -> Answer | None:
        if operation.get("fresh") or self._undated(operation):
            self._connection.send("GET", operation["path"].partition("?")[0], {}, None)
        path, headers, body = self._rendered(operation)
        if "watch" in operation:
            response = self._connection.stream(path, headers)
            if response.status == 200:
                self._streams.append((operation, response))
                return None
            return self._answer(operation, response, response.read())
        response, data = self._connection.send(operation["method"], path, headers, body)
        answer = self._answer(operation, response, data)
        if operation.get("both_forms") and response.status == 200:
            answer.note = self._form_note(path, headers, answer)
        return answer

    def _undated(self, operation: Operation) -> bool:
        """Whether a read names the revision of an answer that had none."""
        text = operation.get("query", {}).get("resourceVersion", "")
        match = _REFERENCE.fullmatch(text)
        return match is not None and int(match[2]) not in self._memory[match[1]]

    def _form_note(self, path: str, headers: dict[str, str], answer: Answer) -> str:
        """Whether the same read in JSON says the same as the one in protobuf."""
        plain = {**headers, "Accept": JSON}
        _, data = self._connection.send("GET", path, plain, None)
        seen = json.loads(data)
        if seen == answer.body:
            return ""
        return f"protobuf says {_difference(answer.body, seen)}"

    def _rendered(self, operation: Operation) -> tuple[str, dict[str, str], bytes | None]:
        path = self._versioned(operation)
        query = {key: self._resolved(value) for key, value in operation.get("query", {}).items()}
        if not query.get("continue", "x"):
            del query["continue"]
        if self._undated(operation):
            del query["resourceVersion"]
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {key: self._resolved(value) for key, value in operation.get("headers", {}).items()}
        form = operation.get("form", "json")
        if "raw" in operation:
            body: bytes | None = self._resolved(operation["raw"]).encode()
        else:
            value = self._body(operation)
            body = None if value is None else _text(value, form, operation.get("duplicates", []))
        if body is not None and form:
            headers["Content-Type"] = FORMS.get(form, form)
        return path, headers, body

    def _base(self, operation: Operation) -> Any:
        """The answer to be changed: that of the operation named, or the last one that showed the object."""
        return self._bodies.get(operation["base"]) or self._latest.get(_object_of(operation["path"]))

    def _versioned(self, operation: Operation) -> str:
        """The path, in the version of the answer that is sent back."""
        path = self._resolved(operation["path"])
        found = self._base(operation) if "base" in operation else None
        if found is None or not path.startswith("/apis/"):
            return path
        parts = path.split("/")
        parts[3] = found["apiVersion"].partition("/")[2]
        return "/".join(parts)

    def _body(self, operation: Operation) -> Any:
        value = operation.get("body")
        base = operation.get("base")
        if base is not None:
            found = self._base(operation)
            if found is None:
                return {"metadata": {"name": "nothing-to-change"}}
            value = merged(copy.deepcopy(found), value or {})
        if value is None:
            return None
        return json.loads(self._resolved(json.dumps(value)))

    def _resolved(self, text: str) -> str:
        if "${" not in text:
            return text
        return _REFERENCE.sub(
            lambda match: self._memory[match[1]].get(int(match[2]), _STAND_INS[match[1]]), text
        )

    def _answer(self, operation: Operation, response: http.client.HTTPResponse, data: bytes) -> Answer:
        content_type = response.headers.get("Content-Type", "")
        try:
            body = decoded(data, content_type)
        except ValueError as error:
            body = f"undecodable {content_type}: {error}: {data[:200]!r}"
        if isinstance(body, dict):
            self._remember(operation, body, response.status)
        return Answer(
            response.status,
            content_type,
            body,
            response.headers.get_all("Warning") or [],
            response.headers.get("Retry-After"),
        )

    def _remember(self, operation: Operation, body: dict[str, Any], code: int) -> None:
        metadata, number = body.get("metadata"), operation["id"]
        if code >= 400 or not isinstance(metadata, dict):
            return
        is_list = "items" in body or "rows" in body
        if not is_list and "uid" in metadata:
            self._bodies[number] = body
            if not str(body.get("kind")).startswith("Partial"):
                self._latest[_object_of(operation["path"])] = body
        names = (
            ("listrv" if is_list else "rv", "resourceVersion"), ("uid", "uid"), ("name", "name"),
            ("continue", "continue"),
        )  # fmt: skip
        for name, key in names:
            if metadata.get(key):
                self._memory[name][number] = metadata[key]

    def _read_stream(self, operation: Operation, response: http.client.HTTPResponse) -> Answer:
        """The events up to the one that the sequence's end sets off, or up to the end of the stream."""
        content_type = response.headers.get("Content-Type", "")
        answer = Answer(200, content_type, [], response.headers.get_all("Warning") or [])
        try:
            self._end(operation["watch"])
            self._events(response, content_type, answer, operation["watch"]["mark"])
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer.note = f"the stream broke: {type(error).__name__} {error}"
        return answer

    def _end(self, watch: dict[str, Any]) -> None:
        """A last change that the watch must show: to an object that is there, or a new one."""
        mark = {"annotations": {MARK: watch["mark"]}, "labels": watch["labels"]}
        path = watch["collection"]
        name = watch["body"]["metadata"]["name"]
        code, _ = self.request("PATCH", f"{path}/{name}", {"metadata": mark}, "application/merge-patch+json")
        if code == 404:
            body = merged(watch["body"], {"metadata": mark})
            code, _ = self.request("POST", path, body)
        if code >= 300:
            raise ValueError(f"the last change was refused with {code}")

    def _events(
        self, response: http.client.HTTPResponse, content_type: str, answer: Answer, mark: str
    ) -> None:
        rest = b""
        end = time.monotonic() + _STREAM_SECONDS
        while time.monotonic() < end:
            piece = response.read1(65536)
            if not piece:
                return
            found, rest = _split(rest + piece, content_type)
            for kind, obj in found:
                if mark in json.dumps(obj):
                    return
                answer.body.append({"type": kind, "object": obj})
        answer.note = "the last change did not come"


def _split(data: bytes, content_type: str) -> tuple[list[tuple[str, Any]], bytes]:
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


def _difference(one: Any, other: Any, path: str = "") -> str:
    """The first place where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key, ...) != other.get(key, ...):
                return _difference(one.get(key), other.get(key), f"{path}.{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            if mine != theirs:
                return _difference(mine, theirs, f"{path}[{index}]")
    return f"{json.dumps(one)[:200]} at {path}, JSON says {json.dumps(other)[:200]}"
