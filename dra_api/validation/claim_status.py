"""Rules for the status of a ResourceClaim."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..equality import semantic_equal
from ..fields import device_key
from ..schema import load
from . import limits
from .conditions import check_conditions
from .devices import (
    RequestNames,
    check_binding,
    check_configuration,
    check_request_reference,
    check_request_references,
    check_skipped_operations,
    check_tolerations,
)
from .findings import Findings, check_list, check_set, check_unique
from .formats import check_driver, check_json_object, check_label, check_pool, check_uuid
from .names import byte_length, not_supported, too_many
from .node_selector import check_node_selector

Object = Mapping[str, Any]

_SOURCES: Final = ("FromClaim", "FromClass")
_NO_ALLOCATION: Final = "may not be specified when `allocated` is not set"
_NO_NEW_CONSUMERS: Final = (
    "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
)


def check_claim_status(found: Findings, claim: Object, old: Object) -> None:
    """Check the new status of a claim against the stored claim, paths below `status`."""
    status, before = claim.get("status") or {}, old.get("status") or {}
    consumers = status.get("reservedFor") or []
    check_set(
        found,
        consumers,
        limits.RESERVED_FOR,
        "status.reservedFor",
        lambda consumer, path: _check_consumer(found, consumer, path),
        _uid,
        dict,
        declared=True,
    )
    allocation = status.get("allocation")
    _check_device_statuses(found, status.get("devices") or [], allocation)
    if consumers and allocation is None:
        found.forbidden("status.reservedFor", _NO_ALLOCATION)
    elif consumers and (claim.get("metadata") or {}).get("deletionTimestamp"):
        known = [dict(consumer) for consumer in before.get("reservedFor") or []]
        if any(dict(consumer) not in known for consumer in consumers):
            found.forbidden("status.reservedFor", _NO_NEW_CONSUMERS)
    if allocation is not None and before.get("allocation") is not None:
        message = load().message("resource/v1.AllocationResult")
        if not semantic_equal(allocation, before["allocation"], message):
            found.invalid("status.allocation", None, "field cannot be modified once set", declared=True)
    elif allocation is not None:
        names = RequestNames((claim.get("spec") or {}).get("devices") or {})
        _check_allocation(found, allocation, names, "status.allocation")


def _uid(consumer: Object) -> str:
    return consumer.get("uid") or ""


def _check_consumer(found: Findings, consumer: Object, path: str) -> None:
    for field in ("resource", "name", "uid"):
        if not consumer.get(field):
            found.required(f"{path}.{field}")


def _check_allocation(found: Findings, allocation: Object, names: RequestNames, path: str) -> None:
    """A new allocation; whether devices exist and counts are right is not checked."""
    devices = allocation.get("devices") or {}

    def check_config(config: Object, where: str) -> None:
        source = config.get("source") or ""
        if not source:
            found.required(f"{where}.source", declared=True)
        elif source not in _SOURCES:
            found.add(not_supported(f"{where}.source", source, _SOURCES), declared=True)
        check_request_references(found, config.get("requests") or [], names, f"{where}.requests")
        check_configuration(found, config, where)

    check_list(
        found,
        devices.get("results") or [],
        limits.RESULTS,
        f"{path}.devices.results",
        lambda result, where: _check_result(found, result, names, where),
        declared=True,
    )
    check_list(
        found,
        devices.get("config") or [],
        limits.ALLOCATION_CONFIGS,
        f"{path}.devices.config",
        check_config,
        declared=True,
    )
    if allocation.get("nodeSelector") is not None:
        check_node_selector(found, allocation["nodeSelector"], f"{path}.nodeSelector")


def _check_result(found: Findings, result: Object, names: RequestNames, path: str) -> None:
    check_request_reference(found, result.get("request") or "", names, f"{path}.request")
    check_driver(found, f"{path}.driver", result.get("driver") or "", declared=True)
    check_pool(found, f"{path}.pool", result.get("pool") or "", declared=True)
    check_label(found, f"{path}.device", result.get("device") or "")
    check_binding(found, result, path)
    check_tolerations(found, result.get("tolerations") or [], f"{path}.tolerations")
    if result.get("shareID") is not None:
        check_uuid(found, f"{path}.shareID", result["shareID"])
    check_skipped_operations(found, result.get("skipNodeOperations") or [], f"{path}.skipNodeOperations")


def _check_device_statuses(found: Findings, devices: Sequence[Object], allocation: Object | None) -> None:
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    allocated = {device_key(result) for result in results}
    check_unique(found, devices, "status.devices", device_key, dict, declared=True)
    for index, device in enumerate(devices):
        _check_device_status(found, device, allocated, f"status.devices[{index}]")


def _check_device_status(
    found: Findings, device: Object, allocated: set[tuple[str, str, str, str]], path: str
) -> None:
    check_driver(found, f"{path}.driver", device.get("driver") or "")
    check_pool(found, f"{path}.pool", device.get("pool") or "")
    check_label(found, f"{path}.device", device.get("device") or "")
    if device.get("shareID") is not None:
        check_uuid(found, f"{path}.shareID", device["shareID"])
    key = device_key(device)
    if key not in allocated:
        shown = dict(zip(("Driver", "Pool", "Device", "ShareID"), key, strict=True))
        found.invalid(path, shown, "must be an allocated device in the claim")
    conditions = device.get("conditions") or []
    if len(conditions) > limits.STATUS_CONDITIONS:
        found.add(too_many(f"{path}.conditions", len(conditions), limits.STATUS_CONDITIONS))
    check_conditions(found, conditions, f"{path}.conditions")
    if device.get("data") is not None:
        check_json_object(found, f"{path}.data", device["data"], limits.STATUS_DATA)
    if device.get("networkData") is not None:
        _check_network_data(found, device["networkData"], f"{path}.networkData")


def _check_network_data(found: Findings, data: Object, path: str) -> None:
    for field, limit in (
        ("interfaceName", limits.INTERFACE_NAME),
        ("hardwareAddress", limits.HARDWARE_ADDRESS),
    ):
        if byte_length(data.get(field) or "") > limit:
            found.longer(f"{path}.{field}", limit, declared=True)
    addresses = data.get("ips") or []
    check_set(
        found,
        addresses,
        limits.IPS,
        f"{path}.ips",
        lambda address, where: _check_address(found, address, where),
        str,
        str,
        declared=True,
    )


def _check_address(found: Findings, text: str, path: str) -> None:
    """An interface address such as `192.0.2.5/24`, in canonical form."""
    address, slash, bits = text.partition("/")
    try:
        # ip_interface takes netmasks and zone ids too; upstream takes leading zeros in IPv4 parts.
        if not slash or not (bits.isascii() and bits.isdigit()) or "%" in address:
            raise ValueError(text)
        plain = ".".join(str(int(part)) for part in address.split(".")) if ":" not in address else address
        interface = ipaddress.ip_interface(f"{plain}/{int(bits)}")
    except ValueError:
        example = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        found.invalid(path, text, example)
        return
    canonical = str(interface)
    mapped = interface.ip.ipv4_mapped if isinstance(interface, ipaddress.IPv6Interface) else None
    if mapped is not None:
        length = interface.network.prefixlen
        canonical = f"{mapped}/{length - 96 if length > 32 else length}"
    if text != canonical:
        found.invalid(path, text, f'must be in canonical form ("{canonical}")')
