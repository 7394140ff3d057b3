"""The driver's few calls to the Kubernetes API over urllib3; objects are plain dicts."""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from driver.sdk import kubeconfig as credentials
from driver.sdk.errors import ClaimError

_GROUP: Final = "/apis/resource.k8s.io/v1"
_SLICES: Final = f"{_GROUP}/resourceslices"
_TIMEOUT: Final = (5.0, 30.0)
"""Seconds for connecting and between two bytes of an answer."""
_CLAIM_TIMEOUT: Final = (3.0, 10.0)
_CLAIM_DELAYS: Final = (0.2, 0.5, 1.0)
"""Pauses before reading a claim again: the kubelet itself would only come back after a minute."""
_CLAIM_SECONDS: Final = 20.0
"""After so long a claim is not read again: the kubelet gives a call 45 s."""
_WATCH_SECONDS: Final = 290
_CONNECT_SECONDS: Final = 15.0
"""Longest wait for the connection after the start."""
_LONGEST_RETRY_SECONDS: Final = 600.0
"""More than this is not believed of a `Retry-After`: a mistake there must not silence the driver for good."""
_READ_BYTES: Final = 65536
_KEEP_ALIVE: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
"""A watch is silent for minutes; this notices within half a minute that its server has gone without a word."""
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?\Z")
"""Names of objects. Others would lead elsewhere as part of a path."""


@dataclass(frozen=True)
class Cause:
    """One cause of a refused object: which field and why."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiFailure(Exception):  # noqa: N818 - most are expected answers
    """An answer other than success; `status` 0: no answer at all.

    `retry_after` is in seconds, 0 when the server does not say; `subject` is the name of the object that it is about.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float = 0.0,
        causes: tuple[Cause, ...] = (),
        subject: str = "",
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes
        self.subject = subject

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed in a moment."""
        return self.status in (0, 408, 429) or self.status >= 500


def failure_from(status: int, body: str, retry_after: str = "") -> ApiFailure:
    """Read an error answer: usually a Status object, anything from proxies."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    document = document if isinstance(document, dict) else {}
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    return ApiFailure(
        status,
        str(document.get("reason") or "Unknown"),
        str(document.get("message") or body[:200]),
        _seconds(retry_after) or _seconds(details.get("retryAfterSeconds")),
        tuple(
            Cause(str(cause.get("field") or ""), str(cause.get("message") or ""))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        ),
        str(details.get("name") or ""),
    )


def _seconds(value: object) -> float:
    """A pause asked for as seconds or as a date; 0 for anything else."""
    try:
        seconds = float(str(value))
    except ValueError:
        try:
            seconds = parsedate_to_datetime(str(value)).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return min(max(seconds, 0.0), _LONGEST_RETRY_SECONDS) if not math.isnan(seconds) else 0.0


class Api:
    """Calls as the identity of the kubeconfig. Every method raises ApiFailure."""

    def __init__(self, kubeconfig: Path | None, user_agent: str) -> None:
        """None: the service account of the pod.

        Raises:
            SettingsError: if the configuration cannot be used.
        """
        import urllib3

        self._credentials = credentials.load(kubeconfig)
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        settings: dict[str, Any] = {
            "maxsize": 64,
            "ssl_context": self._credentials.ssl_context,
            "server_hostname": self._credentials.server_name or None,
            "socket_options": _KEEP_ALIVE,
            # The library would repeat calls on its own, invisible to the retry rules here.
            "retries": False,
        }
        proxy = self._credentials.proxy
        self._pool = urllib3.ProxyManager(proxy, **settings) if proxy else urllib3.PoolManager(**settings)

    def claim(self, namespace: str, name: str) -> dict[str, Any]:
        """Read a ResourceClaim."""
        path = f"{_GROUP}/namespaces/{_part(namespace)}/resourceclaims/{_part(name)}"
        return _object(self._json("GET", path, timeout=_CLAIM_TIMEOUT))

    def node_uid(self, name: str) -> str:
        """Read the UID of a Node."""
        return str(_object(self._json("GET", f"/api/v1/nodes/{_part(name)}"))["metadata"].get("uid", ""))

    def list_slices(self, selector: str) -> tuple[list[dict[str, Any]], str]:
        """All slices that match a field selector, and the resourceVersion of the list."""
        found = _object(self._json("GET", _SLICES, query={"fieldSelector": selector}))
        items = [_object(item) for item in found.get("items") or []]
        return items, str(found["metadata"].get("resourceVersion", ""))

    def watch_slices(self, selector: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Changes after a version: (ADDED | MODIFIED | DELETED | BOOKMARK, object) until the server ends it."""
        query = {
            "fieldSelector": selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
            "watch": "true",
        }
        response = self._send(
            "GET", _SLICES, query=query, timeout=(_TIMEOUT[0], _WATCH_SECONDS + 30.0), stream=True
        )
        try:
            for line in self._lines(response):
                yield _event(line)
        finally:
            response.close()

    def create_slice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Create a slice and return what is stored."""
        return _object(self._json("POST", _SLICES, item))

    def update_slice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Replace a slice, provided that it has not changed, and return what is stored."""
        return _object(self._json("PUT", f"{_SLICES}/{_part(item['metadata']['name'])}", item))

    def delete_slice(self, item: dict[str, Any]) -> None:
        """Delete a slice, provided that it has not changed."""
        metadata = item["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        self._json("DELETE", f"{_SLICES}/{_part(metadata['name'])}", options)

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout: tuple[float, float] | None = None,
    ) -> Any:
        """The answer to a request, decoded."""
        response = self._send(method, path, body, query=query, timeout=timeout)
        try:
            return json.loads(response.data)
        except (ValueError, RecursionError) as problem:
            # An answer that ends in the middle of its JSON.
            raise _no_answer(problem) from problem

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        timeout: tuple[float, float] | None = None,
        stream: bool = False,
    ) -> Any:
        """The response itself; an answer other than success is raised."""
        import urllib3

        url = f"{self._credentials.server}{path}{'?' + urlencode(query) if query else ''}"
        connect, read = timeout or _TIMEOUT
        try:
            headers = {**self._headers, **self._credentials.headers()}
        except OSError as problem:
            raise ApiFailure(0, "", f"no credentials: {problem}") from problem
        try:
            response = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=connect, read=read),
                preload_content=not stream,
                redirect=False,
            )
            if response.status >= 300:
                text = response.data.decode("utf-8", "replace")
                raise failure_from(response.status, text, response.headers.get("Retry-After", ""))
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            raise _no_answer(problem) from problem
        return response

    def _lines(self, response: Any) -> Iterator[bytes]:
        rest = b""
        while True:
            try:
                # Whatever has come, in chunks or not: an event must not wait for the next one.
                data = response.read1(_READ_BYTES)
            except Exception as problem:
                raise _no_answer(problem) from problem
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from filter(None, lines)


def _part(name: str) -> str:
    """A name as part of a path."""
    if not _NAME.match(name):
        raise ApiFailure(400, "BadRequest", f"{name[:100]!r} is not the name of an object")
    return quote(name, safe="")


def _object(value: Any) -> dict[str, Any]:
    """An API object; anything else came from something that is not an API server."""
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        return value
    raise ApiFailure(0, "", f"the answer is not an API object: {str(value)[:100]}")


def _event(line: bytes) -> tuple[str, dict[str, Any]]:
    """One line of a watch; an ERROR event is raised."""
    try:
        event = json.loads(line)
        kind, item = str(event["type"]), event["object"]
        if kind == "ERROR":
            raise failure_from(int(item.get("code") or 500), json.dumps(item))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise _no_answer(problem) from problem
    return kind, _object(item)


def _no_answer(problem: Exception) -> ApiFailure:
    return ApiFailure(0, "", f"no answer: {type(problem).__name__}: {problem}")


class Connection:
    """The Api, once it is there: threads that need it wait for it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._api: Api | None = None

    def connect(self, kubeconfig: Path | None, user_agent: str) -> Api:
        """Make the Api. SettingsError as `Api`."""
        self._api = Api(kubeconfig, user_agent)
        self._ready.set()
        return self._api

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Read a claim, None if there is none of that name; what may pass is tried again for a moment.

        Raises:
            ClaimError: if the API does not give it.
        """
        if not self._ready.wait(_CONNECT_SECONDS) or self._api is None:
            raise ClaimError(f"retrieve claim {namespace}/{name}: no connection to the API server yet")
        deadline = time.monotonic() + _CLAIM_SECONDS
        for delay in (*_CLAIM_DELAYS, None):
            try:
                return self._api.claim(namespace, name)
            except ApiFailure as problem:
                # A server that does not serve claims answers 404 as well; that says nothing about this one.
                if problem.status == 404 and problem.subject == name:
                    return None
                if delay is None or not problem.transient or time.monotonic() > deadline:
                    raise ClaimError(f"retrieve claim {namespace}/{name}: {problem}") from problem
                threading.Event().wait(max(delay, min(problem.retry_after, 2.0)))
        raise AssertionError("the last attempt returns or raises")
