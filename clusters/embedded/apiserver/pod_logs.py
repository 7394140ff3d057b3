"""GET pods/NAME/log: the log of a container, fetched from the kubelet of its node (api-machinery section 13).

Source: kubernetes v1.37.2 `pkg/registry/core/pod` (LogLocation), apiserver v0.37.2 `pkg/registry/generic/rest`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from aiohttp import web

from clusters.api_status import ApiError, bad_request, invalid, not_found
from clusters.embedded.apiserver import options
from clusters.embedded.apiserver.call import Call
from clusters.embedded.apiserver.storage import Object
from dra_api.errors import FieldError

_CONTAINER_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_PORT: Final = 10250
_ERROR_LENGTH: Final = 50_000
_TRUTHS: Final = ("follow", "previous", "timestamps")
_NUMBERS: Final = ("sinceSeconds", "tailLines", "limitBytes")
# Texts of generic server responses by code, and their reasons.
_ANSWERS: Final = {
    401: ("Unauthorized", "the server has asked for the client to provide credentials"),
    404: ("NotFound", "the server could not find the requested resource"),
    405: ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
}


async def stream_log(call: Call, headers: Mapping[str, str]) -> web.StreamResponse:
    """Answer with the log; 204 for a pod without a node."""
    name, namespace = call.info.name, call.info.namespace
    query = _query(call)
    pod = call.api.store.get("", "pods", namespace, name)
    if pod is None:
        raise not_found("pods", "", name)
    container = _container(pod, call.query.get("container", ""))
    node = (pod.get("spec") or {}).get("nodeName")
    if not node:
        return web.Response(status=204, headers=dict(headers))
    url = f"{kubelet_url(call, node)}/containerLogs/{namespace}/{name}/{container}"
    config = call.api.config
    sent = {"Authorization": f"Bearer {config.kubelet_token}"} if config.kubelet_token else {}
    try:
        async with (
            kubelet_session(call) as session,
            session.get(
                url, params=query, headers=sent, ssl=trust(config.kubelet_ca), allow_redirects=False
            ) as answer,
        ):
            if not 200 <= answer.status <= 206:
                body = await answer.content.read(_ERROR_LENGTH)
                raise _refused(answer.status, body.decode(errors="replace"), name)
            return await _forward(call, answer, headers)
    except (aiohttp.ClientConnectionError, TimeoutError) as error:
        raise ApiError(500, "", f'Get "{url}": {unreachable(error)}') from error


def unreachable(error: Exception) -> str:
    """Why there is no answer, in the words of Go's client."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        reason = (
            os.strerror(error.os_error.errno or 0) if error.os_error.errno else str(error.os_error)
        ).lower()
        return f"dial tcp {error.host}:{error.port}: connect: {reason}"
    return str(error) or "context deadline exceeded"


def _query(call: Call) -> dict[str, str]:
    """The options for the kubelet; raises ApiError 400 or 422."""
    given = call.query
    query = {field: "true" for field in _TRUTHS if field in given and options.truth(given[field])}
    numbers: dict[str, int] = {}
    for field in _NUMBERS:
        if given.get(field):
            try:
                numbers[field] = int(given[field])
            except ValueError:
                problem = f"strconv.ParseInt: parsing {_quoted(given[field])}: invalid syntax"
                raise bad_request(problem) from None
    errors = []
    if numbers.get("tailLines", 0) < 0:
        text = "must be greater than or equal to 0"
        errors.append(FieldError("Invalid", "tailLines", text, numbers["tailLines"]))
    if numbers.get("limitBytes", 1) < 1:
        errors.append(FieldError("Invalid", "limitBytes", "must be greater than 0", numbers["limitBytes"]))
    if "sinceSeconds" in numbers and given.get("sinceTime"):
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(FieldError("Forbidden", "[]", text))
    elif numbers.get("sinceSeconds", 1) < 1:
        text = "must be greater than 0"
        errors.append(FieldError("Invalid", "sinceSeconds", text, numbers["sinceSeconds"]))
    if errors:
        raise invalid("PodLogOptions", "", call.info.name, errors)
    if given.get("sinceTime"):
        query["sinceTime"] = given["sinceTime"]
    return query | {field: str(number) for field, number in numbers.items()}


def _quoted(text: str) -> str:
    return f'"{text}"'


def _container(pod: Object, wanted: str) -> str:
    """The container to read; raises ApiError 400 when that is not clear."""
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    names = [each.get("name", "") for group in _CONTAINER_GROUPS for each in spec.get(group) or []]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    text = f"a container name must be specified for pod {name}"
    raise bad_request(f"{text}, choose one of: [{' '.join(names)}]" if containers else text)


def kubelet_session(call: Call) -> aiohttp.ClientSession:
    """For one request to a kubelet."""
    # A log may be followed for hours; without an answer there is nothing to follow.
    timeout = aiohttp.ClientTimeout(total=None, connect=call.api.config.kubelet_timeout)
    connector = aiohttp.TCPConnector(socket_factory=call.api.outgoing.make)
    return aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=True)


def kubelet_url(call: Call, node_name: str) -> str:
    """Where the kubelet of a node listens."""
    node = call.api.store.get("", "nodes", "", node_name)
    if node is None:
        raise not_found("nodes", "", node_name)
    status = node.get("status") or {}
    addresses: list[dict[str, Any]] = status.get("addresses") or []
    host = next((each["address"] for each in addresses if each.get("type") == "InternalIP"), "")
    if not host:
        known = " ".join(f"{{{each.get('type', '')} {each.get('address', '')}}}" for each in addresses)
        raise ApiError(500, "", f"no preferred addresses found; known addresses: [{known}]")
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    port = endpoint.get("Port") or _DEFAULT_PORT
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def trust(ca: str) -> ssl.SSLContext | bool:
    """How the kubelet's certificate is judged: as a server without an authority for it, not at all."""
    return ssl.create_default_context(cadata=ca) if ca else False


def _refused(code: int, body: str, name: str) -> ApiError:
    if code == 400:
        return bad_request(body)
    if code == 500:
        cause = {"causes": [{"message": body}]}
        return ApiError(500, "InternalError", f"Internal error occurred: {body}", cause)
    details: dict[str, Any] = {"name": name, "kind": "pods/log"}
    where = f"( pods/log {name})"
    if code == 403:
        return ApiError(403, "Forbidden", f"{body} {where}", details)
    if code in _ANSWERS:
        reason, text = _ANSWERS[code]
    elif code >= 500:
        reason = "InternalError"
        text = f"an error on the server ({_quoted(body)}) has prevented the request from succeeding"
    else:
        reason = ""
        text = f"the server responded with the status code {code} but did not return more information"
    return ApiError(code, reason, f"{text} {where}", details)


async def _forward(
    call: Call, answer: aiohttp.ClientResponse, headers: Mapping[str, str]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/plain"})
    await response.prepare(call.http)
    try:
        async for piece in answer.content.iter_any():
            await response.write(piece)
    except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError):
        # The header is sent: only the end of the connection can tell that the log is not complete.
        response.force_close()
        return response
    await response.write_eof()
    return response
