"""What a driver does at start, before anybody may call it: bring memory, hardware and CDI files together."""

from __future__ import annotations

from driver.sdk import log
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import HardwareError
from driver.sdk.inventory import Inventory
from driver.sdk.preparer import Preparer
from driver.sdk.profile import Profile
from driver.sdk.records import State


def recover(
    *,
    checkpoint: Checkpoint,
    profile: Profile,
    inventory: Inventory,
    preparer: Preparer,
    cdi: CdiFiles,
) -> None:
    """Finish what was interrupted, restore what is missing, remove what nobody owns. Trouble is logged.

    Raises:
        OSError: if the checkpoint cannot be written: nothing could be prepared then.
    """
    try:
        preparer.complete()
    except HardwareError as problem:
        log.error("claims cannot be recovered from the hardware yet", source=profile.source, problem=problem)
    try:
        inventory.look()
    except HardwareError as problem:
        log.warning("hardware cannot be read", source=profile.source, problem=problem)
    preparer.unfinished()
    contents = checkpoint.contents
    for entry in contents.entries.values():
        if entry.state is State.PREPARED and not entry.recovered:
            preparer.restore(entry)
    if contents.incomplete:
        # Files of claims that are still to be taken over would look like nobody's.
        return
    try:
        cdi.clean({*contents.entries, *contents.quarantined})
    except OSError as problem:
        log.error("CDI directory cannot be cleaned", directory=cdi.directory, problem=problem)
