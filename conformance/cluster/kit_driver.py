"""A DRA driver inside the kit, whose every answer a test can set.

It takes the place of a driver where the cluster is the subject. Its conventions: opaque parameters are a flat object
of strings; each key becomes an environment variable `user_KEY` (from the claim) or `admin_KEY` (from the class) of
the containers that use the request, and `claim_CLAIM_REQUEST=true` (what is no letter or digit is `_`) tells which
requests of which claims a container has. One CDI file per claim.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc

from clusters.client import Client, ClientError
from clusters.interface import NodePaths
from node_api import cdi, services, sockets
from node_api.messages import message_types

RESOURCE_API = "resource.k8s.io/v1"
_THREADS = 16
_BLOCK_POLL = 0.02


@dataclass(frozen=True)
class Call:
    """One call of the kubelet: method, time (monotonic), and the claims as (namespace, name, uid)."""

    method: str
    time: float
    service: str = ""
    claims: tuple[tuple[str, str, str], ...] = ()


@dataclass
class Faults:
    """What the driver does wrong at the moment; an empty text means that it does not.

    `prepare` and `unprepare` are errors of each claim, the `_rpc` ones fail the whole call. While `block_prepare` or
    `block_unprepare` is set, calls wait. `prepare_claims` holds errors of single claims by name.
    """

    get_info: str = ""
    notify: str = ""
    prepare: str = ""
    prepare_rpc: str = ""
    unprepare: str = ""
    unprepare_rpc: str = ""
    prepare_claims: Mapping[str, str] = field(default_factory=dict)
    cdi_ids: Sequence[str] | None = None
    block_prepare: threading.Event = field(default_factory=threading.Event)
    block_unprepare: threading.Event = field(default_factory=threading.Event)


class KitDriver:
    """One instance of the kit's driver on one node. Thread safe."""

    def __init__(
        self,
        name: str,
        node: str,
        paths: NodePaths,
        client: Client,
        *,
        instance: str = "",
        versions: Sequence[str] = services.DRA_SERVICES,
    ) -> None:
        """`instance` sets the sockets of several instances on one node apart; `client` reads claims."""
        self.name = name
        self.node = node
        self.faults = Faults()
        self.prepared: dict[str, tuple[str, str]] = {}
        """Claims that are prepared: namespace and name by UID."""
        self._paths = paths
        self._client = client
        self._versions = tuple(versions)
        suffix = f"-{instance}" if instance else ""
        self.endpoint = paths.plugins / name / f"dra{suffix}.sock"
        self.registration = paths.registry / f"{name}{suffix}-reg.sock"
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        self._service: sockets.ServedSocket | None = None
        self._registrar: sockets.ServedSocket | None = None

    # Life cycle

    def start(self) -> KitDriver:
        """Serve both sockets."""
        self.endpoint.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.serve_plugin()
        self.serve_registration()
        return self

    def serve_plugin(self) -> None:
        """Serve the service socket alone."""
        self.endpoint.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        methods = (services.NODE_PREPARE_RESOURCES, services.NODE_UNPREPARE_RESOURCES)
        handlers = {
            version: {method: self._handler(version, method) for method in methods}
            for version in self._versions
        }
        self._service = sockets.serve(_server(handlers), self.endpoint)

    def serve_registration(self) -> None:
        """Serve the registration socket alone."""
        methods = (services.GET_INFO, services.NOTIFY_REGISTRATION_STATUS)
        handlers = {
            services.REGISTRATION: {
                method: self._handler(services.REGISTRATION, method) for method in methods
            }
        }
        self._registrar = sockets.serve(_server(handlers), self.registration)

    def stop_registration(self) -> None:
        """Take away the registration socket."""
        registrar, self._registrar = self._registrar, None
        if registrar is not None:
            registrar.close()

    def stop_plugin(self) -> None:
        """Take away the service socket."""
        service, self._service = self._service, None
        if service is not None:
            service.close()

    def stop(self) -> None:
        """Take away both sockets; blocked calls end."""
        self.faults.block_prepare.clear()
        self.faults.block_unprepare.clear()
        self.stop_registration()
        self.stop_plugin()

    def restart(self) -> None:
        """Stop and start, as a driver process would; what is prepared is remembered."""
        self.stop()
        self.start()

    # What was seen

    def calls(self, method: str = "", since: float = 0.0) -> list[Call]:
        """The calls of the kubelet so far, of one method or all, from a monotonic time on."""
        with self._lock:
            return [
                call for call in self._calls if call.time >= since and (not method or call.method == method)
            ]

    def prepares(self, claim: str = "") -> list[Call]:
        """NodePrepareResources calls, of a claim by name or UID or all."""
        return _of(self.calls(services.NODE_PREPARE_RESOURCES), claim)

    def unprepares(self, claim: str = "") -> list[Call]:
        """NodeUnprepareResources calls, of a claim by name or UID or all."""
        return _of(self.calls(services.NODE_UNPREPARE_RESOURCES), claim)

    def notified(self) -> int:
        """How often the kubelet reported a successful or failed registration."""
        return len(self.calls(services.NOTIFY_REGISTRATION_STATUS))

    # Answers

    def _handler(self, service: str, method: str) -> Any:
        types = message_types(services.full_method(service, method))
        assert types is not None, method  # noqa: S101 - the methods served here are all known

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            claims = tuple(
                (claim.namespace, claim.name, claim.uid) for claim in getattr(request, "claims", ())
            )
            with self._lock:
                self._calls.append(Call(method, time.monotonic(), service, claims))
            return self._answer(method, types.response, claims, context)

        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=types.request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _answer(
        self,
        method: str,
        response: Any,
        claims: Sequence[tuple[str, str, str]],
        context: grpc.ServicerContext,
    ) -> Any:
        faults = self.faults
        if method == services.GET_INFO:
            _fail(context, faults.get_info)
            return response(
                type="DRAPlugin",
                name=self.name,
                endpoint=str(self.endpoint),
                supported_versions=list(self._versions),
            )
        if method == services.NOTIFY_REGISTRATION_STATUS:
            _fail(context, faults.notify)
            return response()
        result = response()
        if method == services.NODE_PREPARE_RESOURCES:
            _wait(faults.block_prepare, context)
            _fail(context, faults.prepare_rpc)
            for namespace, name, uid in claims:
                self._prepare(result.claims[uid], namespace, name, uid)
        else:
            _wait(faults.block_unprepare, context)
            _fail(context, faults.unprepare_rpc)
            for _, _, uid in claims:
                self._unprepare(result.claims[uid], uid)
        return result

    def _prepare(self, entry: Any, namespace: str, name: str, uid: str) -> None:
        error = self.faults.prepare or self.faults.prepare_claims.get(name, "")
        if error:
            entry.error = error
            return
        try:
            claim = self._client.get(RESOURCE_API, "resourceclaims", name, namespace)
        except ClientError as problem:
            entry.error = f"retrieve claim {namespace}/{name}: {problem}"
            return
        allocation = (claim.get("status") or {}).get("allocation")
        if claim["metadata"]["uid"] != uid or not allocation:
            entry.error = f"claim {namespace}/{name} was replaced or is not allocated"
            return
        devices = allocation.get("devices") or {}
        own = [result for result in devices.get("results") or [] if result["driver"] == self.name]
        edits = {}
        for result in own:
            base = result["request"].split("/")[0]
            edits[base] = _environment(name, result["request"], devices.get("config") or [], self.name)
        self._write(uid, edits)
        for result in own:
            base = result["request"].split("/")[0]
            ids = (
                [f"{self.name}/test={_device(uid, base)}"]
                if self.faults.cdi_ids is None
                else self.faults.cdi_ids
            )
            fields: dict[str, Any] = {
                "request_names": [base],
                "pool_name": result["pool"],
                "device_name": result["device"],
                "cdi_device_ids": list(ids),
            }
            if result.get("shareID") and "share_id" in _device_fields(entry):
                fields["share_id"] = result["shareID"]
            entry.devices.add(**fields)
        with self._lock:
            self.prepared[uid] = (namespace, name)

    def _unprepare(self, entry: Any, uid: str) -> None:
        if self.faults.unprepare:
            entry.error = self.faults.unprepare
            return
        cdi.remove_spec(self._paths.cdi, _file(self.name, uid))
        with self._lock:
            self.prepared.pop(uid, None)

    def _write(self, uid: str, edits: Mapping[str, Mapping[str, str]]) -> None:
        devices = [
            {
                "name": _device(uid, request),
                "containerEdits": {"env": [f"{key}={value}" for key, value in environment.items()]},
            }
            for request, environment in edits.items()
        ]
        if devices:
            cdi.write_spec(
                self._paths.cdi,
                _file(self.name, uid),
                {"cdiVersion": "0.5.0", "kind": f"{self.name}/test", "devices": devices},
            )


def _environment(
    claim: str, request: str, configs: Sequence[Mapping[str, Any]], driver: str
) -> dict[str, str]:
    base = request.split("/")[0]
    result = {variable(claim, base): "true"}
    for config in configs:
        opaque = config.get("opaque") or {}
        requests = config.get("requests") or []
        if opaque.get("driver") != driver or (requests and request not in requests and base not in requests):
            continue
        prefix = "admin" if config.get("source") == "FromClass" else "user"
        for key, value in (opaque.get("parameters") or {}).items():
            result[f"{prefix}_{key}"] = str(value)
    return result


def variable(claim: str, request: str) -> str:
    """Name of the environment variable that says that a container has a request of a claim."""
    return re.sub(r"[^a-zA-Z0-9]", "_", f"claim_{claim}_{request}")


def _device_fields(entry: Any) -> Any:
    """Fields of a prepared device in this version of the service; v1beta1 has no share."""
    return entry.DESCRIPTOR.fields_by_name["devices"].message_type.fields_by_name


def _device(uid: str, request: str) -> str:
    return f"claim-{uid}-{request}"


def _file(driver: str, uid: str) -> str:
    return f"{driver}-{uid}.json"


def _of(calls: Sequence[Call], claim: str) -> list[Call]:
    return [call for call in calls if not claim or any(claim in reference[1:] for reference in call.claims)]


def _fail(context: grpc.ServicerContext, error: str) -> None:
    if error:
        context.abort(grpc.StatusCode.INTERNAL, error)


def _wait(block: threading.Event, context: grpc.ServicerContext) -> None:
    """Wait as long as the event is set and the caller is there."""
    pause = threading.Event()
    while block.is_set() and context.is_active():
        pause.wait(_BLOCK_POLL)


def _server(handlers: Mapping[str, Mapping[str, Any]]) -> grpc.Server:
    server = grpc.server(futures.ThreadPoolExecutor(_THREADS))
    for service, methods in handlers.items():
        full = services.FULL_NAMES.get(service, service)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(full, dict(methods)),))
    return server


@contextlib.contextmanager
def running(driver: KitDriver) -> Iterator[KitDriver]:
    """Start, and stop in the end."""
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()
