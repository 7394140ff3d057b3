"""A client for plain dict objects over urllib3.

The models of the `kubernetes` package rename fields and refuse some answers (null lists), and its low-level interface
changes between releases; what the kit needs is a few requests with the objects as they are on the wire.
"""

from __future__ import annotations

import contextlib
import errno
import json
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import urllib3

UNTRUSTED = "Untrusted"
"""Reason of a ClientError when there is no trusted connection: the server's certificate, or none that it accepts."""
_CONNECTIONS = 32
_HEADERS = {"Accept": "application/json", "User-Agent": "drakit"}


class ClientError(Exception):
    """The API server refused a request. `code` is the HTTP status, `reason` and `message` come from the Status."""

    def __init__(self, code: int, reason: str, message: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.body = dict(body or {})


def resource_path(
    api_version: str,
    resource: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """The path of a collection, an object or a subresource."""
    base = "/api/" + api_version if "/" not in api_version else "/apis/" + api_version
    parts = [base]
    if namespace:
        parts += ["namespaces", namespace]
    parts.append(resource)
    if name:
        parts.append(name)
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


class _TlsSocket(ssl.SSLSocket):
    """Closed when the other side is gone before TLS begins: Python 3.11 then raises and leaves the socket open."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise
            self.close()
            raise ConnectionResetError(errno.ECONNRESET, "the server has ended the connection") from None


def closing_sockets(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context, for clients whose servers may go away at any moment."""
    context.sslsocket_class = _TlsSocket
    return context


@dataclass(frozen=True)
class Credentials:
    """Who a client is and how it reaches its server.

    `ssl_context` holds the authorities that are trusted and the client's certificate, if it has one. `token` gives the
    bearer token for a request, "" for none, and raises OSError when it cannot be had. `server_name` is the name in the
    server's certificate where it is not the one of the address; `proxy` the URL of the HTTP proxy to go through, "" for
    none.
    """

    ssl_context: ssl.SSLContext
    token: Callable[[], str]
    server_name: str = ""
    proxy: str = ""

    def pool(self) -> urllib3.PoolManager:
        """Connections of this identity."""
        names = {"server_hostname": self.server_name, "assert_hostname": self.server_name}
        settings: dict[str, Any] = {"ssl_context": closing_sockets(self.ssl_context)} | (
            names if self.server_name else {}
        )
        if self.ssl_context.verify_mode is ssl.CERT_NONE:
            # Without its name the server's certificate is not looked at either, which is what was asked for.
            settings["assert_hostname"] = False
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        if self.proxy:
            return urllib3.ProxyManager(self.proxy, maxsize=_CONNECTIONS, retries=False, **settings)
        return urllib3.PoolManager(maxsize=_CONNECTIONS, retries=False, **settings)


class Client:
    """Requests against one API server as one identity. Thread safe."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        """With a token that stays, and an authority in a file. Raises ClientError when the file has none."""
        try:
            context = closing_sockets(ssl.create_default_context(cafile=str(ca_file)))
        except OSError as error:
            raise ClientError(0, UNTRUSTED, f"no authority can be read from {ca_file}: {error}") from None
        pool = urllib3.PoolManager(maxsize=_CONNECTIONS, ssl_context=context, retries=False)
        self._begin(url, pool, lambda: token)

    @classmethod
    def of(cls, url: str, credentials: Credentials) -> Self:
        """A client with the credentials of a kubeconfig; the URL may have a path, below which the API is."""
        client = cls.__new__(cls)
        client._begin(url, credentials.pool(), credentials.token)
        return client

    def _begin(self, url: str, pool: urllib3.PoolManager, token: Callable[[], str]) -> None:
        self._url = url.rstrip("/")
        self._pool = pool
        self._token = token
        self._headers: Mapping[str, str] = _HEADERS

    def close(self) -> None:
        """Give back the connections."""
        self._pool.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> Any:
        """One request with a JSON answer. Raises ClientError on a Status failure or a broken connection."""
        response = self._send(method, path, body, query, content_type, timeout, stream=False)
        return json.loads(response.data)

    def text(self, path: str, timeout: float = 30.0) -> str:
        """What is at a path that is no API object, such as metrics. Raises ClientError."""
        response = self._send("GET", path, None, None, "application/json", timeout, stream=False)
        return response.data.decode(errors="replace")

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, Any] | None,
        content_type: str,
        timeout: float,
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        url = self._url + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        headers = {**self._headers, "Content-Type": content_type}
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        try:
            if token := self._token():
                headers["Authorization"] = f"Bearer {token}"
            response = self._pool.request(
                method, url, body=data, headers=headers, timeout=timeout, preload_content=not stream
            )
        except urllib3.exceptions.SSLError as error:
            raise ClientError(0, UNTRUSTED, f"{method} {path}: {error}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClientError(0, "Unreachable", f"{method} {path}: {error}") from None
        if response.status >= 400:
            raise client_error(response.status, response.data)
        return response

    def get(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""
        result: dict[str, Any] = self.request(
            "GET", resource_path(api_version, resource, namespace, name, None)
        )
        return result

    def find(
        self, api_version: str, resource: str, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """One object, or None when it does not exist."""
        try:
            return self.get(api_version, resource, name, namespace)
        except ClientError as error:
            if error.code == 404:
                return None
            raise

    def list(
        self, api_version: str, resource: str, namespace: str | None = None, **query: Any
    ) -> list[dict[str, Any]]:
        """The items of a list; null and absent items read as none."""
        answer = self.request("GET", resource_path(api_version, resource, namespace, None, None), query=query)
        return answer.get("items") or []

    def create(
        self,
        api_version: str,
        resource: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """POST an object (or a subresource of `name`), by default into the namespace that it gives itself."""
        if namespace is None:
            namespace = body.get("metadata", {}).get("namespace")
        path = resource_path(api_version, resource, namespace, name, subresource)
        result: dict[str, Any] = self.request("POST", path, body=body)
        return result

    def update(
        self, api_version: str, resource: str, body: Mapping[str, Any], subresource: str | None = None
    ) -> dict[str, Any]:
        """PUT an object, or its subresource."""
        meta = body["metadata"]
        path = resource_path(api_version, resource, meta.get("namespace"), meta["name"], subresource)
        result: dict[str, Any] = self.request("PUT", path, body=body)
        return result

    def patch(
        self,
        api_version: str,
        resource: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        subresource: str | None = None,
        content_type: str = "application/merge-patch+json",
    ) -> dict[str, Any]:
        """PATCH an object, by default with a JSON merge patch."""
        path = resource_path(api_version, resource, namespace, name, subresource)
        result: dict[str, Any] = self.request("PATCH", path, body=body, content_type=content_type)
        return result

    def delete(
        self,
        api_version: str,
        resource: str,
        name: str,
        namespace: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """DELETE an object; an absent one is fine."""
        try:
            self.request("DELETE", resource_path(api_version, resource, namespace, name, None), body=body)
        except ClientError as error:
            if error.code != 404:
                raise

    def log(self, namespace: str, pod: str, container: str = "", **query: Any) -> str:
        """The log of a container so far."""
        params = {**query, **({"container": container} if container else {})}
        path = resource_path("v1", "pods", namespace, pod, "log")
        response = self._send("GET", path, None, params, "application/json", 30.0, stream=False)
        return response.data.decode(errors="replace")

    def watch(
        self, api_version: str, resource: str, namespace: str | None = None, *, timeout: float, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """Watch events (`{"type", "object"}`) until `timeout` seconds have passed."""
        path = resource_path(api_version, resource, namespace, None, None)
        params = {"watch": "true", "timeoutSeconds": max(1, int(timeout)), **query}
        response = self._send("GET", path, None, params, "application/json", timeout + 5, stream=True)
        buffer = b""
        # Who has seen enough leaves in the middle: the connection would be open until somebody collects garbage.
        with contextlib.closing(response):
            for chunk in response.stream(decode_content=True):
                buffer += chunk
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield json.loads(line)


def client_error(code: int, data: bytes) -> ClientError:
    """What a failed request raises, from its code and body."""
    try:
        body = json.loads(data)
    except ValueError:
        return ClientError(code, "", data.decode(errors="replace").strip())
    return ClientError(code, str(body.get("reason", "")), str(body.get("message", "")), body)
