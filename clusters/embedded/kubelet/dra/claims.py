"""Claims that a kubelet has prepared or is preparing, and what drivers answered for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.kubelet.dra.checkpoint import CheckpointFile, State
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.rules import ClaimReference, PreparedDevice

SKIP_PREPARE: Final = "NodePrepareResources"
SKIP_UNPREPARE: Final = "NodeUnprepareResources"
SKIP_ALL: Final = "*"


class ClaimError(Exception):
    """Claims of a Pod that cannot be prepared or unprepared now; the text is the kubelet's."""


@dataclass
class DriverState:
    """Of one driver in one claim: the devices it prepared, and which calls it does not need."""

    devices: tuple[PreparedDevice, ...] = ()
    skips: tuple[str, ...] = ()

    def skipped(self, operation: str) -> bool:
        """Whether the driver is not to be called for this operation."""
        return operation in self.skips or SKIP_ALL in self.skips


@dataclass
class ClaimInfo:
    """One claim. `prepared` and `unpreparing` do not survive the kubelet."""

    uid: str
    name: str
    namespace: str
    pods: set[str] = field(default_factory=set)
    drivers: dict[str, DriverState] = field(default_factory=dict)
    prepared: bool = False
    unpreparing: bool = False

    @property
    def reference(self) -> ClaimReference:
        """What drivers are told."""
        return ClaimReference(self.namespace, self.name, self.uid)

    def devices(self, request: str = "") -> Iterable[tuple[str, PreparedDevice]]:
        """Driver and device for each device that serves the request; "" means all."""
        for driver in sorted(self.drivers):
            for device in self.drivers[driver].devices:
                if not request or not device.request_names or request in device.request_names:
                    yield driver, device

    def cdi_devices(self, request: str = "") -> list[str]:
        """CDI names for the request."""
        return [name for _, device in self.devices(request) for name in device.cdi_device_ids]


def claim_info(claim: Object, *, optional_operations: bool) -> ClaimInfo:
    """What a kubelet takes from an allocated claim.

    Args:
        claim: the object.
        optional_operations: whether the gate DRAOptionalNodeOperations is on.

    Raises:
        ClaimError: the claim is not allocated, or needs a gate that is off.
    """
    metadata = claim["metadata"]
    allocation = (claim.get("status") or {}).get("allocation")
    if allocation is None:
        raise ClaimError(f"ResourceClaim {metadata['name']}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or []
    drivers = {}
    for driver in dict.fromkeys(result["driver"] for result in results):
        skips = _skips(
            [set(item.get("skipNodeOperations") or ()) for item in results if item["driver"] == driver]
        )
        if skips and not optional_operations:
            raise ClaimError(
                f"ResourceClaim {metadata['name']}: "
                "DRAOptionalNodeOperations feature gate is disabled on kubelet"
            )
        drivers[driver] = DriverState(skips=skips)
    return ClaimInfo(metadata["uid"], metadata["name"], metadata["namespace"], drivers=drivers)


def _skips(operations: Sequence[set[str]]) -> tuple[str, ...]:
    """Operations that all results of a driver skip."""
    if all(SKIP_ALL in found for found in operations):
        return (SKIP_ALL,)
    named = set().union(*operations) - {SKIP_ALL}
    return tuple(sorted(name for name in named if all({name, SKIP_ALL} & found for found in operations)))


class ClaimCache:
    """All claims of the node, kept in the checkpoint."""

    def __init__(self, file: CheckpointFile) -> None:
        """Read the checkpoint. Raises CheckpointError."""
        self._file = file
        self._claims = {(info.namespace, info.name): info for info in map(_from_state, file.load())}

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """One claim."""
        return self._claims.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        """Know a claim from now on."""
        self._claims[info.namespace, info.name] = info

    def delete(self, namespace: str, name: str) -> None:
        """Forget a claim."""
        self._claims.pop((namespace, name), None)

    def items(self) -> list[ClaimInfo]:
        """All claims."""
        return list(self._claims.values())

    def of_pod(self, pod_uid: str) -> list[ClaimInfo]:
        """Claims that a Pod refers to."""
        return [info for info in self._claims.values() if pod_uid in info.pods]

    def store(self) -> None:
        """Write the checkpoint. Raises CheckpointError."""
        self._file.store([_to_state(info) for info in self._claims.values()])

    def in_use(self) -> dict[str, int]:
        """Number of prepared claims by driver, and of all of them as `<any>`."""
        prepared = [info for info in self._claims.values() if info.prepared]
        counts: dict[str, int] = {"<any>": len(prepared)}
        for info in prepared:
            for driver in info.drivers:
                counts[driver] = counts.get(driver, 0) + 1
        return counts


def _to_state(info: ClaimInfo) -> State:
    return {
        "ClaimUID": info.uid,
        "ClaimName": info.name,
        "Namespace": info.namespace,
        "PodUIDs": {uid: {} for uid in sorted(info.pods)},
        "DriverState": {driver: _driver_state(info.drivers[driver]) for driver in sorted(info.drivers)},
    }


def _driver_state(state: DriverState) -> dict[str, Any]:
    devices = [
        {
            "PoolName": device.pool_name,
            "DeviceName": device.device_name,
            "ShareID": device.share_id,
            "RequestNames": list(device.request_names) or None,
            "CDIDeviceIDs": list(device.cdi_device_ids) or None,
        }
        for device in state.devices
    ]
    written: dict[str, Any] = {"Devices": devices or None}
    if state.skips:
        written["skipNodeOperations"] = list(state.skips)
    return written


def _from_state(state: Mapping[str, Any]) -> ClaimInfo:
    drivers = {
        driver: DriverState(
            tuple(
                PreparedDevice(
                    tuple(device.get("RequestNames") or ()),
                    device["PoolName"],
                    device["DeviceName"],
                    tuple(device.get("CDIDeviceIDs") or ()),
                    device.get("ShareID"),
                )
                for device in value.get("Devices") or ()
            ),
            tuple(value.get("skipNodeOperations") or ()),
        )
        for driver, value in (state.get("DriverState") or {}).items()
    }
    return ClaimInfo(
        state["ClaimUID"], state["ClaimName"], state["Namespace"], set(state.get("PodUIDs") or ()), drivers
    )
