"""Plays one sequence of operations against one API server and keeps what it answered.

An operation is a plain dict, so that a failing sequence can be printed, stored and played again:

* `id` (number), `op` (its kind for the counts), `method`, `path`, `query`, `headers`;
* `body`: a JSON value or None; `form`: how it is sent (json, yaml, protobuf or the media type of a patch);
* `duplicates`: names of top-level fields that are sent twice; `raw`: text to send instead of `body`;
* `base`: the id of an operation whose answer is the body, changed by `body` as a JSON merge patch;
* `watch`: the end of a stream (see `Player.watch`); such an operation is answered at the end of the sequence;
* `fresh`: the answer may depend on a cache, so a consistent list goes first, which waits for the cache of the kind
  (a read of one object without a revision passes the cache by).

Texts may hold references to earlier answers of the same server: `${rv:ID}`, `${uid:ID}`, `${name:ID}`,
`${continue:ID}`, `${listrv:ID}`. Where an answer has no such value, something stands in
that fits nothing; without a page to continue from, a list begins anew.
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

from api_wire import (
    JSON,
    PROTOBUF,
    STREAM_SECONDS,
    YAML,
    Answer,
    Connection,
    Endpoint,
    compact,
    decoded,
    difference,
    encoded,
    merged,
    split_events,
)

FORMS: Final = {"json": JSON, "yaml": YAML, "protobuf": PROTOBUF}
MARK: Final = "differential/end"
_REFERENCE: Final = re.compile(r"\$\{(rv|uid|name|continue|listrv):(\d+)\}")
_STAND_INS: Final = {"rv": "1", "uid": "no-such-uid", "name": "no-such-name", "continue": "", "listrv": "1"}

Operation = dict[str, Any]


def _object_of(path: str) -> str:
    """The path of the whole object, below its group and version."""
    parts = path.removesuffix("/status").split("/")
    return "/".join(parts[4 if parts[1] == "apis" else 3 :])


def _collection_of(path: str) -> str:
    """The path of the collection that an object is in, or the path itself if it is one."""
    parts = path.split("/")
    size = 4 if parts[1] == "apis" else 3
    size += 3 if len(parts) > size + 2 and parts[size] == "namespaces" else 1
    return "/".join(parts[:size])


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

    def play(
        self, operations: list[Operation], before_each: Callable[[], object] = lambda: None
    ) -> dict[int, Answer]:
        """The answers by operation id. Watches are read to their end last."""
        self._memory = {name: {} for name in _STAND_INS}
        self._bodies, self._latest, self._streams = {}, {}, []
        answers: dict[int, Answer] = {}
        try:
            for operation in operations:
                before_each()
                answer = self._one(operation)
                if answer is not None:
                    answers[operation["id"]] = answer
            for operation, response in self._streams:
                answers[operation["id"]] = self._read_stream(operation, response)
        finally:
            for _, response in self._streams:
                response.close()
            self._connection.end_streams()
        return answers

    def request(self, method: str, path: str, body: Any = None, media_type: str = JSON) -> tuple[int, Any]:
        """A plain request outside of a sequence; returns code and body."""
        data = None if body is None else compact(body).encode()
        headers = {"Content-Type": media_type} if data is not None else {}
        response, got = self._connection.send(method, path, headers, data)
        return response.status, decoded(got, response.headers.get("Content-Type", ""))

    def _one(self, operation: Operation) -> Answer | None:
        if operation.get("fresh") or self._undated(operation):
            self._connection.send("GET", _collection_of(operation["path"]), {}, None)
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
        return f"protobuf says {difference(answer.body, seen)}"

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
            body = None if value is None else encoded(value, form, operation.get("duplicates", []))
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
        end = time.monotonic() + STREAM_SECONDS
        while time.monotonic() < end:
            piece = response.read1(65536)
            if not piece:
                return
            found, rest = split_events(rest + piece, content_type)
            for kind, obj in found:
                if mark in json.dumps(obj):
                    return
                answer.body.append({"type": kind, "object": obj})
        answer.note = "the last change did not come"
