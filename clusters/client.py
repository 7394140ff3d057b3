"""A client for plain dict objects, on the connection handling of the `kubernetes` package."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException


class ClientError(Exception):
    """The API server refused a request. `code` is the HTTP status, `reason` and `message` come from the Status."""

    def __init__(self, code: int, reason: str, message: str, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.body = dict(body or {})


def _path(
    api_version: str, resource: str, namespace: str | None, name: str | None, subresource: str | None
) -> str:
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


class Client:
    """Requests against one API server as one identity. Thread safe."""

    def __init__(self, url: str, ca_file: Path, token: str) -> None:
        configuration = Configuration()
        configuration.host = url
        configuration.ssl_ca_cert = str(ca_file)
        configuration.api_key = {"authorization": f"Bearer {token}"}
        configuration.retries = False
        configuration.connection_pool_maxsize = 32
        self._api = ApiClient(configuration)

    def close(self) -> None:
        """Give back the connections."""
        self._api.rest_client.pool_manager.clear()
        self._api.close()

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
        headers = {"Accept": "application/json", "Content-Type": content_type}
        params = [(key, value) for key, value in (query or {}).items()]
        try:
            response = self._api.call_api(
                path,
                method,
                {},
                params,
                headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
                _return_http_data_only=True,
            )
            return json.loads(response.data)
        except ApiException as error:
            raise _client_error(error) from None
        except urllib3.exceptions.HTTPError as error:
            raise ClientError(0, "Unreachable", f"{method} {path}: {error}") from None

    def get(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> dict[str, Any]:
        """One object."""
        result: dict[str, Any] = self.request("GET", _path(api_version, resource, namespace, name, None))
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
        answer = self.request("GET", _path(api_version, resource, namespace, None, None), query=query)
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
        """POST an object (or a subresource of `name`)."""
        path = _path(api_version, resource, namespace, name, subresource)
        result: dict[str, Any] = self.request("POST", path, body=body)
        return result

    def update(
        self, api_version: str, resource: str, body: Mapping[str, Any], subresource: str | None = None
    ) -> dict[str, Any]:
        """PUT an object, or its subresource."""
        meta = body["metadata"]
        path = _path(api_version, resource, meta.get("namespace"), meta["name"], subresource)
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
        path = _path(api_version, resource, namespace, name, subresource)
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
            self.request("DELETE", _path(api_version, resource, namespace, name, None), body=body)
        except ClientError as error:
            if error.code != 404:
                raise

    def watch(
        self, api_version: str, resource: str, namespace: str | None = None, *, timeout: float, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """Watch events (`{"type", "object"}`) until `timeout` seconds have passed."""
        path = _path(api_version, resource, namespace, None, None)
        params = [("watch", "true"), ("timeoutSeconds", str(max(1, int(timeout)))), *query.items()]
        headers = {"Accept": "application/json"}
        try:
            response = self._api.call_api(
                path,
                "GET",
                {},
                params,
                headers,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout + 5,
                _return_http_data_only=True,
            )
        except ApiException as error:
            raise _client_error(error) from None
        buffer = b""
        for chunk in response.stream(amt=None, decode_content=True):
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def _client_error(error: ApiException) -> ClientError:
    try:
        body = json.loads(error.body)
    except (TypeError, ValueError):
        text = error.body.decode(errors="replace") if isinstance(error.body, bytes) else str(error.body or "")
        return ClientError(error.status or 0, error.reason or "", text.strip())
    return ClientError(error.status or 0, str(body.get("reason", "")), str(body.get("message", "")), body)
