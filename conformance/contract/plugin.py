"""Calls on a driver's sockets, one at a time, exactly as sent and answered: the kit in the kubelet's place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from conformance.contract.claims import Claim
from node_api import services, sockets
from node_api.messages import message_types

CALL_SECONDS = 45.0
"""The kubelet's own limit for Prepare and Unprepare."""
INFO_SECONDS = 5.0


@dataclass(frozen=True)
class Info:
    """The answer to GetInfo."""

    type: str
    name: str
    endpoint: str
    supported_versions: tuple[str, ...]

    @property
    def dra_versions(self) -> tuple[str, ...]:
        """The DRAPlugin versions among the supported ones that exist, in the driver's order."""
        return tuple(version for version in self.supported_versions if version in services.DRA_SERVICES)


@dataclass(frozen=True, order=True)
class PreparedDevice:
    """One device of an answer to Prepare; request names and CDI ids in canonical order."""

    pool: str
    device: str
    requests: tuple[str, ...]
    cdi_ids: tuple[str, ...]

    def __str__(self) -> str:
        ids = ", ".join(self.cdi_ids) or "no CDI id"
        return f"{self.pool}/{self.device} for {', '.join(self.requests) or 'every request'} ({ids})"


@dataclass(frozen=True)
class Prepared:
    """The answer for one claim: devices in canonical order, or an error."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        return f"error {self.error!r}" if self.error else "; ".join(map(str, self.devices)) or "no devices"


class CallFailed(Exception):  # noqa: N818 - an answer of the driver, not a fault of the kit
    """The RPC as a whole failed."""

    def __init__(self, method: str, code: str, details: str) -> None:
        super().__init__(f"{method} failed: {code} {details}".rstrip())
        self.code = code
        self.details = details

    @property
    def answered(self) -> bool:
        """Whether the driver itself answered, with an error, and serves the method."""
        return self.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNIMPLEMENTED")


@contextlib.contextmanager
def _failures(method: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise CallFailed(method, error.code().name, error.details() or "") from None


def get_info(registration_socket: Path, timeout: float = INFO_SECONDS) -> Info:
    """GetInfo on a registration socket. Raises CallFailed."""
    with sockets.channel(registration_socket) as channel, _failures("GetInfo"):
        answer = _call(channel, services.REGISTRATION, services.GET_INFO, {}, timeout)
    return Info(answer.type, answer.name, answer.endpoint, tuple(answer.supported_versions))


def notify(registration_socket: Path, *, registered: bool, error: str = "") -> None:
    """NotifyRegistrationStatus on a registration socket. Raises CallFailed."""
    fields = {"plugin_registered": registered, "error": error}
    with sockets.channel(registration_socket) as channel, _failures("NotifyRegistrationStatus"):
        _call(channel, services.REGISTRATION, services.NOTIFY_REGISTRATION_STATUS, fields, INFO_SECONDS)


def prepare(
    endpoint: Path, version: str, claims: Sequence[Claim], timeout: float = CALL_SECONDS
) -> dict[str, Prepared]:
    """NodePrepareResources: the answer by claim UID. Raises CallFailed."""
    with sockets.channel(endpoint) as channel, _failures(services.NODE_PREPARE_RESOURCES):
        answer = _call(channel, version, services.NODE_PREPARE_RESOURCES, _claims(claims), timeout)
    return {
        uid: Prepared(
            tuple(
                sorted(
                    PreparedDevice(
                        device.pool_name,
                        device.device_name,
                        tuple(sorted(device.request_names)),
                        tuple(sorted(device.cdi_device_ids)),
                    )
                    for device in entry.devices
                )
            ),
            entry.error,
        )
        for uid, entry in answer.claims.items()
    }


def unprepare(
    endpoint: Path, version: str, claims: Sequence[Claim], timeout: float = CALL_SECONDS
) -> dict[str, str]:
    """NodeUnprepareResources: error text (empty for success) by claim UID. Raises CallFailed."""
    with sockets.channel(endpoint) as channel, _failures(services.NODE_UNPREPARE_RESOURCES):
        answer = _call(channel, version, services.NODE_UNPREPARE_RESOURCES, _claims(claims), timeout)
    return {uid: entry.error for uid, entry in answer.claims.items()}


def _claims(claims: Sequence[Claim]) -> dict[str, object]:
    return {
        "claims": [{"namespace": claim.namespace, "uid": claim.uid, "name": claim.name} for claim in claims]
    }


def _call(channel: grpc.Channel, service: str, method: str, fields: dict[str, object], timeout: float) -> Any:
    full = services.full_method(service, method)
    types = message_types(full)
    assert types is not None, full  # noqa: S101 - the services called here are all known
    call: Any = channel.unary_unary(
        full,
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=types.response.FromString,
    )
    return call(types.request(**fields), timeout=timeout)
