"""Devices under the names by which the cluster knows them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from driver.sdk.checkpoint import Checkpoint
from driver.sdk.profile import HardwareDevice, Profile


def assign_names(kind: str, addresses: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Address -> name for the known devices and the new ones, which get the lowest free numbers in order.

    A device that has disappeared keeps its name: its number must not pass to another while claims have it.
    """
    names = dict(known)
    taken = set(names.values())
    number = 0
    for address in addresses:
        if address in names:
            continue
        while f"{kind}-{number}" in taken:
            number += 1
        names[address] = f"{kind}-{number}"
        taken.add(names[address])
    return names


class Inventory:
    """Looks at the hardware and names what is there; names are remembered in the checkpoint."""

    def __init__(self, profile: Profile, checkpoint: Checkpoint) -> None:
        self._profile = profile
        self._checkpoint = checkpoint
        self._lock = threading.Lock()

    def look(self) -> dict[str, HardwareDevice]:
        """Name -> device for everything that exists now, in the order of the profile.

        Raises:
            HardwareError, OSError: if the hardware cannot be read, or a new name cannot be remembered.
        """
        devices = self._profile.scan()
        with self._lock:
            known = self._checkpoint.contents.device_names
            names = assign_names(self._profile.kind, (device.address for device in devices), known)
            self._checkpoint.name_devices(names)
        return {names[device.address]: device for device in devices}

    def address(self, name: str) -> str | None:
        """The address of a device by name, also when it has disappeared; looks again for an unknown name.

        Raises:
            HardwareError, OSError: as `look`.
        """
        for attempt in range(2):
            for address, known in self._checkpoint.contents.device_names.items():
                if known == name:
                    return address
            if attempt == 0:
                self.look()
        return None
