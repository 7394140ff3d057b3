"""The driver's memory: one versioned JSON file with checksums, replaced atomically.

    {"schemaVersion": 2, "checksum": C, "body": {"deviceNames": {ADDRESS: NAME},
     "claims": {UID: {"checksum": C, "entry": ENTRY}}, "quarantined": {UID: REASON}, "incomplete": true}}

Each entry has its own checksum, so that one damaged entry does not take the others with it. A damaged file is
copied aside as `<name>.corrupt-<n>`; the driver goes on with what could be read.
Version 1 (no device names, no checksums of entries, no states) is migrated.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from driver.sdk import log
from driver.sdk.files import remove_temporaries, write_atomic
from driver.sdk.records import ClaimEntry, RecordError, decode, encode

SCHEMA_VERSION: Final = 2


class _UnreadableError(ValueError):
    """The file as a whole cannot be used."""


@dataclass(frozen=True)
class Contents:
    """What a checkpoint holds. `quarantined`: UID of a claim whose entry was damaged -> what was wrong.

    `incomplete`: claims may be missing since damage, until those that the hardware knows were taken over.
    """

    entries: Mapping[str, ClaimEntry] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    device_names: Mapping[str, str] = field(default_factory=dict)
    incomplete: bool = False


@dataclass(frozen=True)
class Loaded:
    """The result of reading a file. `damage` is empty when all of it could be used."""

    contents: Contents
    damage: str = ""


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def checksum(value: object) -> str:
    """SHA-256 of the canonical JSON text of a value, in hex."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def serialise(contents: Contents) -> bytes:
    """The file for some contents, in the newest version."""
    claims = {}
    for uid, entry in contents.entries.items():
        value = encode(entry)
        claims[uid] = {"checksum": checksum([uid, value]), "entry": value}
    body: dict[str, Any] = {
        "deviceNames": dict(contents.device_names),
        "claims": claims,
        "quarantined": dict(contents.quarantined),
    }
    if contents.incomplete:
        body["incomplete"] = True
    document = {"schemaVersion": SCHEMA_VERSION, "checksum": checksum(body), "body": body}
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def parse(data: bytes) -> Loaded:
    """Read a file of any known version. Never raises: what cannot be read is told in the result."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise _UnreadableError("it is not a JSON object")
        version = document.get("schemaVersion")
        if isinstance(version, bool) or not isinstance(version, int):
            raise _UnreadableError(f"schemaVersion is {version!r}")
        if version > SCHEMA_VERSION:
            raise _UnreadableError(f"schemaVersion {version} is newer than this driver's {SCHEMA_VERSION}")
        if version not in _READERS:
            raise _UnreadableError(f"schemaVersion {version} is unknown")
        body = document.get("body")
        if not isinstance(body, dict):
            raise _UnreadableError("body is not an object")
        intact = document.get("checksum") == checksum(body)
        return _READERS[version](body, intact)
    except (ValueError, RecursionError) as problem:
        return Loaded(Contents(incomplete=True), damage=str(problem))


def _read_v1(body: dict[str, Any], intact: bool) -> Loaded:
    """Version 1: `{"claims": {UID: {"namespace", "name", "devices"}}}`; an entry meant a prepared claim."""
    if not intact:
        raise _UnreadableError("the checksum does not fit")
    entries, quarantined = {}, {}
    for uid, value in _object(body, "claims").items():
        try:
            entries[uid] = decode(uid, {**value, "state": "Prepared"} if isinstance(value, dict) else value)
        except RecordError as problem:
            quarantined[uid] = str(problem)
    return Loaded(Contents(entries, quarantined, incomplete=bool(quarantined)), damage=_damage(quarantined))


def _read_v2(body: dict[str, Any], intact: bool) -> Loaded:
    entries: dict[str, ClaimEntry] = {}
    known = {str(uid): str(reason) for uid, reason in _object(body, "quarantined").items()}
    fresh: dict[str, str] = {}
    for uid, value in _object(body, "claims").items():
        try:
            if not isinstance(value, dict) or value.get("checksum") != checksum([uid, value.get("entry")]):
                raise RecordError("the checksum of the entry does not fit")
            entries[uid] = decode(uid, value.get("entry"))
        except RecordError as problem:
            fresh[uid] = str(problem)
    if intact:
        names = {str(address): str(name) for address, name in _object(body, "deviceNames").items()}
    else:
        # Entries vouch for the names of their devices; the rest may be what was damaged.
        names = {device.address: device.name for entry in entries.values() for device in entry.devices}
    damage = _damage(fresh) or ("" if intact else "the checksum does not fit")
    incomplete = bool(damage or body.get("incomplete"))
    return Loaded(Contents(entries, {**known, **fresh}, names, incomplete), damage=damage)


_READERS: Final = {1: _read_v1, 2: _read_v2}


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key, {})
    if not isinstance(value, dict):
        raise _UnreadableError(f"body.{key} is not an object")
    return value


def _damage(quarantined: Mapping[str, str]) -> str:
    return "; ".join(f"claim {uid}: {reason}" for uid, reason in quarantined.items())


class Checkpoint:
    """The file and its contents in memory. Each change is durable when the call returns.

    When a write fails (OSError) the contents in memory are as before. Safe to use from several threads.
    """

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = path
        self._contents = contents
        self._lock = threading.RLock()

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Open the checkpoint; absent means empty, damaged is kept aside and makes the contents `incomplete`.

        Raises:
            OSError: if the file or its directory cannot be read or written at all.
        """
        remove_temporaries(path.parent, path.name, point="checkpoint")
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls(path, Contents())
        loaded = parse(data)
        checkpoint = cls(path, loaded.contents)
        if loaded.damage:
            kept = checkpoint._keep_aside(data)
            log.error(
                "checkpoint damaged, kept aside",
                file=path,
                kept=kept,
                problem=loaded.damage,
                claims_read=len(loaded.contents.entries),
            )
        return checkpoint

    def _keep_aside(self, data: bytes) -> Path:
        number = 1
        while (kept := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
            # The same damage met again after a crash before the first change needs no second copy.
            if kept.read_bytes() == data:
                return kept
            number += 1
        write_atomic(kept, data, mode=0o600, point="quarantine")
        return kept

    def kept_aside(self) -> list[Path]:
        """Damaged files that nobody has removed yet."""
        return sorted(self.path.parent.glob(f"{self.path.name}.corrupt-*"))

    @property
    def contents(self) -> Contents:
        """A consistent snapshot."""
        with self._lock:
            return self._contents

    def get(self, uid: str) -> ClaimEntry | None:
        """The entry of a claim."""
        return self.contents.entries.get(uid)

    def put(self, entry: ClaimEntry) -> None:
        """Add or replace an entry."""
        with self._lock:
            self._write(replace(self._contents, entries={**self._contents.entries, entry.ref.uid: entry}))

    def forget(self, uid: str) -> None:
        """Remove what is known of a claim, its quarantined entry included."""
        with self._lock:
            now = self._contents
            if uid in now.entries or uid in now.quarantined:
                entries = {key: value for key, value in now.entries.items() if key != uid}
                quarantined = {key: value for key, value in now.quarantined.items() if key != uid}
                self._write(replace(now, entries=entries, quarantined=quarantined))

    def replace(self, contents: Contents) -> None:
        """Replace everything."""
        with self._lock:
            self._write(contents)

    def name_devices(self, names: Mapping[str, str]) -> None:
        """Remember which device has which name; writes only what changed."""
        with self._lock:
            if dict(self._contents.device_names) != dict(names):
                self._write(replace(self._contents, device_names=dict(names)))

    def _write(self, contents: Contents) -> None:
        write_atomic(self.path, serialise(contents), mode=0o600, point="checkpoint")
        self._contents = contents


__all__ = ["SCHEMA_VERSION", "Checkpoint", "Contents", "Loaded", "checksum", "parse", "serialise"]
