"""The gRPC services of a driver: registration, DRAPlugin in both versions, and the standard health check."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import grpc

from driver.sdk import log
from driver.sdk.errors import ClaimError
from driver.sdk.preparer import AnsweredDevice
from driver.sdk.readiness import Readiness
from driver.sdk.records import ClaimRef
from node_api.gen import dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from node_api.services import (
    DRA_SERVICES,
    DRA_V1,
    DRA_V1BETA1,
    FULL_NAMES,
    GET_INFO,
    NODE_PREPARE_RESOURCES,
    NODE_UNPREPARE_RESOURCES,
    NOTIFY_REGISTRATION_STATUS,
    PLUGIN_TYPE,
    REGISTRATION,
)

_WORKERS: Final = 64
"""Calls at the same time. Prepares that hang must not keep unprepares from being heard."""

REGISTERED: Final = "registered"
"""The condition that a kubelet knows the driver."""

HEALTH: Final = "grpc.health.v1.Health"
NOT_READY_METADATA: Final = "not-ready-bin"
"""Trailing metadata of the health answer: one `condition: reason` for each reason, UTF-8."""


class Claims(Protocol):
    """What is called for the claims of a request, one by one."""

    def call(self, refs: Sequence[ClaimRef], active: Callable[[], bool]) -> AbstractContextManager[None]:
        """The frame of a call for these claims; `active`: whether the caller still waits for the answer."""

    def prepare(self, ref: ClaimRef) -> list[AnsweredDevice]:
        """Devices of the claim, or ClaimError."""

    def unprepare(self, ref: ClaimRef) -> None:
        """Nothing, or ClaimError."""


def _unary(behaviour: Callable[..., Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=request.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def _server(handlers: Sequence[grpc.GenericRpcHandler]) -> grpc.Server:
    # Without this option gRPC lets several servers bind one address, which hides a second instance.
    options = [("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(_WORKERS, thread_name_prefix="rpc"), options=options)
    server.add_generic_rpc_handlers(tuple(handlers))
    return server


def registration_server(driver: str, endpoint: str, readiness: Readiness) -> grpc.Server:
    """The server for the registration socket. It answers as often as kubelets ask."""

    def get_info(_request: Any, _context: Any) -> Any:
        return registration_pb2.PluginInfo(
            type=PLUGIN_TYPE, name=driver, endpoint=endpoint, supported_versions=list(DRA_SERVICES)
        )

    def notify(request: Any, _context: Any) -> Any:
        if request.plugin_registered:
            log.info("registered by the kubelet", driver=driver)
            readiness.set(REGISTERED)
        else:
            reason = f"the kubelet refused the registration: {request.error or 'no reason given'}"
            log.error("registration refused", driver=driver, reason=request.error)
            readiness.set(REGISTERED, reason)
        return registration_pb2.RegistrationStatusResponse()

    handlers = {
        GET_INFO: _unary(get_info, registration_pb2.InfoRequest),
        NOTIFY_REGISTRATION_STATUS: _unary(notify, registration_pb2.RegistrationStatus),
    }
    return _server([grpc.method_handlers_generic_handler(REGISTRATION, handlers)])


def _per_claim(what: str, ref: ClaimRef, call: Callable[[ClaimRef], Any]) -> tuple[Any, str]:
    """Result and error of one claim. A defect of the driver is that claim's error too, with a traceback."""
    try:
        return call(ref), ""
    except ClaimError as problem:
        log.warning(f"{what} failed", claim=ref, uid=ref.uid, problem=problem)
        return None, str(problem)
    except Exception as problem:  # noqa: BLE001 - the other claims of the call must be answered
        log.error(f"{what} failed", claim=ref, uid=ref.uid, problem=traceback.format_exc())
        return None, f"internal error: {type(problem).__name__}: {problem}"


def _references(request: Any) -> list[ClaimRef]:
    """The claims of a request, each once."""
    found = (ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims)
    return list({ref.uid: ref for ref in found}.values())


def _each(claims: Claims, request: Any, context: Any) -> Iterator[ClaimRef]:
    """The claims of a request in the frame of its call, as long as the caller waits for the answer."""
    refs = _references(request)
    with claims.call(refs, context.is_active):
        for ref in refs:
            # The caller repeats a call that it has given up; its other claims are for others by then.
            if context.is_active():
                yield ref


class _Plugin:
    """DRAPlugin of one version; `pb` holds its messages."""

    def __init__(self, pb: Any, claims: Claims, *, share_ids: bool) -> None:
        self._pb = pb
        self._claims = claims
        self._share_ids = share_ids

    def prepare(self, request: Any, context: Any) -> Any:
        response = self._pb.NodePrepareResourcesResponse()
        for ref in _each(self._claims, request, context):
            devices, error = _per_claim("prepare", ref, self._claims.prepare)
            answer = response.claims[ref.uid]
            answer.error = error
            for device in devices or ():
                answer.devices.append(self._device(device))
        return response

    def _device(self, answered: AnsweredDevice) -> Any:
        device = answered.device
        message = self._pb.Device(
            request_names=device.requests,
            pool_name=device.pool,
            device_name=device.name,
            cdi_device_ids=answered.cdi_ids,
        )
        if self._share_ids and device.share_id:
            message.share_id = device.share_id
        return message

    def unprepare(self, request: Any, context: Any) -> Any:
        response = self._pb.NodeUnprepareResourcesResponse()
        for ref in _each(self._claims, request, context):
            _, error = _per_claim("unprepare", ref, self._claims.unprepare)
            response.claims[ref.uid].error = error
        return response

    def handler(self, service: str) -> grpc.GenericRpcHandler:
        handlers = {
            NODE_PREPARE_RESOURCES: _unary(self.prepare, self._pb.NodePrepareResourcesRequest),
            NODE_UNPREPARE_RESOURCES: _unary(self.unprepare, self._pb.NodeUnprepareResourcesRequest),
        }
        return grpc.method_handlers_generic_handler(FULL_NAMES[service], handlers)


def _health_handler(readiness: Readiness) -> grpc.GenericRpcHandler:
    """`grpc.health.v1.Health/Check` for any service name. The answer is one enum: 1 serving, 2 not."""

    def check(_request: bytes, context: grpc.ServicerContext) -> bytes:
        reasons = readiness.reasons()
        context.set_trailing_metadata(
            tuple((NOT_READY_METADATA, f"{name}: {reason}".encode()) for name, reason in reasons.items())
        )
        return b"\x08\x02" if reasons else b"\x08\x01"

    return grpc.method_handlers_generic_handler(
        HEALTH, {"Check": grpc.unary_unary_rpc_method_handler(check, bytes, bytes)}
    )


def plugin_server(claims: Claims, readiness: Readiness) -> grpc.Server:
    """The server for the service socket: both DRAPlugin versions and the health check."""
    return _server(
        [
            _Plugin(dra_v1_pb2, claims, share_ids=True).handler(DRA_V1),
            _Plugin(dra_v1beta1_pb2, claims, share_ids=False).handler(DRA_V1BETA1),
            _health_handler(readiness),
        ]
    )
