"""From a ResourceClaim to the devices that this driver has to prepare. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driver.sdk.errors import ClaimError
from driver.sdk.records import ClaimRef


@dataclass(frozen=True)
class OpaqueConfig:
    """Parameters for this driver with the requests they are for (none: all) and where they stand."""

    parameters: Mapping[str, Any]
    requests: tuple[str, ...]
    where: str

    def applies_to(self, request: str) -> bool:
        """Whether a result for `request` ("gpu" or "gpu/big") is meant: by its own name or its base name."""
        return not self.requests or request in self.requests or base_request(request) in self.requests


@dataclass(frozen=True)
class AllocatedDevice:
    """One device of the allocation. `config`: the parameters that win, None without any."""

    pool: str
    name: str
    share_id: str
    requests: tuple[str, ...]
    admin: bool
    config: OpaqueConfig | None


def base_request(request: str) -> str:
    """The name of a request without its sub-request: "gpu/big" -> "gpu"."""
    return request.partition("/")[0]


def configs_for(allocation: Mapping[str, Any], driver: str) -> list[OpaqueConfig]:
    """This driver's parameters in order of precedence: those of classes, then those of the claim; later wins.

    Raises:
        ClaimError: if an entry of this driver has no object as parameters.
    """
    found: list[tuple[int, OpaqueConfig]] = []
    for index, entry in enumerate((allocation.get("devices") or {}).get("config") or []):
        opaque = entry.get("opaque") or {}
        if opaque.get("driver") != driver:
            continue
        where = f"status.allocation.devices.config[{index}].opaque.parameters"
        parameters = opaque.get("parameters")
        if not isinstance(parameters, dict):
            raise ClaimError(f"{where}: must be an object")
        rank = 0 if entry.get("source") == "FromClass" else 1
        found.append((rank, OpaqueConfig(parameters, tuple(entry.get("requests") or ()), where)))
    return [config for _, config in sorted(found, key=lambda item: item[0])]


def check_claim(claim: Mapping[str, Any], ref: ClaimRef) -> Mapping[str, Any]:
    """The allocation of the claim that the kubelet means.

    Raises:
        ClaimError: if another claim has its name by now, or it is not allocated.
    """
    uid = (claim.get("metadata") or {}).get("uid", "")
    if uid != ref.uid:
        raise ClaimError(
            f"claim {ref} got replaced: asked for UID {ref.uid}, the claim of that name has {uid}"
        )
    allocation = (claim.get("status") or {}).get("allocation")
    if not allocation:
        raise ClaimError(f"claim {ref} not allocated")
    return dict(allocation)


def allocated_devices(
    allocation: Mapping[str, Any], driver: str, configs: list[OpaqueConfig]
) -> list[AllocatedDevice]:
    """This driver's devices, one for each (pool, device, share); results of other drivers are left out.

    A device allocated both for use and with admin access in one claim is one device that serves both requests.

    Raises:
        ClaimError: if a device is allocated twice for use without being shared.
    """
    devices: dict[tuple[str, str, str], AllocatedDevice] = {}
    for result in (allocation.get("devices") or {}).get("results") or []:
        if result.get("driver") != driver:
            continue
        request = str(result.get("request", ""))
        matching = [config for config in configs if config.applies_to(request)]
        device = AllocatedDevice(
            pool=str(result.get("pool", "")),
            name=str(result.get("device", "")),
            share_id=str(result.get("shareID") or ""),
            requests=(base_request(request),),
            admin=bool(result.get("adminAccess")),
            config=matching[-1] if matching else None,
        )
        key = (device.pool, device.name, device.share_id)
        devices[key] = _merge(devices[key], device) if key in devices else device
    return list(devices.values())


def _merge(first: AllocatedDevice, second: AllocatedDevice) -> AllocatedDevice:
    if not first.admin and not second.admin:
        raise ClaimError(f"device {first.name} of pool {first.pool} is allocated twice in this claim")
    used = second if first.admin and not second.admin else first
    return AllocatedDevice(
        pool=used.pool,
        name=used.name,
        share_id=used.share_id,
        requests=tuple(dict.fromkeys(first.requests + second.requests)),
        admin=used.admin,
        config=used.config,
    )
