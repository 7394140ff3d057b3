"""Everything that is not a resource: health, version, metrics, discovery, OpenAPI."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, Final

from aiohttp import web

from clusters import feature_metrics
from clusters.embedded.apiserver import negotiation, openapi_v2
from clusters.embedded.apiserver.call import Call
from clusters.embedded.apiserver.codec import dump_json
from clusters.embedded.apiserver.discovery import AGGREGATED_TYPE, VERSION, Discovery, wants_aggregated
from clusters.embedded.apiserver.openapi import OpenApi

_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_OPENAPI: Final = "/openapi/v3"
_OPENAPI_2: Final = "/openapi/v2"
_YEAR: Final = 365 * 86400


def not_found() -> web.Response:
    """404 of a path that is no API."""
    return web.Response(status=404, text="404 page not found\n", content_type="text/plain")


def _json(document: Mapping[str, Any] | None, *, pretty: bool) -> web.Response:
    if document is None:
        return not_found()
    return web.Response(body=dump_json(document, pretty=pretty), content_type=negotiation.JSON)


class PlainPaths:
    """Answers requests for non-resource paths."""

    def __init__(
        self, discovery: Discovery, openapi: OpenApi, address: str, gates: Mapping[str, bool]
    ) -> None:
        """`address` is host:port of the server, `gates` are the values of its feature gates."""
        self._discovery = discovery
        self._openapi = openapi
        self._address = address
        self._gates = gates

    def answer(self, call: Call, *, pretty: bool) -> web.Response:
        """The answer; unknown paths are a plain-text 404."""
        path = call.info.path.rstrip("/") or "/"
        if path in _HEALTH or (
            path.startswith(("/livez/", "/readyz/", "/healthz/")) and path.endswith("/ping")
        ):
            return self._health(call, path)
        if call.http.method not in ("GET", "HEAD"):
            return not_found()
        if path == "/version":
            return _json(VERSION, pretty=pretty)
        if path == "/metrics":
            headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
            return web.Response(body=feature_metrics.text(self._gates).encode(), headers=headers)
        if path == "/":
            return _json({"paths": self._discovery.paths()}, pretty=pretty)
        if path == _OPENAPI or path.startswith(_OPENAPI + "/"):
            return self._open_api(call, path, pretty=pretty)
        if path == _OPENAPI_2:
            return self._open_api_2(call)
        return self._discover(call, path.strip("/").split("/"), pretty=pretty)

    @staticmethod
    def _health(call: Call, path: str) -> web.Response:
        text = "ok"
        if "verbose" in call.query:
            text = f"[+]ping ok\n[+]log ok\n[+]etcd ok\n{path[1:]} check passed\n"
        return web.Response(text=text, headers={"X-Content-Type-Options": "nosniff"})

    def _discover(self, call: Call, parts: list[str], *, pretty: bool) -> web.Response:
        if parts in (["api"], ["apis"]):
            if wants_aggregated(call.accept):
                return self._aggregated(call, parts[0])
            document = (
                self._discovery.api_versions(self._address)
                if parts == ["api"]
                else self._discovery.group_list()
            )
            response = _json(document, pretty=pretty)
            response.headers["Vary"] = "Accept"
            return response
        if parts[0] == "api" and len(parts) == 2:
            return _json(self._discovery.resource_list("", parts[1]), pretty=pretty)
        if parts[0] == "apis" and len(parts) == 2:
            return _json(self._discovery.group(parts[1]), pretty=pretty)
        if parts[0] == "apis" and len(parts) == 3 and parts[1]:
            return _json(self._discovery.resource_list(parts[1], parts[2]), pretty=pretty)
        return not_found()

    def _aggregated(self, call: Call, root: str) -> web.Response:
        body, etag = self._discovery.aggregated(root)
        headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "public"}
        if call.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers={**headers, "Content-Type": AGGREGATED_TYPE})

    def _open_api(self, call: Call, path: str, *, pretty: bool) -> web.Response:
        if path == _OPENAPI:
            return _json(self._openapi.index(), pretty=pretty)
        name = path.removeprefix(_OPENAPI + "/")
        if not self._openapi.exists(name):
            return not_found()
        body, digest = self._openapi.document(name)
        asked = call.query.get("hash")
        if asked is not None and asked != digest:
            return web.Response(status=301, headers={"Location": f"{path}?hash={digest}"})
        headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
        if asked is not None:
            headers |= {
                "Cache-Control": "public, immutable",
                "Expires": formatdate(time.time() + _YEAR, usegmt=True),
            }
        return web.Response(body=body, content_type=negotiation.JSON, headers=headers)

    def _open_api_2(self, call: Call) -> web.Response:
        wanted = negotiation.clauses(call.accept or negotiation.JSON)
        protobuf = bool(wanted) and wanted[0].media_type in openapi_v2.ACCEPTED
        body, digest = self._openapi.version_2(protobuf=protobuf)
        headers = {"ETag": f'"{digest}"', "Vary": "Accept"}
        if call.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        content_type = openapi_v2.ACCEPTED[0] if protobuf else negotiation.JSON
        return web.Response(body=body, headers={**headers, "Content-Type": content_type})
