"""The API server: from a TLS connection to an answer.

A request passes authentication, impersonation, authorization, decoding, mutating admission, preparation and
defaulting, validation, validating admission and storage, in this order.
"""

from __future__ import annotations

import asyncio
import gzip
import inspect
import uuid
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from clusters import request_info, tls
from clusters.api_status import ApiError, bad_request
from clusters.embedded.apiserver import bootstrap, codec, negotiation, node_proxy, options, routes
from clusters.embedded.apiserver.admission.chain import Chain
from clusters.embedded.apiserver.admission.plugin import Context
from clusters.embedded.apiserver.auth import authorizer as authorization
from clusters.embedded.apiserver.auth.attributes import Attributes
from clusters.embedded.apiserver.auth.authentication import Authenticator
from clusters.embedded.apiserver.auth.impersonation import impersonate
from clusters.embedded.apiserver.auth.rbac import Rbac
from clusters.embedded.apiserver.auth.tokens import TokenIssuer
from clusters.embedded.apiserver.call import Api, Call, Reply
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.discovery import Discovery
from clusters.embedded.apiserver.gates import enabled_gates
from clusters.embedded.apiserver.handlers.watch import watch
from clusters.embedded.apiserver.openapi import OpenApi
from clusters.embedded.apiserver.plain_paths import PlainPaths, not_found
from clusters.embedded.apiserver.pod_logs import stream_log
from clusters.embedded.apiserver.resource_table import TABLE
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import ResourceKey, Store
from clusters.embedded.apiserver.transform import Transformer
from clusters.embedded.apiserver.warning_headers import add_warnings
from clusters.gates import GATES, LATEST
from clusters.http_server import http_server, text_headers
from clusters.open_sockets import OpenSockets
from clusters.tls import Certificates
from clusters.tls_listener import TlsListener

_COMPRESS_FROM: Final = 128 * 1024
_PRETTY_AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")
# Requests that wait for their body or for a later revision are cut off; all others end at once.
_STOP_SECONDS: Final = 0.5
_KEEP_ALIVE: Final = 3600.0
_EVENTS: Final = ResourceKey("", "events")
# Statuses of this group cannot be shown as tables.
_WITHOUT_STATUS_TABLES: Final = "resource.k8s.io"
_NO_BODY: Final = ("GET", "HEAD")


class ListenError(RuntimeError):
    """The server cannot listen on its address."""


@dataclass
class ServerState:
    """What survives a restart of a server: its objects, its certificates and its port."""

    store: Store
    certificates: Certificates
    port: int = 0


class ApiServer:
    """One API server in the running event loop."""

    def __init__(self, config: ServerConfig, state: ServerState | None = None) -> None:
        """`state` of an earlier server makes this one its continuation."""
        self._config = config
        if state is None:
            state = ServerState(
                Store(config.history, config.watch_queue), tls.generate(config.host), config.port
            )
        self.state = state
        gates = enabled_gates(config.feature_gates)
        resources = Resources(config.runtime_config)
        store = state.store
        issuer = TokenIssuer(config.clock)
        authorizer = authorization.standard(store)
        self._api = Api(
            config=config,
            store=store,
            resources=resources,
            gates=gates,
            authenticator=Authenticator(
                static_tokens=config.tokens,
                issuer=issuer,
                reader=store,
                clock=config.clock,
                allow_anonymous=config.anonymous,
            ),
            authorizer=authorizer,
            rbac=Rbac(store),
            issuer=issuer,
            admission=Chain(
                Context(store, authorizer, gates, store.update, resources, config.clock),
                disable=config.disabled_admission,
            ),
            outgoing=OpenSockets(),
        )
        self._discovery = Discovery(resources)
        self._openapi = OpenApi(resources)
        self._paths: PlainPaths | None = None
        self._http: web.Server | None = None
        self._listener: TlsListener | None = None
        for resource in TABLE:
            for name in resource.indexed:
                store.index(resource.key, name, resource.fields[name])
        store.expire_after(_EVENTS, config.event_ttl, config.clock)
        bootstrap.populate(store, resources, gates, config.clock())

    @property
    def store(self) -> Store:
        """The stored objects; to be used in the server's event loop only."""
        return self.state.store

    @property
    def ca_pem(self) -> bytes:
        """The certificate authority that clients must trust, as PEM."""
        return self.state.certificates.ca_pem

    @property
    def url(self) -> str:
        """Where the server listens, as https://HOST:PORT."""
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        return f"https://{host}:{self.state.port}"

    async def start(self) -> None:
        """Listen. Raises ListenError when the address cannot be had."""
        http = http_server(self._handle, keepalive=_KEEP_ALIVE)
        context = self.state.certificates.server_context()
        host = self._config.host
        listener = TlsListener(http, context)
        try:
            self.state.port = listener.start(host, self.state.port)
        except OSError as error:
            raise ListenError(
                f"the API server cannot listen on {host}:{self.state.port}: {error.strerror or error}; "
                "choose another port (0 takes a free one) or stop the process that uses it"
            ) from error
        self._http, self._listener = http, listener
        defaults = {name: gate.default for name, gate in GATES[LATEST].items()}
        values = {**defaults, **self._config.feature_gates}
        self._paths = PlainPaths(self._discovery, self._openapi, f"{host}:{self.state.port}", values)

    async def stop(self) -> None:
        """End all watches cleanly, then close every connection. The state can start another server."""
        if self._listener is None or self._http is None:
            return
        self._listener.close()
        self.store.close_watchers()
        self._http.pre_shutdown()
        await self._http.shutdown(_STOP_SECONDS)
        await self._listener.break_connections()
        await self._api.outgoing.wait_closed(polite=False)
        self._listener = self._http = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        accept = ",".join(request.headers.getall("Accept", [])) or None
        call: Call | None = None
        headers = {"Audit-Id": str(uuid.uuid4()), "Cache-Control": "no-cache, private"}
        try:
            call = self._admit(request)
            return await self._dispatch(call, headers)
        except ApiError as error:
            return self._error(request, accept, error, headers, call)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except RecursionError:
            # Python's stack ends before the 10,000 levels that a real server takes.
            failure = bad_request("the request holds a document that exceeds the max depth")
            return self._error(request, accept, failure, headers, call)
        except Exception as error:
            self._config.log.exception("%s %s failed", request.method, request.path_qs)
            message = f"Internal error occurred: {error}"
            details = {"causes": [{"message": str(error)}]}
            failure = ApiError(500, "InternalError", message, details)
            return self._error(request, accept, failure, headers, call)

    def _admit(self, request: web.BaseRequest) -> Call:
        """Authentication, impersonation and authorization."""
        api = self._api
        query = {key: request.query[key] for key in request.query}
        info = request_info.parse(request.method, unquote(request.rel_url.raw_path), query)
        sent = text_headers(request.headers)
        user = impersonate(api.authenticator.authenticate(sent), sent, api.authorizer)
        attributes = Attributes.of_request(user, info)
        decision = api.authorizer.authorize(attributes)
        if not decision.allowed:
            raise authorization.refusal(attributes, decision.reason)
        return Call(
            api=api,
            info=info,
            user=user,
            query=query,
            dry_run=request.query.getall("dryRun", []),
            headers=sent,
            body=b"",
            http=request,
        )

    async def _dispatch(self, call: Call, headers: dict[str, str]) -> web.StreamResponse:
        info = call.info
        if not info.is_resource:
            return self._plain(call, headers)
        api = self._api
        # /api holds the group without a name, /apis all others.
        known = (info.prefix == "api") == (not info.group)
        if not known or info.version not in api.resources.groups().get(info.group, ()):
            return self._finish(not_found(), headers)
        served = api.resources.find(info.group, info.version, info.resource)
        if served is None:
            raise routes.no_such_resource()
        if served.resource.key == _EVENTS:
            api.store.expire(_EVENTS, api.now())
        if info.verb == "watch":
            if "watch" not in served.resource.verbs:
                raise routes.method_not_allowed()
            self._warn_deprecated(call, served)
            return await watch(call, served, headers)
        if routes.is_log(call, served):
            return await stream_log(call, headers)
        if node_proxy.is_node_proxy(call, served):
            return await node_proxy.forward(call, headers)
        handler = routes.find(call, served)
        self._warn_deprecated(call, served)
        allowed = negotiation.LIST if info.verb in ("list", "deletecollection") else negotiation.OBJECT
        if info.subresource and served.resource.key.group == _WITHOUT_STATUS_TABLES:
            allowed = negotiation.NO_TABLE
        form = negotiation.negotiate(call.accept, allowed)
        if call.http.method not in _NO_BODY:
            call.body = await self._read(call.http)
        result = handler(call, served)
        reply = await result if inspect.isawaitable(result) else result
        return self._reply(call, form, reply, headers)

    def _plain(self, call: Call, headers: dict[str, str]) -> web.Response:
        if self._paths is None:
            raise ApiError(503, "ServiceUnavailable", "the server is stopping")
        return self._finish(self._paths.answer(call, pretty=self._pretty(call.http)), headers)

    @staticmethod
    def _finish(response: web.Response, headers: dict[str, str]) -> web.Response:
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response

    @staticmethod
    def _warn_deprecated(call: Call, served: Served) -> None:
        deprecation = served.resource.deprecated.get(served.version)
        if deprecation is not None:
            call.warnings.append(
                f"{served.api_version} {served.resource.kind} is deprecated in v{deprecation.since}+, "
                f"unavailable in v{deprecation.gone}+"
            )

    async def _read(self, request: web.BaseRequest) -> bytes:
        limit = self._config.max_body
        length = request.content_length
        if length is None or length <= limit:
            body = bytearray()
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    break
            else:
                return bytes(body)
        message = f"Request entity too large: limit is {limit}"
        raise ApiError(413, "RequestEntityTooLarge", message, None, {"Connection": "close"})

    @staticmethod
    def _pretty(request: web.BaseRequest) -> bool:
        if "pretty" in request.query:
            return options.truth(request.query["pretty"])
        return request.headers.get("User-Agent", "").startswith(_PRETTY_AGENTS)

    def _reply(
        self, call: Call, form: negotiation.Negotiated, reply: Reply, headers: dict[str, str]
    ) -> web.Response:
        body = reply.body
        if reply.served is not None and form.transform and reply.kind != "status":
            include = call.query.get("includeObject", "")
            transformer = Transformer(reply.served, form, include, self._api.now)
            body = transformer.list_object(body) if reply.kind == "list" else transformer.object(body)
        pretty, last = self._pretty(call.http), self.store.last
        if last is not None and last.object is body and form.media_type == negotiation.JSON and not pretty:
            # What was just written goes out to watchers too.
            data = codec.encode_changed(last, body, body["apiVersion"])
        else:
            data = codec.encode(body, form.media_type, pretty=pretty)
        result = {**headers, "Content-Type": form.media_type}
        if len(data) > _COMPRESS_FROM and "gzip" in call.headers.get("Accept-Encoding", ""):
            data = gzip.compress(data, compresslevel=1)
            result |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        response = web.Response(status=reply.code, body=data, headers=result)
        add_warnings(response.headers, call.warnings)
        return response

    def _error(
        self,
        request: web.BaseRequest,
        accept: str | None,
        error: ApiError,
        headers: dict[str, str],
        call: Call | None,
    ) -> web.Response:
        media_type = negotiation.JSON if error.code in (406, 415) else negotiation.error_form(accept)
        data = codec.encode(error.status(), media_type, pretty=self._pretty(request))
        result = {
            **headers,
            "Content-Type": media_type,
            **error.headers,
        }
        response = web.Response(status=error.code, body=data, headers=result)
        add_warnings(response.headers, call.warnings if call else ())
        if error.headers.get("Connection") == "close":
            response.force_close()
        return response
