"""GPUs as a program in the container finds them: by the variables that a driver's CDI edits set for each.

For each GPU: `<NAME>_UUID`, and beside it `<NAME>_PRODUCT_NAME` and `<NAME>_PCI_BUS_ID`, NAME ending in a number. GPUs
are counted in the order of their PCI addresses, as NVIDIA's tools count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

UNKNOWN_PRODUCT = "NVIDIA GPU"
"""Product of a GPU whose driver does not tell it."""
_UUID = re.compile(r"([A-Z][A-Z0-9_]*_[0-9]+)_UUID")


@dataclass(frozen=True)
class VisibleGpu:
    """A GPU in the container."""

    product: str
    uuid: str
    pci_bus_id: str = ""


def gpus(environment: Mapping[str, str]) -> list[VisibleGpu]:
    """The GPUs that the environment tells of, in PCI order."""
    found = [
        VisibleGpu(
            environment.get(f"{match[1]}_PRODUCT_NAME") or UNKNOWN_PRODUCT,
            uuid,
            environment.get(f"{match[1]}_PCI_BUS_ID", ""),
        )
        for name, uuid in environment.items()
        if uuid and (match := _UUID.fullmatch(name))
    ]
    return sorted(found, key=lambda gpu: (gpu.pci_bus_id, gpu.uuid))


def listing(found: list[VisibleGpu]) -> str:
    """What `nvidia-smi -L` prints."""
    return "".join(f"GPU {index}: {gpu.product} (UUID: {gpu.uuid})\n" for index, gpu in enumerate(found))
