"""Taking over the claims that only the hardware remembers, after the checkpoint has lost some."""

from __future__ import annotations

from dataclasses import replace

from driver.sdk import log
from driver.sdk.checkpoint import Contents
from driver.sdk.inventory import assign_names
from driver.sdk.profile import Profile
from driver.sdk.records import ClaimEntry, ClaimRef, PreparedDevice, State, usable_uid


def adopt(contents: Contents, profile: Profile, pool: str) -> Contents:
    """Complete contents: with an entry for each claim that only the hardware remembers.

    The pods of such claims run on, so their devices must not be given to others; names and requests are filled
    in by the next prepare.

    Raises:
        HardwareError: if the hardware cannot be asked; the contents stay incomplete then.
    """
    users = profile.users()
    names = assign_names(profile.kind, [device.address for device in profile.scan()], contents.device_names)
    lost: dict[str, list[PreparedDevice]] = {}
    for address, uids in users.items():
        for uid in uids:
            if uid not in contents.entries and uid not in contents.quarantined and usable_uid(uid):
                device = PreparedDevice(
                    pool=pool, name=names.get(address, address), address=address, requests=()
                )
                lost.setdefault(uid, []).append(device)
    entries = dict(contents.entries)
    for uid, devices in lost.items():
        log.warning("claim recovered from the hardware", uid=uid, devices=", ".join(map(str, devices)))
        entries[uid] = ClaimEntry(ClaimRef("", "", uid), State.PREPARED, tuple(devices), recovered=True)
    return replace(contents, entries=entries, device_names=names, incomplete=False)
