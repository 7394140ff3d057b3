"""The machines that come with the package, one topology document each."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Final

from fake_hw.document import did_you_mean
from fake_hw.errors import HardwareError
from fake_hw.topology import Bridge, GpuFunction, Machine, PciRoot, load

DEFAULT = "dual-numa-4"
MOST_GPUS: Final = 240
"""Device minors end at 254; half of the GPUs are on either NUMA node."""
_DIRECTORY = Path(__file__).parent
_COUNTED: Final = re.compile(r"gpus-([1-9][0-9]{0,3})\Z")


def names() -> list[str]:
    """The names of all machines."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.yaml"))


def get(name: str) -> Machine:
    """The machine of that name, `gpus-N` being one with N GPUs; raises HardwareError naming those that exist."""
    if counted := _COUNTED.match(name):
        return with_gpus(int(counted[1]))
    if name not in names():
        raise HardwareError(
            f'no machine is named "{name}"; there are {", ".join(names())} and gpus-N for N GPUs'
            f"{did_you_mean(name, names())}"
        )
    return load(_DIRECTORY / f"{name}.yaml")


def find(name_or_file: str, node: str = "") -> Machine:
    """A machine of the package by its name, or one from a topology document when the text names a file.

    With `node`, a machine of the package is that of the node, as `of_node` makes it; a document counts as written.
    """
    if "/" not in name_or_file and not name_or_file.endswith((".yaml", ".yml", ".json")):
        return of_node(get(name_or_file), node) if node else get(name_or_file)
    try:
        return load(Path(name_or_file))
    except OSError as error:
        raise HardwareError(f"{name_or_file}: cannot be read: {error.strerror}") from None


def of_node(machine: Machine, node: str) -> Machine:
    """The machine with uuids and serial numbers made from the node's name: no two GPUs of a cluster have the same."""

    def own(device: Bridge | GpuFunction) -> Bridge | GpuFunction:
        if isinstance(device, Bridge):
            return replace(device, devices=tuple(own(below) for below in device.devices))
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{node}/{device.uuid}")
        serial = f"{identity.int % 10**13:013}" if device.serial is not None else None
        return replace(device, uuid=f"GPU-{identity}", serial=serial)

    roots = tuple(replace(root, devices=tuple(map(own, root.devices))) for root in machine.pci_roots)
    return replace(machine, pci_roots=roots)


def with_gpus(count: int) -> Machine:
    """The default machine with another number of GPUs, spread over both NUMA nodes, each behind a port of its own."""
    if not 1 <= count <= MOST_GPUS:
        raise HardwareError(f"a machine can have 1 to {MOST_GPUS} GPUs, not {count}")
    model = load(_DIRECTORY / f"{DEFAULT}.yaml")
    near = (count + 1) // 2
    roots = []
    for domain, minors in enumerate((range(near), range(near, count))):
        ports = tuple(
            Bridge(
                f"{domain:04x}:00:{index // 8:02x}.{index % 8}",
                (
                    GpuFunction(
                        bdf=f"{domain:04x}:{index + 1:02x}:00.0",
                        model=next(iter(model.gpu_models)),
                        minor=minor,
                        uuid=f"GPU-3f1c0a50-7d2e-4b6a-9c12-{minor:012x}",
                    ),
                ),
            )
            for index, minor in enumerate(minors)
        )
        roots.append(PciRoot(f"pci{domain:04x}:00", domain, ports))
    return replace(
        model, name=f"gpus-{count}", description=f"Two sockets with {count} GPUs", pci_roots=tuple(roots)
    )
