"""The driver's few calls to the Kubernetes API over urllib3; objects are plain dicts."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
_WATCH_SECONDS: Final = 290
_CONNECT_SECONDS: Final = 30.0
"""Longest wait for the connection after the start; the kubelet gives a call 45 s."""


@dataclass(frozen=True)
class Cause:
    """One cause of a refused object: which field and why."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class ApiFailure(Exception):  # noqa: N818 - most are expected answers
    """An answer other than success; `status` 0: no answer at all."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float = 0.0, causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"no answer: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.causes = causes

    @property
    def transient(self) -> bool:
        """Whether the same call may succeed in a moment."""
        return self.status in (0, 408, 429) or self.status >= 500


def failure_from(status: int, body: str, retry_after: str = "") -> ApiFailure:
    """Read an error answer: usually a Status object, anything from proxies."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    document = document if isinstance(document, dict) else {}
    details = document.get("details") or {}
    causes = tuple(
        Cause(str(cause.get("field") or ""), str(cause.get("message") or ""))
        for cause in details.get("causes") or ()
    )
    with contextlib.suppress(ValueError):
        return ApiFailure(
            status,
            str(document.get("reason") or "Unknown"),
            str(document.get("message") or body[:200]),
            float(retry_after or details.get("retryAfterSeconds") or 0),
            causes,
        )
    return ApiFailure(status, str(document.get("reason")), str(document.get("message")), causes=causes)


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
        # The HTTP library would repeat calls on its own, invisible to the retry rules here.
        self._pool = urllib3.PoolManager(maxsize=64, ssl_context=self._credentials.ssl_context, retries=False)

    def claim(self, namespace: str, name: str) -> dict[str, Any]:
        """Read a ResourceClaim."""
        path = f"{_GROUP}/namespaces/{quote(namespace)}/resourceclaims/{quote(name)}"
        return _object(self._json("GET", path, timeout=_CLAIM_TIMEOUT))

    def node_uid(self, name: str) -> str:
        """Read the UID of a Node."""
        return str(_object(self._json("GET", f"/api/v1/nodes/{quote(name)}"))["metadata"].get("uid", ""))

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
        return _object(self._json("PUT", f"{_SLICES}/{quote(item['metadata']['name'])}", item))

    def delete_slice(self, item: dict[str, Any]) -> None:
        """Delete a slice, provided that it has not changed."""
        metadata = item["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        self._json("DELETE", f"{_SLICES}/{quote(metadata['name'])}", options)

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
        except ValueError as problem:
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
            response = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body).encode(),
                headers={**self._headers, **self._credentials.headers()},
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
        chunks = response.stream(decode_content=True)
        while True:
            try:
                rest += next(chunks)
            except StopIteration:
                return
            except Exception as problem:
                raise _no_answer(problem) from problem
            *lines, rest = rest.split(b"\n")
            yield from filter(None, lines)


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
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise _no_answer(problem) from problem
    return kind, _object(item)


def _no_answer(problem: Exception) -> ApiFailure:
    return ApiFailure(0, "", f"{type(problem).__name__}: {problem}")


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
        for delay in (*_CLAIM_DELAYS, None):
            try:
                return self._api.claim(namespace, name)
            except ApiFailure as problem:
                if problem.status == 404:
                    return None
                if delay is None or not problem.transient:
                    raise ClaimError(f"retrieve claim {namespace}/{name}: {problem}") from problem
                threading.Event().wait(max(delay, min(problem.retry_after, 2.0)))
        raise AssertionError("the last attempt returns or raises")
