"""What the driver remembers about a claim, and its strict JSON form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

_UID: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]{0,126}[A-Za-z0-9])?\Z")


class RecordError(ValueError):
    """An entry is not what a driver of this version writes; the text says what is wrong with it."""


class State(StrEnum):
    """How far a claim has come. What is not PREPARED was never answered, or is on its way out."""

    PREPARING = "Preparing"
    PREPARED = "Prepared"
    UNPREPARING = "Unpreparing"


@dataclass(frozen=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def usable_uid(uid: str) -> bool:
    """Whether a claim UID can be part of file names and CDI device names (Kubernetes only makes UUIDs)."""
    return bool(_UID.match(uid))


@dataclass(frozen=True)
class PreparedDevice:
    """One device of a claim.

    `address` is the identity that survives reboots (the PCI address); node numbers are looked up from it.
    `requests` are base request names. `settings` is the effective configuration, None without any.
    """

    pool: str
    name: str
    address: str
    requests: tuple[str, ...]
    share_id: str = ""
    admin: bool = False
    settings: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What must be unique among the devices of a claim."""
        return (self.pool, self.name, self.share_id)

    def conflicts(self, other: PreparedDevice) -> bool:
        """Whether two claims may not have these devices at the same time."""
        if self.address != other.address or self.admin or other.admin:
            return False
        return not (self.share_id and other.share_id) or self.share_id == other.share_id

    def __str__(self) -> str:
        return f"{self.name} (share {self.share_id})" if self.share_id else self.name


@dataclass(frozen=True)
class ClaimEntry:
    """All that is known of one claim.

    `recovered`: rebuilt from the hardware after the checkpoint was lost, so names and requests are unknown.
    """

    ref: ClaimRef
    state: State
    devices: tuple[PreparedDevice, ...]
    recovered: bool = False

    def moved(self, state: State) -> ClaimEntry:
        """The entry in another state."""
        return replace(self, state=state)


def encode(entry: ClaimEntry) -> dict[str, Any]:
    """The JSON form of an entry."""
    value: dict[str, Any] = {
        "namespace": entry.ref.namespace,
        "name": entry.ref.name,
        "state": str(entry.state),
        "devices": [_encode_device(device) for device in entry.devices],
    }
    if entry.recovered:
        value["recovered"] = True
    return value


def _encode_device(device: PreparedDevice) -> dict[str, Any]:
    value: dict[str, Any] = {
        "pool": device.pool,
        "name": device.name,
        "address": device.address,
        "requests": list(device.requests),
    }
    if device.share_id:
        value["shareID"] = device.share_id
    if device.admin:
        value["adminAccess"] = True
    if device.settings is not None:
        value["settings"] = dict(device.settings)
    return value


def decode(uid: str, value: object) -> ClaimEntry:
    """Read an entry. RecordError says what is wrong; nothing is guessed."""
    if not usable_uid(uid):
        raise RecordError(f"{uid!r} is not a claim UID")
    fields = _Fields(value, "entry", {"namespace", "name", "state", "devices", "recovered"})
    try:
        state = State(fields.text("state"))
    except ValueError as problem:
        raise RecordError(f"entry.state: {problem}") from None
    ref = ClaimRef(fields.text("namespace", empty=True), fields.text("name", empty=True), uid)
    devices = tuple(_decode_device(item, index) for index, item in enumerate(fields.items("devices")))
    return ClaimEntry(ref, state, devices, fields.flag("recovered"))


def _decode_device(value: object, index: int) -> PreparedDevice:
    known = {"pool", "name", "address", "requests", "shareID", "adminAccess", "settings"}
    fields = _Fields(value, f"entry.devices[{index}]", known)
    requests = fields.items("requests")
    if not all(isinstance(request, str) for request in requests):
        raise RecordError(f"{fields.where}.requests: must be strings")
    settings = fields.value.get("settings")
    if settings is not None and not isinstance(settings, dict):
        raise RecordError(f"{fields.where}.settings: must be an object")
    return PreparedDevice(
        pool=fields.text("pool"),
        name=fields.text("name"),
        address=fields.text("address"),
        requests=tuple(requests),
        share_id=fields.text("shareID", empty=True, default=""),
        admin=fields.flag("adminAccess"),
        settings=settings,
    )


class _Fields:
    """Typed access to the fields of a JSON object."""

    def __init__(self, value: object, where: str, known: set[str]) -> None:
        if not isinstance(value, dict):
            raise RecordError(f"{where}: must be an object")
        if unknown := sorted(set(value) - known):
            raise RecordError(f"{where}.{unknown[0]}: unknown field")
        self.value = value
        self.where = where

    def text(self, key: str, *, empty: bool = False, default: str | None = None) -> str:
        found = self.value.get(key, default)
        if not isinstance(found, str) or not (found or empty):
            raise RecordError(f"{self.where}.{key}: must be a string")
        return found

    def flag(self, key: str) -> bool:
        found = self.value.get(key, False)
        if not isinstance(found, bool):
            raise RecordError(f"{self.where}.{key}: must be true or false")
        return found

    def items(self, key: str) -> list[Any]:
        found = self.value.get(key)
        if not isinstance(found, list):
            raise RecordError(f"{self.where}.{key}: must be a list")
        return found
