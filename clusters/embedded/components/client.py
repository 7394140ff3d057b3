"""The client of the components: plain dict objects over aiohttp, in the loop of the caller."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Final

import aiohttp

from clusters.client import ClientError, client_error, resource_path
from clusters.open_sockets import OpenSockets

JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TIMEOUT: Final = 30.0
# A watch with nothing to tell still gets a bookmark a minute; silence beyond this is a broken connection.
_WATCH_SILENCE: Final = 150.0
Object = dict[str, Any]


@lru_cache(maxsize=512)
def _event(line: bytes) -> Object:
    """A watch event from its line.

    A dozen components watch Pods and are sent the same bytes one after another. They get equal events as one object,
    which costs reading and memory once; nobody may change what came from a watch (see Informer).
    """
    event: Object = json.loads(line)
    return event


class ApiClient:
    """Requests against one API server as one identity.

    Every failure is a ClientError: a Status of the server, or code 0 for a broken connection.
    """

    def __init__(self, url: str, tls: ssl.SSLContext, token: str, user_agent: str) -> None:
        self._url = url.rstrip("/")
        self._tls = tls
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "User-Agent": user_agent,
        }
        self._session: aiohttp.ClientSession | None = None
        self._sockets = OpenSockets()

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections; returns when their sockets are closed, so that the loop may end."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        await self._sockets.wait_closed()

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls, limit=0, keepalive_timeout=60, socket_factory=self._sockets.make
            )
            self._session = aiohttp.ClientSession(
                connector=connector, headers=self._headers, timeout=aiohttp.ClientTimeout(total=_TIMEOUT)
            )
        return self._session

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = JSON,
    ) -> Any:
        """One request with a JSON answer."""
        data = None if body is None else json.dumps(body).encode()
        params = {key: str(value) for key, value in (query or {}).items()}
        headers = {"Content-Type": content_type, "Accept": accept}
        try:
            async with self._http().request(
                method, self._url + path, data=data, params=params, headers=headers
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClientError(0, "Unreachable", f"{method} {path}: {_text(error)}") from None
        if response.status >= 400:
            raise client_error(response.status, answer)
        return json.loads(answer)

    async def get(self, api_version: str, resource: str, name: str, namespace: str | None = None) -> Object:
        """One object."""
        result: Object = await self.request("GET", resource_path(api_version, resource, namespace, name))
        return result

    async def find(
        self, api_version: str, resource: str, name: str, namespace: str | None = None
    ) -> Object | None:
        """One object, or None when it does not exist."""
        try:
            return await self.get(api_version, resource, name, namespace)
        except ClientError as error:
            if error.code == 404:
                return None
            raise

    async def list(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        accept: str = JSON,
        **query: Any,
    ) -> Object:
        """A list object; its items carry apiVersion and kind."""
        answer: Object = await self.request(
            "GET", resource_path(api_version, resource, namespace), query=query, accept=accept
        )
        kind = str(answer.get("kind", "")).removesuffix("List")
        items = answer.get("items") or []
        answer["items"] = [{"kind": kind, "apiVersion": answer.get("apiVersion"), **item} for item in items]
        return answer

    async def create(
        self,
        api_version: str,
        resource: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        name: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """POST an object (or a subresource of `name`)."""
        path = resource_path(api_version, resource, namespace, name, subresource)
        result: Object = await self.request("POST", path, body=body)
        return result

    async def update(
        self, api_version: str, resource: str, body: Mapping[str, Any], subresource: str | None = None
    ) -> Object:
        """PUT an object, or its subresource."""
        meta = body["metadata"]
        path = resource_path(api_version, resource, meta.get("namespace"), meta["name"], subresource)
        result: Object = await self.request("PUT", path, body=body)
        return result

    async def patch(
        self,
        api_version: str,
        resource: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        subresource: str | None = None,
        content_type: str = STRATEGIC_MERGE,
    ) -> Object:
        """PATCH an object, by default with a strategic merge patch as Kubernetes' components do."""
        path = resource_path(api_version, resource, namespace, name, subresource)
        result: Object = await self.request("PATCH", path, body=body, content_type=content_type)
        return result

    async def apply(
        self,
        api_version: str,
        resource: str,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str | None = None,
    ) -> Object:
        """Server-side apply."""
        meta = body["metadata"]
        path = resource_path(api_version, resource, meta.get("namespace"), meta["name"], subresource)
        query = {"fieldManager": field_manager, "force": "true" if force else "false"}
        result: Object = await self.request("PATCH", path, body=body, query=query, content_type=APPLY)
        return result

    async def delete(
        self,
        api_version: str,
        resource: str,
        name: str,
        namespace: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """DELETE an object with DeleteOptions as body. Raises ClientError 404 when it is absent."""
        await self.request("DELETE", resource_path(api_version, resource, namespace, name), body=body)

    async def delete_collection(
        self, api_version: str, resource: str, namespace: str | None = None, **query: Any
    ) -> None:
        """DELETE a collection."""
        await self.request("DELETE", resource_path(api_version, resource, namespace), query=query)

    async def watch(
        self,
        api_version: str,
        resource: str,
        namespace: str | None = None,
        *,
        accept: str = JSON,
        **query: Any,
    ) -> AsyncGenerator[Object, None]:
        """Watch events (`{"type", "object"}`) until the server ends the stream.

        An event of type ERROR is raised as ClientError (410 for an expired resourceVersion).
        """
        path = resource_path(api_version, resource, namespace)
        params = {"watch": "true", **{key: str(value) for key, value in query.items()}}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=_WATCH_SILENCE)
        try:
            async with self._http().get(
                self._url + path, params=params, timeout=timeout, headers={"Accept": accept}
            ) as response:
                if response.status >= 400:
                    raise client_error(response.status, await response.read())
                buffer = b""
                async for chunk in response.content.iter_any():
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    for line in lines:
                        event = _event(line)
                        if event["type"] == "ERROR":
                            status = event["object"]
                            raise ClientError(
                                int(status.get("code", 0)),
                                str(status.get("reason", "")),
                                str(status.get("message", "")),
                                status,
                            )
                        yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClientError(0, "Unreachable", f"watch {path}: {_text(error)}") from None


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
