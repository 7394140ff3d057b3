"""The driver's few calls to the Kubernetes API, on the `kubernetes` package; objects are plain dicts.

Importing that package takes a third of a second: `connect` does it when it is called, in a thread of its own.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from driver.sdk.errors import ClaimError, SettingsError

_GROUP: Final = ("resource.k8s.io", "v1")
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
        from kubernetes import client, config

        settings = client.Configuration()
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config(str(kubeconfig), client_configuration=settings, persist_config=False)  # type: ignore[no-untyped-call]
        except Exception as problem:
            raise SettingsError(
                f"--kubeconfig {kubeconfig or '(service account of the pod)'}: {problem}"
            ) from problem
        # The HTTP library would repeat calls on its own, invisible to the retry rules here.
        settings.retries = False
        settings.connection_pool_maxsize = 64
        transport = client.ApiClient(settings)
        transport.user_agent = user_agent
        self._objects = client.CustomObjectsApi(transport)
        self._core = client.CoreV1Api(transport)

    def claim(self, namespace: str, name: str) -> dict[str, Any]:
        """Read a ResourceClaim."""
        read = self._objects.get_namespaced_custom_object
        return _object(
            self._call(read, *_GROUP, namespace, "resourceclaims", name, _request_timeout=_CLAIM_TIMEOUT)
        )

    def node_uid(self, name: str) -> str:
        """Read the UID of a Node."""
        # Not as the package's model, which refuses Nodes whose fields it does not expect.
        response = self._raw(self._core.read_node, name, _request_timeout=_TIMEOUT)
        try:
            return str(_object(json.loads(response.data))["metadata"]["uid"])
        except (ValueError, KeyError) as problem:
            raise _no_answer(problem) from problem

    def list_slices(self, selector: str) -> tuple[list[dict[str, Any]], str]:
        """All slices that match a field selector, and the resourceVersion of the list."""
        read = self._objects.list_cluster_custom_object
        found = _object(
            self._call(read, *_GROUP, "resourceslices", field_selector=selector, _request_timeout=_TIMEOUT)
        )
        items = [_object(item) for item in found.get("items") or []]
        return items, str(found["metadata"].get("resourceVersion", ""))

    def watch_slices(self, selector: str, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Changes after a version: (ADDED | MODIFIED | DELETED | BOOKMARK, object) until the server ends it."""
        response = self._raw(
            self._objects.list_cluster_custom_object,
            *_GROUP,
            "resourceslices",
            field_selector=selector,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=_WATCH_SECONDS,
            watch=True,
            _request_timeout=(_TIMEOUT[0], _WATCH_SECONDS + 30.0),
        )
        try:
            for line in self._lines(response):
                yield _event(line)
        finally:
            response.close()

    def _raw(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The response itself; an answer other than success is raised."""
        response = self._call(function, *arguments, **options, _preload_content=False)
        if response.status >= 400:
            text = response.data.decode("utf-8", "replace")
            raise failure_from(response.status, text, response.headers.get("Retry-After", ""))
        return response

    def _lines(self, response: Any) -> Iterator[bytes]:
        rest = b""
        chunks = response.stream(amt=None, decode_content=True)
        while True:
            try:
                rest += next(chunks)
            except StopIteration:
                return
            except Exception as problem:
                raise _no_answer(problem) from problem
            *lines, rest = rest.split(b"\n")
            yield from filter(None, lines)

    def create_slice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Create a slice and return what is stored."""
        create = self._objects.create_cluster_custom_object
        return _object(self._call(create, *_GROUP, "resourceslices", item, _request_timeout=_TIMEOUT))

    def update_slice(self, item: dict[str, Any]) -> dict[str, Any]:
        """Replace a slice, provided that it has not changed, and return what is stored."""
        replace, name = self._objects.replace_cluster_custom_object, item["metadata"]["name"]
        return _object(self._call(replace, *_GROUP, "resourceslices", name, item, _request_timeout=_TIMEOUT))

    def delete_slice(self, item: dict[str, Any]) -> None:
        """Delete a slice, provided that it has not changed."""
        metadata = item["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        self._call(
            self._objects.delete_cluster_custom_object,
            *_GROUP,
            "resourceslices",
            metadata["name"],
            body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions},
            _request_timeout=_TIMEOUT,
        )

    @staticmethod
    def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return function(*arguments, **options)
        except ApiException as problem:
            if not problem.status:
                raise _no_answer(problem) from problem
            body = (
                problem.body.decode("utf-8", "replace") if isinstance(problem.body, bytes) else problem.body
            )
            headers = problem.headers or {}
            raise failure_from(int(problem.status), body or "", headers.get("Retry-After", "")) from problem
        except (HTTPError, OSError, ValueError) as problem:
            # ValueError: an answer that ends in the middle of its JSON.
            raise _no_answer(problem) from problem


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
