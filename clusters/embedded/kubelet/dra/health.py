"""What drivers report about the health of their devices, and what Pods are told of it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from clusters.clock import Clock, parse_stamp, stamp
from clusters.embedded.kubelet.dra.claims import ClaimInfo

DEFAULT_TIMEOUT: Final = 30.0
MAX_DEVICES: Final = 16384
_MESSAGE_BYTES: Final = 1024
_BILLION: Final = 1_000_000_000
_HEALTH: Final = {1: "Healthy", 2: "Unhealthy"}
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True)
class DeviceHealth:
    """State of one device: Healthy, Unhealthy or Unknown; `timeout` is seconds until a report is stale."""

    pool: str
    device: str
    health: str = UNKNOWN
    message: str = ""
    timeout: float = DEFAULT_TIMEOUT
    updated: float = 0.0


def read_report(devices: Sequence[Any]) -> list[DeviceHealth]:
    """The devices of a NodeWatchResourcesResponse of any version. The driver's own times are not looked at."""
    return [
        DeviceHealth(
            item.device.pool_name,
            item.device.device_name,
            _HEALTH.get(item.health, UNKNOWN),
            _shortened(item.message),
            float(item.health_check_timeout_seconds)
            if item.health_check_timeout_seconds > 0
            else DEFAULT_TIMEOUT,
        )
        for item in devices
    ]


def _shortened(message: str) -> str:
    data = message.encode()
    if len(data) <= _MESSAGE_BYTES:
        return message
    return data[: _MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "..."


class HealthCache:
    """Health by driver, pool and device; kept in a file whose loss does no harm."""

    def __init__(self, path: Path, clock: Clock, log: logging.Logger) -> None:
        self._path, self._clock, self._log = path, clock, log
        self._drivers: dict[str, dict[tuple[str, str], DeviceHealth]] = {}
        try:
            if path.exists():
                self._drivers = _decode(json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning('Failed to load health checkpoint, proceeding with empty cache err="%s"', error)

    def get(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """The health of a device; Unknown without a report, or when the last one is stale."""
        found = self._drivers.get(driver, {}).get((pool, device))
        if found is None or self._clock.now() - found.updated > found.timeout:
            return DeviceHealth(pool, device)
        return found

    def update(self, driver: str, reported: Sequence[DeviceHealth]) -> set[tuple[str, str]]:
        """Take a report, which may be partial; return the devices that are told differently now."""
        now = self._clock.now()
        known = self._drivers.setdefault(driver, {})
        changed: set[tuple[str, str]] = set()
        ignored = 0
        for device in reported:
            key = (device.pool, device.device)
            before = known.get(key)
            if before is None and len(known) >= MAX_DEVICES:
                ignored += 1
                continue
            if before is None or replace(before, updated=0.0) != replace(device, updated=0.0):
                changed.add(key)
            known[key] = replace(device, updated=now)
        if ignored:
            self._log.error(
                "Health report contains more devices than the cache keeps per driver, ignoring new devices "
                'beyond the limit driverName="%s" limit=%d ignoredDevices=%d',
                driver,
                MAX_DEVICES,
                ignored,
            )
        listed = {(device.pool, device.device) for device in reported}
        stale = [
            key for key, item in known.items() if key not in listed and now - item.updated > item.timeout
        ]
        changed |= {key for key in stale if known[key].health != UNKNOWN}
        for key in stale:
            del known[key]
        if changed or stale:
            self._store()
        return changed

    def clear(self, driver: str) -> None:
        """Forget what a driver reported."""
        if self._drivers.pop(driver, None) is not None:
            self._store()

    def _store(self) -> None:
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        try:
            temporary.write_text(json.dumps(_encode(self._drivers), separators=(",", ":")))
            os.replace(temporary, self._path)  # noqa: PTH105 - one system call
        except OSError as error:
            self._log.warning('Failed to save health checkpoint err="%s"', error)


def _encode(drivers: Mapping[str, Mapping[tuple[str, str], DeviceHealth]]) -> dict[str, Any]:
    return {
        driver: {
            "Devices": {
                f"{item.pool}/{item.device}": {
                    "PoolName": item.pool,
                    "DeviceName": item.device,
                    "Health": item.health,
                    "LastUpdated": stamp(item.updated),
                    "HealthCheckTimeout": int(item.timeout * _BILLION),
                    "Message": item.message,
                }
                for item in devices.values()
            }
        }
        for driver, devices in drivers.items()
    }


def _decode(content: Mapping[str, Any]) -> dict[str, dict[tuple[str, str], DeviceHealth]]:
    result: dict[str, dict[tuple[str, str], DeviceHealth]] = {}
    for driver, value in content.items():
        result[driver] = {
            (item["PoolName"], item["DeviceName"]): DeviceHealth(
                item["PoolName"],
                item["DeviceName"],
                item["Health"],
                item.get("Message", ""),
                item.get("HealthCheckTimeout", 0) / _BILLION or DEFAULT_TIMEOUT,
                parse_stamp(item["LastUpdated"]),
            )
            for item in (value.get("Devices") or {}).values()
        }
    return result


def claim_health(
    info: ClaimInfo, request: str, cache: HealthCache, *, messages: bool
) -> list[dict[str, Any]]:
    """The devices of a claim that serve a request ("" for all), as allocatedResourcesStatus lists them."""
    result: dict[str, dict[str, Any]] = {}
    # Devices know the names of requests only, not of their alternatives.
    for driver, device in info.devices(request.partition("/")[0]):
        if device.cdi_device_ids:
            name = device.cdi_device_ids[0]
        else:
            name = f"{driver}/{device.pool_name}/{device.device_name}"
        found = cache.get(driver, device.pool_name, device.device_name)
        entry: dict[str, Any] = {"resourceID": name, "health": found.health}
        if messages and found.message:
            entry["message"] = found.message
        result.setdefault(name, entry)
    return list(result.values())
