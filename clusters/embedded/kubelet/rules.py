"""What a kubelet decides about plugins, as pure functions: no sockets, threads or clock.

Texts are those of the real kubelet, because drivers log them and users search for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import grpc

from node_api.services import DRA_SERVICES, HEALTH_SERVICES

Reason = Literal["not-registered", "rpc", "claim", "unknown-claim", "skipped"]


class PluginError(Exception):
    """A call to a plugin failed; the text is the kubelet's.

    Attributes:
        reason: which rule failed. "rpc": the call as a whole; "claim": the plugin's error for one claim;
            "unknown-claim": an answer for a claim that was not asked for; "skipped": answers are missing.
        code: gRPC code of a failed call, otherwise None.
        devices: what a failed answer says of claims that it has nothing against, by their UID.
    """

    def __init__(self, text: str, reason: Reason, code: grpc.StatusCode | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.code = code
        self.devices: Mapping[str, tuple[PreparedDevice, ...]] = {}


@dataclass(frozen=True)
class ClaimReference:
    """What a kubelet tells a plugin about a claim."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class PreparedDevice:
    """A device as the plugin answered it; nothing is compared with the allocation.

    No request names means that the device serves all requests of the claim.
    """

    request_names: tuple[str, ...]
    pool_name: str
    device_name: str
    cdi_device_ids: tuple[str, ...]
    share_id: str | None = None


@dataclass(frozen=True)
class Backoff:
    """Waiting after failures: `initial` seconds, then `factor` times longer each time, at most `maximum`."""

    initial: float = 0.5
    factor: float = 2.0
    maximum: float = 122.0

    def delay(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row (at least one)."""
        # The exponent is bounded: the maximum is reached long before a float overflows.
        return float(min(self.maximum, self.initial * self.factor ** min(failures - 1, 64)))


def not_registered(driver: str) -> PluginError:
    """The error for a driver without a registered plugin."""
    return PluginError(f"DRA driver {driver} is not registered", "not-registered")


def _quoted(values: Iterable[str]) -> str:
    """A list of texts as Go prints it."""
    return f"[{' '.join(json.dumps(value, ensure_ascii=False) for value in values)}]"


def choose_service(driver: str, endpoint: str, versions: Sequence[str]) -> str:
    """Return the first entry of the plugin's list that a kubelet can call.

    Raises:
        ValueError: with the kubelet's text, if there is none.
    """
    if not versions:
        problem = "empty list of supported gRPC services (aka supported versions)"
    else:
        for version in versions:
            if version in DRA_SERVICES:
                return version
        problem = (
            f"none of services supported by the plugin ({_quoted(versions)}) "
            f"are supported by the kubelet ({_quoted(DRA_SERVICES)})"
        )
    raise ValueError(
        f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {problem}"
    )


def choose_health_service(versions: Sequence[str]) -> str | None:
    """Return the health service to use, by the kubelet's preference; None if the plugin has none."""
    return next((service for service in HEALTH_SERVICES if service in versions), None)


class Connectable(Protocol):
    """Something that is or is not connected."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""


Target = TypeVar("Target", bound=Connectable)


def call_target(plugins: Sequence[Target]) -> Target | None:
    """Choose among the plugins of a driver, oldest first: the newest connected one, else the newest."""
    for plugin in reversed(plugins):
        if plugin.connected:
            return plugin
    return plugins[-1] if plugins else None


_CODES = {
    grpc.StatusCode.OK: "OK",
    grpc.StatusCode.CANCELLED: "Canceled",
    grpc.StatusCode.UNKNOWN: "Unknown",
    grpc.StatusCode.INVALID_ARGUMENT: "InvalidArgument",
    grpc.StatusCode.DEADLINE_EXCEEDED: "DeadlineExceeded",
    grpc.StatusCode.NOT_FOUND: "NotFound",
    grpc.StatusCode.ALREADY_EXISTS: "AlreadyExists",
    grpc.StatusCode.PERMISSION_DENIED: "PermissionDenied",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "ResourceExhausted",
    grpc.StatusCode.FAILED_PRECONDITION: "FailedPrecondition",
    grpc.StatusCode.ABORTED: "Aborted",
    grpc.StatusCode.OUT_OF_RANGE: "OutOfRange",
    grpc.StatusCode.UNIMPLEMENTED: "Unimplemented",
    grpc.StatusCode.INTERNAL: "Internal",
    grpc.StatusCode.UNAVAILABLE: "Unavailable",
    grpc.StatusCode.DATA_LOSS: "DataLoss",
    grpc.StatusCode.UNAUTHENTICATED: "Unauthenticated",
}
_CONNECT_FAILURE = re.compile(
    r"connection refused|no such file or directory|permission denied", re.IGNORECASE
)


def code_text(code: grpc.StatusCode) -> str:
    """Return a code as gRPC for Go writes it."""
    return _CODES[code]


def rpc_text(code: grpc.StatusCode, details: str, endpoint: str) -> str:
    """Return a failed call as a Go client words it: "rpc error: code = Internal desc = boom"."""
    failure = _CONNECT_FAILURE.search(details)
    if code is grpc.StatusCode.UNAVAILABLE and failure:
        cause = f"dial unix {endpoint}: connect: {failure[0].lower()}"
        details = f'connection error: desc = "transport: Error while dialing: {cause}"'
    elif code is grpc.StatusCode.DEADLINE_EXCEEDED:
        details = "context deadline exceeded"
    return f"rpc error: code = {_CODES[code]} desc = {details}"


def _check(method: str, claims: Sequence[ClaimReference], errors: Mapping[str, str]) -> None:
    names = {claim.uid: claim.name for claim in claims}
    # Kubelets look at the answers in random order; here it is fixed.
    for uid in sorted(errors):
        if uid not in names:
            raise PluginError(f"{method} returned result for unknown claim UID {uid}", "unknown-claim")
        if errors[uid]:
            text = f"{method} failed for ResourceClaim {names[uid]}: {errors[uid]}"
            raise PluginError(text, "claim")
    missing = len(names) - len(errors)
    if missing > 0:
        raise PluginError(f"{method} skipped {missing} ResourceClaims", "skipped")


def check_prepare(claims: Sequence[ClaimReference], response: Any) -> dict[str, tuple[PreparedDevice, ...]]:
    """Return the devices by claim UID from a NodePrepareResourcesResponse of any version.

    Raises:
        PluginError: for an error of a claim, an unknown claim or a missing answer; its `devices` are those of the
            entries that came before.
    """
    entries = dict(response.claims)
    devices = {uid: tuple(map(_device, entry.devices)) for uid, entry in entries.items()}
    try:
        _check("NodePrepareResources", claims, {uid: entry.error for uid, entry in entries.items()})
    except PluginError as error:
        # A real kubelet takes what it looks at before the error, which is chance; after some tries it has all.
        asked = {claim.uid for claim in claims}
        error.devices = {uid: devices[uid] for uid in asked & set(devices) if not entries[uid].error}
        raise
    return devices


def _device(device: Any) -> PreparedDevice:
    return PreparedDevice(
        tuple(device.request_names),
        device.pool_name,
        device.device_name,
        tuple(device.cdi_device_ids),
        # Only v1 has the field, and there it may be absent.
        device.share_id if getattr(device, "share_id", "") else None,
    )


def check_unprepare(claims: Sequence[ClaimReference], response: Any) -> None:
    """Accept a NodeUnprepareResourcesResponse of any version.

    Raises:
        PluginError: for an error of a claim, an unknown claim or a missing answer.
    """
    errors = {uid: entry.error for uid, entry in dict(response.claims).items()}
    _check("NodeUnprepareResources", claims, errors)
