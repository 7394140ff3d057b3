"""Prepare and unprepare of claims: the order of hardware, CDI file and memory that survives a crash anywhere.

Prepare: remember `Preparing` -> configure the devices -> write the CDI file -> remember `Prepared` -> answer.
Unprepare: remember `Unpreparing` -> reset the devices -> remove the CDI file -> forget -> answer.
A claim found `Preparing` or `Unpreparing` at start was never answered or is on its way out, so it is released.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from driver.sdk import log
from driver.sdk.allocation import AllocatedDevice, allocated_devices, check_claim, configs_for
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import ClaimError, ConfigError, HardwareError
from driver.sdk.failpoints import reach
from driver.sdk.gates import OVERTAKEN, Gates
from driver.sdk.inventory import Inventory
from driver.sdk.profile import Profile
from driver.sdk.records import ClaimEntry, ClaimRef, PreparedDevice, State, usable_uid


class ClaimReader(Protocol):
    """Where claims are read from."""

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        """The claim, None if there is none of that name.

        Raises:
            ClaimError: if the API cannot be asked.
        """


@dataclass(frozen=True)
class AnsweredDevice:
    """One device of an answer to the kubelet."""

    device: PreparedDevice
    cdi_ids: tuple[str, ...]


class Preparer:
    """Prepares and unprepares claims. Safe to use from several threads."""

    def __init__(
        self,
        *,
        driver: str,
        pool: str,
        profile: Profile,
        inventory: Inventory,
        checkpoint: Checkpoint,
        cdi: CdiFiles,
        claims: ClaimReader,
    ) -> None:
        self._driver = driver
        self._pool = pool
        self._profile = profile
        self._inventory = inventory
        self._checkpoint = checkpoint
        self._cdi = cdi
        self._claims = claims
        self._gates = Gates()
        # Held from looking whether devices are free until they are taken.
        self._taking = threading.Lock()

    def prepare(self, ref: ClaimRef) -> list[AnsweredDevice]:
        """Make the devices of a claim ready; repeated calls give the same answer.

        Raises:
            ClaimError: with the reason, for the kubelet; nothing of this call is left behind then.
        """
        if not usable_uid(ref.uid):
            raise ClaimError(f"claim {ref}: {ref.uid!r} cannot be used as a UID")
        with self._gates.enter(ref.uid) as (gate, epoch):
            claim = self._claims.claim(ref.namespace, ref.name)
            if claim is None:
                raise ClaimError(f"claim {ref} not found")
            allocation = check_claim(claim, ref)
            with gate.preparing(epoch):
                try:
                    devices = self._prepare(ref, allocation)
                finally:
                    if gate.overtaken(epoch):
                        self._release(ref)
                        raise ClaimError(OVERTAKEN)
                reach("prepare.answer")
                return devices

    def _prepare(self, ref: ClaimRef, allocation: Mapping[str, Any]) -> list[AnsweredDevice]:
        if ref.uid in (damaged := self._checkpoint.contents.quarantined):
            raise ClaimError(
                f"the driver's record of claim {ref} was damaged ({damaged[ref.uid]}): delete the pods that use "
                "the claim, so that it gets unprepared, and create them again"
            )
        wanted = self._wanted(allocation)
        entry = self._checkpoint.get(ref.uid)
        if entry is not None and entry.state is not State.PREPARED:
            # An earlier call failed and its traces could not be removed then.
            self._release(ref)
            entry = None
        if entry is not None and not entry.recovered:
            return self._again(entry, wanted)
        if not wanted:
            return []
        return self._first(ref, wanted, entry)

    def _wanted(self, allocation: Mapping[str, Any]) -> list[PreparedDevice]:
        """The allocated devices with their checked settings; every parameter of this driver is checked."""
        configs = configs_for(allocation, self._driver)
        settings: dict[str, Mapping[str, Any]] = {}
        for config in configs:
            try:
                settings[config.where] = self._profile.parse_config(config.parameters)
            except ConfigError as problem:
                raise ConfigError(f"{config.where}: {problem}") from problem
        allocated = allocated_devices(allocation, self._driver, configs)
        return [self._resolve(device, settings) for device in allocated]

    def _resolve(self, device: AllocatedDevice, settings: Mapping[str, Mapping[str, Any]]) -> PreparedDevice:
        if device.pool != self._pool:
            raise ClaimError(
                f"device {device.name} is allocated from pool {device.pool}, this node's pool is {self._pool}"
            )
        try:
            address = self._inventory.address(device.name)
            if not address:
                found = ", ".join(self._inventory.look()) or "none"
                raise ClaimError(
                    f"device {device.name} does not exist; in {self._profile.source} are: {found}"
                )
        except (HardwareError, OSError) as problem:
            raise ClaimError(f"cannot look for device {device.name}: {problem}") from problem
        return PreparedDevice(
            pool=device.pool,
            name=device.name,
            address=address,
            requests=device.requests,
            share_id=device.share_id,
            admin=device.admin,
            settings=settings[device.config.where] if device.config else None,
        )

    def _again(self, entry: ClaimEntry, wanted: Sequence[PreparedDevice]) -> list[AnsweredDevice]:
        """A prepared claim: the same answer, after making sure that it is still true."""
        had, now = ({(device.key, device.requests) for device in group} for group in (entry.devices, wanted))
        if had != now:
            raise ClaimError(
                f"claim {entry.ref} was prepared with {_names(entry.devices)} and is now allocated "
                f"{_names(wanted)}: delete the pods that use the claim, so that it gets unprepared"
            )
        try:
            self._configure(entry)
            self._cdi.ensure(entry.ref.uid, self._spec(entry))
        except HardwareError as problem:
            raise ClaimError(
                f"claim {entry.ref} is prepared, but its hardware is not there as before: {problem}; bring the "
                "device back, or delete the pods that use the claim and create them again"
            ) from problem
        except OSError as problem:
            raise ClaimError(f"cannot make sure of claim {entry.ref}: {problem}") from problem
        return self._answer(entry)

    def _first(
        self, ref: ClaimRef, wanted: Sequence[PreparedDevice], recovered: ClaimEntry | None
    ) -> list[AnsweredDevice]:
        entry = ClaimEntry(ref, State.PREPARING, tuple(wanted))
        try:
            for device in wanted:
                if device.settings is not None:
                    self._profile.check(device.address, device.name, device.settings)
            self._take(entry)
            if recovered is not None:
                kept = {device.address for device in wanted}
                self._reset([device for device in recovered.devices if device.address not in kept], ref)
            self._configure(entry)
            self._cdi.ensure(ref.uid, self._spec(entry))
            prepared = entry.moved(State.PREPARED)
            self._checkpoint.put(prepared)
        except (HardwareError, OSError) as problem:
            undone = self._undo(ref)
            raise ClaimError(
                f"cannot prepare {_names(wanted)} for claim {ref}: {problem}{undone}"
            ) from problem
        log.info("claim prepared", claim=ref, uid=ref.uid, devices=_names(wanted))
        return self._answer(prepared)

    def _take(self, entry: ClaimEntry) -> None:
        """Remember that the devices belong to the claim, unless another claim has one of them."""
        with self._taking:
            contents = self._checkpoint.contents
            users = self._profile.users()
            for device in entry.devices:
                for other in contents.entries.values():
                    if other.ref.uid != entry.ref.uid:
                        _refuse_conflict(device, other)
                if device.admin or device.share_id:
                    continue
                for uid in users.get(device.address, ()):
                    if uid in contents.quarantined and uid != entry.ref.uid:
                        raise ClaimError(
                            f"device {device} is held by claim UID {uid}, whose record was damaged"
                        )
            self._checkpoint.put(entry)

    def _configure(self, entry: ClaimEntry) -> None:
        """Configure what is not configured for the claim yet. Admin access leaves the hardware alone."""
        devices = [device for device in entry.devices if not device.admin]
        if not devices:
            return
        users = self._profile.users()
        known = self._checkpoint.contents
        done: set[str] = set()
        for device in devices:
            for uid in users.get(device.address, ()):
                # Left by a claim that could not be reset when it was unprepared.
                if uid not in known.entries and uid not in known.quarantined:
                    reach("hardware.reset")
                    self._profile.reset(device.address, uid)
            if entry.ref.uid not in users.get(device.address, ()) and device.address not in done:
                reach("hardware.configure")
                shared = bool(device.share_id)
                self._profile.configure(device.address, entry.ref.uid, device.settings, shared=shared)
            done.add(device.address)

    def _spec(self, entry: ClaimEntry) -> dict[str, Any]:
        edits = [
            (device, self._profile.edits(device.address, device.name, device.settings))
            for device in entry.devices
        ]
        return self._cdi.spec(entry.ref.uid, edits)

    def _answer(self, entry: ClaimEntry) -> list[AnsweredDevice]:
        uid = entry.ref.uid
        return [AnsweredDevice(device, (self._cdi.device_id(uid, device),)) for device in entry.devices]

    def unprepare(self, ref: ClaimRef) -> None:
        """Undo the preparation of a claim, from memory alone; an unknown claim is fine.

        Raises:
            ClaimError: if the state cannot be changed on disk. Hardware that fails is logged and cleaned later.
        """
        if not usable_uid(ref.uid):
            return
        with self._gates.enter(ref.uid) as (gate, _), gate.unpreparing() as mine:
            if not mine:
                log.warning("unprepare leaves the cleaning to the prepare under way", claim=ref, uid=ref.uid)
                return
            self._release(ref)
            reach("unprepare.answer")

    def _undo(self, ref: ClaimRef) -> str:
        """Release a claim after a failure; a text for the error if that fails as well."""
        try:
            self._release(ref)
        except ClaimError as problem:
            return f"; undoing it failed as well and is repeated later: {problem}"
        return ""

    def _release(self, ref: ClaimRef) -> None:
        """Remove every trace of a claim."""
        uid = ref.uid
        entry = self._checkpoint.get(uid)
        try:
            if entry is not None:
                if entry.state is State.PREPARED:
                    self._checkpoint.put(entry.moved(State.UNPREPARING))
                self._reset([device for device in entry.devices if not device.admin], ref)
            elif uid in self._checkpoint.contents.quarantined:
                self._reset_user(uid)
            self._cdi.remove(uid)
            self._checkpoint.forget(uid)
        except OSError as problem:
            raise ClaimError(f"cannot remove the state of claim {ref}: {problem}") from problem
        if entry is not None:
            log.info("claim released", claim=ref, uid=uid, devices=_names(entry.devices))

    def _reset(self, devices: Sequence[PreparedDevice], ref: ClaimRef) -> None:
        for address, name in {device.address: device.name for device in devices}.items():
            try:
                reach("hardware.reset")
                self._profile.reset(address, ref.uid)
            except (HardwareError, OSError) as problem:
                log.warning("device not reset, tried again later", device=name, claim=ref, problem=problem)

    def _reset_user(self, uid: str) -> None:
        try:
            users = self._profile.users()
            for address in [address for address, uids in users.items() if uid in uids]:
                reach("hardware.reset")
                self._profile.reset(address, uid)
        except (HardwareError, OSError) as problem:
            log.warning("device not reset, tried again later", claim_uid=uid, problem=problem)

    def unfinished(self) -> None:
        """Release claims whose release or undoing has failed, and hardware that nobody owns."""
        for entry in self._checkpoint.contents.entries.values():
            if entry.state is State.PREPARED:
                continue
            with self._gates.enter(entry.ref.uid) as (gate, _), gate.alone():
                now = self._checkpoint.get(entry.ref.uid)
                if now is not None and now.state is not State.PREPARED:
                    self._attempt(entry.ref)
        self._reset_orphans()

    def _reset_orphans(self) -> None:
        with self._taking:
            contents = self._checkpoint.contents
            try:
                uids = {uid for users in self._profile.users().values() for uid in users}
            except (HardwareError, OSError) as problem:
                log.warning("hardware cannot be read", problem=problem)
                return
            # Only what nobody remembers; a device is taken (`_take`) before it is configured.
            for uid in sorted(uids - set(contents.entries) - set(contents.quarantined)):
                log.warning("hardware is configured for an unknown claim: resetting it", claim_uid=uid)
                self._reset_user(uid)

    def restore(self, entry: ClaimEntry) -> None:
        """Write the CDI file of a prepared claim again if it is missing or its device numbers changed."""
        try:
            if self._cdi.ensure(entry.ref.uid, self._spec(entry)):
                log.info("CDI spec restored", claim=entry.ref, uid=entry.ref.uid)
        except (HardwareError, OSError) as problem:
            log.warning("CDI spec not restored", claim=entry.ref, uid=entry.ref.uid, problem=problem)

    def _attempt(self, ref: ClaimRef) -> None:
        try:
            self._release(ref)
        except ClaimError as problem:
            log.warning("claim not released, tried again later", claim=ref, problem=problem)


def _names(devices: Sequence[PreparedDevice]) -> str:
    return ", ".join(str(device) for device in devices) or "no devices"


def _refuse_conflict(device: PreparedDevice, other: ClaimEntry) -> None:
    for held in other.devices:
        if device.conflicts(held):
            holder = f"{other.ref} (UID {other.ref.uid})" if other.ref.name else f"UID {other.ref.uid}"
            state = "" if other.state is State.PREPARED else ", which is being released"
            raise ClaimError(f"device {device} is already prepared for claim {holder}{state}")
