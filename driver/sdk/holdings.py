"""Which claim has which device: remembered first, then configured in the hardware; given back the other way."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from driver.sdk import log
from driver.sdk.adoption import adopt
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import ClaimError, HardwareError
from driver.sdk.failpoints import reach
from driver.sdk.profile import Profile
from driver.sdk.records import ClaimEntry, ClaimRef, PreparedDevice, State


class Holdings:
    """The devices that claims have. Safe to use from several threads, for one claim from one at a time."""

    def __init__(self, checkpoint: Checkpoint, profile: Profile, pool: str) -> None:
        self._checkpoint = checkpoint
        self._profile = profile
        self._pool = pool
        # Held from looking whether devices are free until they are taken, and while forgotten claims lose theirs.
        self._taking = threading.Lock()

    def complete(self) -> None:
        """Take over the claims that only the hardware remembers, if the checkpoint may have lost some.

        Raises:
            HardwareError: if the hardware cannot be asked. Nothing may be taken or released until it can.
            OSError: if the checkpoint cannot be written.
        """
        with self._taking:
            if self._checkpoint.contents.incomplete:
                self._checkpoint.replace(adopt(self._checkpoint.contents, self._profile, self._pool))

    def take(self, entry: ClaimEntry) -> None:
        """Remember that the devices belong to the claim.

        Raises:
            ClaimError: if another claim has one of them; it is named.
            HardwareError, OSError: if the hardware cannot be asked or the checkpoint not be written.
        """
        with self._taking:
            contents = self._checkpoint.contents
            users = self._profile.users()
            for device in entry.devices:
                for other in contents.entries.values():
                    if other.ref.uid != entry.ref.uid:
                        _refuse_conflict(device, other)
                if device.admin:
                    continue
                # How a damaged claim has its devices is unknown, so they are not shared either.
                for uid in users.get(device.address, ()):
                    if uid in contents.quarantined and uid != entry.ref.uid:
                        raise ClaimError(
                            f"device {device} is held by claim UID {uid}, whose record was damaged"
                        )
            self._checkpoint.put(entry)

    def configure(self, entry: ClaimEntry) -> None:
        """Configure what is not configured for the claim yet. Admin access leaves the hardware alone.

        Raises:
            HardwareError: if a device cannot be configured.
        """
        devices = {device.address: device for device in entry.devices if not device.admin}
        users = self._profile.users() if devices else {}
        for address, device in devices.items():
            uids = users.get(address, ())
            if set(uids) - {entry.ref.uid}:
                self._reset_strangers(address)
            if entry.ref.uid not in uids:
                reach("hardware.configure")
                shared = bool(device.share_id)
                self._profile.configure(address, entry.ref.uid, device.settings, shared=shared)

    def _reset_strangers(self, address: str) -> None:
        """Take a device from claims that nobody remembers: they could not be reset when they were unprepared."""
        # A stranger might come back and take the device between the look and the reset.
        with self._taking:
            known = self._checkpoint.contents
            for uid in self._profile.users().get(address, ()):
                if uid not in known.entries and uid not in known.quarantined:
                    reach("hardware.reset")
                    self._profile.reset(address, uid)

    def reset(self, devices: Sequence[PreparedDevice], ref: ClaimRef) -> None:
        """Give devices back; what fails is logged, and reset before the next claim gets it."""
        for address, name in {device.address: device.name for device in devices if not device.admin}.items():
            try:
                reach("hardware.reset")
                self._profile.reset(address, ref.uid)
            except (HardwareError, OSError) as problem:
                log.warning("device not reset, tried again later", device=name, claim=ref, problem=problem)

    def reset_all(self, uid: str) -> None:
        """Give back whatever the hardware is configured for on behalf of a claim; failures as in `reset`."""
        try:
            users = self._profile.users()
            for address in [address for address, uids in users.items() if uid in uids]:
                reach("hardware.reset")
                self._profile.reset(address, uid)
        except (HardwareError, OSError) as problem:
            log.warning("device not reset, tried again later", claim_uid=uid, problem=problem)

    def reset_orphans(self) -> None:
        """Give back what the hardware is configured for on behalf of claims that nobody remembers.

        Raises:
            HardwareError: if the hardware cannot be asked.
        """
        with self._taking:
            contents = self._checkpoint.contents
            if contents.incomplete:
                return
            uids = {uid for users in self._profile.users().values() for uid in users}
            # Only what nobody remembers; a device is taken before it is configured.
            for uid in sorted(uids - set(contents.entries) - set(contents.quarantined)):
                log.warning("hardware is configured for an unknown claim: resetting it", claim_uid=uid)
                self.reset_all(uid)


def _refuse_conflict(device: PreparedDevice, other: ClaimEntry) -> None:
    for held in other.devices:
        if device.conflicts(held):
            holder = f"{other.ref} (UID {other.ref.uid})" if other.ref.name else f"UID {other.ref.uid}"
            state = "" if other.state is State.PREPARED else ", which is being released"
            raise ClaimError(f"device {device} is already prepared for claim {holder}{state}")
