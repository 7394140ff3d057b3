"""A driver of a few lines for tests of kubelet and proxy: real gRPC servers, answers set by the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from clusters.embedded.kubelet.plugins import ClaimReference
from node_api import services, sockets
from node_api.messages import MODULES, message_types

NAME = "small.example.com"
CLAIM = ClaimReference("ns", "c", "u")
SOON = 10.0


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Poll: what is waited for happens in threads of gRPC, of the kubelet and of the proxy."""
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {SOON} s: {what}")


class SmallDriver:
    """Registration server and service server; every call is recorded as (service, method, request)."""

    def __init__(
        self, root: Path, name: str = NAME, socket: str = "dra.sock", registration: str = ""
    ) -> None:
        self.root = root
        self.name = name
        self.endpoint = root / "plugins" / name / socket
        self.registration_socket = root / "registry" / (registration or f"{name}-reg.sock")
        self.info: dict[str, Any] = {
            "type": "DRAPlugin",
            "name": name,
            "endpoint": str(self.endpoint),
            "supported_versions": [services.DRA_V1, services.DRA_V1BETA1, services.HEALTH_V1],
        }
        self.calls: list[tuple[str, str, Any]] = []
        self.notified: list[tuple[bool, str]] = []
        self.deadlines: list[float] = []
        self.cancelled = threading.Event()
        self.wait = threading.Event()
        self.wait.set()
        self.entered = threading.Event()
        self.fail: dict[str, tuple[grpc.StatusCode, str]] = {}
        self.claim_error = ""
        self.rename: dict[str, str] = {}
        self.drop: set[str] = set()
        self.extra_devices: dict[str, Any] = {}
        self.reports = 3
        self._served: list[sockets.ServedSocket] = []

    def _unary(self, service: str, method: str) -> grpc.RpcMethodHandler:
        full = services.full_method(service, method)
        types = message_types(full)
        assert types is not None

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            self.calls.append((service, method, request))
            self.deadlines.append(context.time_remaining() or 0.0)
            context.add_callback(lambda: None if context.code() else self.cancelled.set())
            self.entered.set()
            while not self.wait.wait(0.01) and context.is_active():
                pass
            if method in self.fail:
                context.abort(*self.fail[method])
            return self._answer(service, method, request)

        return grpc.unary_unary_rpc_method_handler(
            answer, types.request.FromString, types.response.SerializeToString
        )

    def _answer(self, service: str, method: str, request: Any) -> Any:
        types = message_types(services.full_method(service, method))
        assert types is not None
        if method == services.GET_INFO:
            return types.response(**self.info)
        if method == services.NOTIFY_REGISTRATION_STATUS:
            self.notified.append((request.plugin_registered, request.error))
            return types.response()
        response: Any = types.response()
        for claim in request.claims:
            if claim.uid in self.drop:
                continue
            entry = response.claims[self.rename.get(claim.uid, claim.uid)]
            entry.error = self.claim_error
            if method == services.NODE_PREPARE_RESOURCES:
                entry.devices.add(
                    request_names=["r"],
                    pool_name="p",
                    device_name="d",
                    cdi_device_ids=[f"a.com/c={claim.uid}"],
                    **self.extra_devices,
                )
        return response

    def _health(self, service: str) -> grpc.RpcMethodHandler:
        module = MODULES[service]

        def stream(request: Any, context: grpc.ServicerContext) -> Any:
            self.calls.append((service, services.NODE_WATCH_RESOURCES, request))
            context.add_callback(self.cancelled.set)
            for number in range(self.reports):
                device = {"pool_name": "p", "device_name": f"d{number}"}
                yield module.NodeWatchResourcesResponse(devices=[{"device": device, "health": "HEALTHY"}])
            while not self.wait.wait(0.01) and context.is_active():
                pass

        return grpc.unary_stream_rpc_method_handler(
            stream,
            module.NodeWatchResourcesRequest.FromString,
            module.NodeWatchResourcesResponse.SerializeToString,
        )

    def _server(self, handlers: dict[str, dict[str, grpc.RpcMethodHandler]]) -> grpc.Server:
        server = grpc.server(futures.ThreadPoolExecutor(8))
        for service, methods in handlers.items():
            name = services.FULL_NAMES.get(service, service)
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
        return server

    def serve_plugin(self) -> None:
        calls = (services.NODE_PREPARE_RESOURCES, services.NODE_UNPREPARE_RESOURCES)
        handlers = {
            service: {method: self._unary(service, method) for method in calls}
            for service in services.DRA_SERVICES
        }
        for service in services.HEALTH_SERVICES:
            handlers[service] = {services.NODE_WATCH_RESOURCES: self._health(service)}
        self._served.append(sockets.serve(self._server(handlers), self.endpoint))

    def serve_registration(self) -> None:
        calls = (services.GET_INFO, services.NOTIFY_REGISTRATION_STATUS)
        handlers = {
            services.REGISTRATION: {method: self._unary(services.REGISTRATION, method) for method in calls}
        }
        self._served.append(sockets.serve(self._server(handlers), self.registration_socket))

    def start(self) -> SmallDriver:
        self.serve_plugin()
        self.serve_registration()
        return self

    def stop(self, *, keep_files: bool = False) -> None:
        """Stop; with `keep_files` the socket files stay as after a SIGKILL."""
        self.wait.set()
        for served in reversed(self._served):
            if keep_files:
                served.server.stop(None).wait()
            else:
                served.close()
        self._served.clear()

    def methods(self) -> list[str]:
        return [method for _, method, _ in self.calls]
