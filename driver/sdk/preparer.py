"""Prepare and unprepare of claims: the order of hardware, CDI file and memory that survives a crash anywhere.

Prepare: remember `Preparing` -> configure the devices -> write the CDI file -> remember `Prepared` -> answer.
Unprepare: remember `Unpreparing` -> reset the devices -> remove the CDI file -> forget -> answer.
A claim found `Preparing` or `Unpreparing` at start was never answered or is on its way out, so it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from driver.sdk import log
from driver.sdk.allocation import AllocatedDevice, allocated_devices, check_claim, configs_for
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import ClaimError, ConfigError, HardwareError
from driver.sdk.failpoints import reach
from driver.sdk.gates import OVERTAKEN, Gates
from driver.sdk.holdings import Holdings
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
        self._holdings = Holdings(checkpoint, profile, pool)

    def call(self, refs: Sequence[ClaimRef], active: Callable[[], bool]) -> AbstractContextManager[None]:
        """Answer a call for these claims in this thread (see `Gates.call`); one by one they are prepared inside."""
        return self._gates.call([ref.uid for ref in refs], active)

    def prepare(self, ref: ClaimRef) -> list[AnsweredDevice]:
        """Make the devices of a claim ready; repeated calls give the same answer.

        Raises:
            ClaimError: with the reason, for the kubelet; nothing of this call is left behind then.
        """
        if not usable_uid(ref.uid):
            raise ClaimError(f"claim {ref}: {ref.uid!r} cannot be used as a UID")
        with self._gates.enter(ref.uid) as visit:
            claim = self._claims.claim(ref.namespace, ref.name)
            if claim is None:
                raise ClaimError(f"claim {ref} not found")
            allocation = check_claim(claim, ref)
            with visit.preparing():
                try:
                    devices = self._prepare(ref, allocation)
                finally:
                    if visit.overtaken():
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
        self._complete(ref)
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

    def _complete(self, ref: ClaimRef) -> None:
        """ClaimError while it is unknown what claims have, because the checkpoint was damaged."""
        try:
            self._holdings.complete()
        except (HardwareError, OSError) as problem:
            raise ClaimError(
                f"the driver does not know what claim {ref} has: its checkpoint was damaged, and {problem}; "
                "it looks again at the next call"
            ) from problem

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
            self._holdings.configure(entry)
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
        others: list[PreparedDevice] = []
        if recovered is not None:
            # Its pod may be running: until all is well it keeps what it has, whatever happens.
            others = [device for device in recovered.devices if device.address not in _addresses(wanted)]
            entry = replace(recovered, ref=ref, devices=(*wanted, *others))
        try:
            for device in wanted:
                if device.settings is not None:
                    self._profile.check(device.address, device.name, device.settings)
            self._holdings.take(entry)
            prepared = ClaimEntry(ref, State.PREPARED, tuple(wanted))
            self._holdings.configure(prepared)
            self._cdi.ensure(ref.uid, self._spec(prepared))
            self._holdings.reset(others, ref)
            self._checkpoint.put(prepared)
        except (HardwareError, OSError) as problem:
            undone = self._undo(ref) if recovered is None else self._put_back(recovered, wanted)
            raise ClaimError(
                f"cannot prepare {_names(wanted)} for claim {ref}: {problem}{undone}"
            ) from problem
        except ClaimError:
            # Refused before anything was done.
            raise
        except Exception:
            if recovered is None:
                self._undo(ref)
            raise
        log.info("claim prepared", claim=ref, uid=ref.uid, devices=_names(wanted))
        return self._answer(prepared)

    def _put_back(self, recovered: ClaimEntry, wanted: Sequence[PreparedDevice]) -> str:
        """After a failure: a recovered claim has again what it had, and no more; as `_undo`."""
        had = _addresses(recovered.devices)
        new = [device for device in wanted if device.address not in had]
        try:
            self._holdings.reset(new, recovered.ref)
            if self._checkpoint.get(recovered.ref.uid) != recovered:
                self._checkpoint.put(recovered)
        except OSError as problem:
            return f"; undoing it failed as well: {problem}"
        return ""

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
        with self._gates.enter(ref.uid) as visit, visit.unpreparing() as mine:
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
        self._complete(ref)
        entry = self._checkpoint.get(uid)
        try:
            if entry is not None:
                if entry.state is State.PREPARED:
                    self._checkpoint.put(entry.moved(State.UNPREPARING))
                self._holdings.reset(entry.devices, ref)
            elif uid in self._checkpoint.contents.quarantined:
                self._holdings.reset_all(uid)
            self._cdi.remove(uid)
            self._checkpoint.forget(uid)
        except OSError as problem:
            raise ClaimError(f"cannot remove the state of claim {ref}: {problem}") from problem
        if entry is not None:
            log.info("claim released", claim=ref, uid=uid, devices=_names(entry.devices))

    def unfinished(self) -> None:
        """Release claims whose release or undoing has failed, and hardware that nobody owns."""
        for entry in self._checkpoint.contents.entries.values():
            if entry.state is State.PREPARED:
                continue
            with self._gates.enter(entry.ref.uid) as visit, visit.alone() as mine:
                now = self._checkpoint.get(entry.ref.uid)
                # While a call for the claim runs, it is that call's business.
                if mine and now is not None and now.state is not State.PREPARED:
                    self._attempt(entry.ref)
        try:
            self._holdings.complete()
            self._holdings.reset_orphans()
        except (HardwareError, OSError) as problem:
            log.warning("hardware cannot be looked through for forgotten claims", problem=problem)

    def complete(self) -> None:
        """Take over the claims that only the hardware remembers; see `Holdings.complete`."""
        self._holdings.complete()

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


def _addresses(devices: Sequence[PreparedDevice]) -> set[str]:
    return {device.address for device in devices}


def _names(devices: Sequence[PreparedDevice]) -> str:
    return ", ".join(str(device) for device in devices) or "no devices"
