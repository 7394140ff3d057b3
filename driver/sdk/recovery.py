"""What a driver does at start, before anybody may call it: bring memory, hardware and CDI files together."""

from __future__ import annotations

from dataclasses import replace

from driver.sdk import log
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint, Contents, Loaded
from driver.sdk.errors import HardwareError
from driver.sdk.inventory import Inventory, assign_names
from driver.sdk.preparer import Preparer
from driver.sdk.profile import Profile
from driver.sdk.records import ClaimEntry, ClaimRef, PreparedDevice, State, usable_uid


def adopt(contents: Contents, loaded: Loaded, profile: Profile, pool: str) -> Contents:
    """After damage: the contents with an entry for each claim that only the hardware remembers.

    Their pods run on, so their devices must not be given to others; names and requests are filled in by the
    next prepare. Without damage the contents are returned as they are.
    """
    if not loaded.damage:
        return contents
    try:
        users = profile.users()
        addresses = [device.address for device in profile.scan()]
    except (HardwareError, OSError) as problem:
        log.error("claims cannot be recovered from the hardware", problem=problem)
        return contents
    names = assign_names(profile.kind, addresses, contents.device_names)
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
    return replace(contents, entries=entries, device_names=names)


def recover(
    *,
    loaded: Loaded,
    checkpoint: Checkpoint,
    profile: Profile,
    inventory: Inventory,
    preparer: Preparer,
    cdi: CdiFiles,
    pool: str,
) -> None:
    """Finish what was interrupted, restore what is missing, remove what nobody owns. Trouble is logged.

    Raises:
        OSError: if the checkpoint cannot be written: nothing could be prepared then.
    """
    if loaded.damage:
        checkpoint.replace(adopt(checkpoint.contents, loaded, profile, pool))
    try:
        inventory.look()
    except HardwareError as problem:
        log.warning("hardware cannot be read", source=profile.source, problem=problem)
    preparer.unfinished()
    contents = checkpoint.contents
    for entry in contents.entries.values():
        if entry.state is State.PREPARED and not entry.recovered:
            preparer.restore(entry)
    try:
        cdi.clean({*contents.entries, *contents.quarantined})
    except OSError as problem:
        log.error("CDI directory cannot be cleaned", directory=cdi.directory, problem=problem)
