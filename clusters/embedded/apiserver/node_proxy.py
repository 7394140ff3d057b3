"""GET nodes/NAME/proxy/PATH: what a kubelet's HTTPS server has at a path, such as its metrics.

Source: kubernetes v1.37.2 `pkg/registry/core/node/rest` (ProxyREST), apimachinery v0.37.2 `pkg/util/proxy`.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
from aiohttp import web

from clusters.api_status import ApiError
from clusters.embedded.apiserver.call import Call
from clusters.embedded.apiserver.pod_logs import kubelet_session, kubelet_url, trust, unreachable
from clusters.embedded.apiserver.resources import Served


def is_node_proxy(call: Call, served: Served) -> bool:
    """Whether the request is for a kubelet, which answers as it likes. Only GET comes through."""
    is_node = not served.resource.group and served.resource.plural == "nodes"
    return (
        is_node
        and call.http.method == "GET"
        and len(call.info.parts) > 2
        and call.info.subresource == "proxy"
    )


async def forward(call: Call, headers: Mapping[str, str]) -> web.Response:
    """The kubelet's answer; raises ApiError 404 for a node that is not there, 503 for one that does not answer."""
    path = "/".join(call.info.parts[3:])
    url = f"{kubelet_url(call, call.info.parts[1])}/{path}"
    config = call.api.config
    sent = {"Authorization": f"Bearer {config.kubelet_token}"} if config.kubelet_token else {}
    try:
        async with (
            kubelet_session(call) as session,
            session.get(
                url, params=call.query, headers=sent, ssl=trust(config.kubelet_ca), allow_redirects=False
            ) as answer,
        ):
            kind = answer.headers.get("Content-Type", "text/plain")
            return web.Response(
                status=answer.status, body=await answer.read(), headers={**headers, "Content-Type": kind}
            )
    except (aiohttp.ClientError, TimeoutError) as error:
        message = f"error trying to reach service: {unreachable(error)}"
        raise ApiError(503, "ServiceUnavailable", message) from error
