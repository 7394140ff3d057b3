"""Reads hardware as a device driver does: from the files of the tree alone, whoever made them.

A file that is missing or makes no sense costs the fact that it holds, never the device; what was odd is told
as a problem. Rules for the PCIe root and the NUMA node: those of the Kubernetes helper for device attributes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fake_hw import values

_PAGE: Final = 4096
"""A sysfs file is at most one page long."""

_MAX_NUMA_NODES: Final = 1024
_BUS_DEVICES: Final = "bus/pci/devices"
_DISPLAY_CLASS: Final = "0x03"


@dataclass(frozen=True)
class Gpu:
    """One GPU as the tree shows it; None stands for what the tree does not tell.

    Strings are raw, of any length, stripped of white space, and valid text (other bytes become U+FFFD).
    `memory` is in bytes, `features` holds only those that the device declares, `dev_path` is the device node
    below the root and `dev_name` its name in /dev, such as `fakegpu0`.
    """

    bdf: str
    pcie_root: str | None
    numa_node: int | None
    vendor_id: str | None
    device_id: str | None
    class_code: str
    driver: str | None
    driver_version: str | None
    cuda_driver_version: str | None
    uuid: str | None
    product: str | None
    brand: str | None
    architecture: str | None
    memory: int | None
    cuda_compute_capability: str | None
    firmware_version: str | None
    serial: str | None
    major: int | None
    minor: int | None
    dev_name: str | None
    dev_path: Path | None
    control_path: Path | None
    features: Mapping[str, bool]


@dataclass(frozen=True)
class Scan:
    """Everything found in one pass: the GPUs by PCI address, and one line for each thing that was odd."""

    gpus: tuple[Gpu, ...]
    problems: tuple[str, ...]


class Host:
    """The hardware below a root directory that holds `sys` and `dev`; `/` would be the real machine."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.sys = self.root / "sys"

    def gpus(self) -> list[Gpu]:
        """All GPUs by PCI address; a root without any gives an empty list (`scan` says why)."""
        return list(self.scan().gpus)

    def gpu(self, bdf: str) -> Gpu | None:
        """The GPU at a PCI address, None when there is none (any more)."""
        return _Function(self, bdf, []).gpu()

    def scan(self) -> Scan:
        """All GPUs and what was odd on the way."""
        problems: list[str] = []
        bus = self.sys / _BUS_DEVICES
        try:
            names = sorted(path.name for path in bus.iterdir())
        except OSError as error:
            return Scan((), (f"{bus}: {error.strerror}",))
        gpus = []
        for name in names:
            try:
                address = values.bdf(name)
            except ValueError:
                problems.append(f"{bus / name}: not a PCI address; left out")
                continue
            gpu = _Function(self, address, problems).gpu()
            if gpu is not None:
                gpus.append(gpu)
        if not gpus:
            problems.append(f"{bus}: no GPU among {len(names)} PCI functions (class {_DISPLAY_CLASS}....)")
        return Scan(tuple(gpus), tuple(problems))

    @property
    def numa_distances(self) -> dict[int, list[int]]:
        """The row of distances of each NUMA node that has a readable one; a column is a node."""
        rows: dict[int, list[int]] = {}
        nodes = self.sys / "devices/system/node"
        for directory in nodes.glob("node[0-9]*"):
            text = _read(directory / "distance") or ""
            if re.fullmatch(r"node[0-9]+", directory.name) and re.fullmatch(r"[0-9]+(\s+[0-9]+)*", text):
                rows[int(directory.name.removeprefix("node"))] = [int(word) for word in text.split()]
        return dict(sorted(rows.items()))

    def nearest_numa_nodes(self, node: int) -> list[int]:
        """The node, then in ascending order the others at its smallest distance and not on another socket.

        Only the node itself when distances are unreadable. This is the list form of the attribute numaNode.
        """
        row = self.numa_distances.get(node, [])
        others = {other: distance for other, distance in enumerate(row) if other != node}
        if node >= len(row) or not others:
            return [node]
        nearest = min(others.values())
        package = self.package_of_numa_node(node)
        result = [node]
        for other, distance in others.items():
            other_package = self.package_of_numa_node(other) if package is not None else None
            if distance == nearest and other_package in (None, package):
                result.append(other)
        return result

    def package_of_numa_node(self, node: int) -> int | None:
        """The socket of a NUMA node, told by the first of its CPUs that knows; None when none does."""
        try:
            cpus = values.cpu_list(_read(self.sys / f"devices/system/node/node{node}/cpulist") or "")
        except ValueError:
            return None
        for cpu in cpus:
            text = _read(self.sys / f"devices/system/cpu/cpu{cpu}/topology/physical_package_id") or ""
            if re.fullmatch(r"[0-9]{1,9}", text):
                return int(text)
        return None


class _Function:
    """One PCI function while it is read; notes problems and goes on."""

    def __init__(self, host: Host, bdf: str, problems: list[str]) -> None:
        self.host = host
        self.bdf = bdf
        self.path = host.sys / _BUS_DEVICES / bdf
        self.problems = problems

    def gpu(self) -> Gpu | None:
        class_code = self.text("class")
        if class_code is None or not class_code.startswith(_DISPLAY_CLASS):
            return None
        driver = self.driver()
        module = self.host.sys / "module" / driver if driver else None
        major, minor = self.device_number()
        dev_name = self.dev_name()
        control = self.host.root / f"dev/{driver}ctl" if driver else None
        return Gpu(
            bdf=self.bdf,
            pcie_root=self.pcie_root(),
            numa_node=self.numa_node(),
            vendor_id=self.text("vendor"),
            device_id=self.text("device"),
            class_code=class_code,
            driver=driver,
            driver_version=_read(module / "version") if module else None,
            cuda_driver_version=_read(module / "cuda_driver_version") if module else None,
            uuid=self.text("gpu/uuid"),
            product=self.text("gpu/product_name"),
            brand=self.text("gpu/brand"),
            architecture=self.text("gpu/architecture"),
            memory=self.memory(),
            cuda_compute_capability=self.text("gpu/cuda_compute_capability"),
            firmware_version=self.text("gpu/firmware_version"),
            serial=self.text("gpu/serial"),
            major=major,
            minor=minor,
            dev_name=dev_name,
            dev_path=self.host.root / "dev" / dev_name if dev_name else None,
            control_path=control if control and control.exists() else None,
            features=self.features(),
        )

    def text(self, name: str) -> str | None:
        return _read(self.path / name)

    def odd(self, name: str, text: str) -> None:
        self.problems.append(f"{self.path / name}: {text}")

    def driver(self) -> str | None:
        try:
            return (self.path / "driver").readlink().name
        except OSError:
            return None

    def pcie_root(self) -> str | None:
        """The first component below `devices/` of the one-level target of the link in the bus directory."""
        try:
            target = str(self.path.readlink())
        except OSError as error:
            self.odd("", f"not a readable link ({error.strerror}), so the PCIe root is unknown")
            return None
        below = os.path.normpath(os.path.join(_BUS_DEVICES, target))  # noqa: PTH118 Path keeps ".."
        parts = below.split("/")
        if not below.startswith("devices/pci") or parts[-1] != self.bdf:
            self.odd(
                "", f'target "{target}" does not lead to devices/pci.../{self.bdf}; the PCIe root is unknown'
            )
            return None
        return parts[1]

    def numa_node(self) -> int | None:
        text = self.text("numa_node")
        if text is None:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,9}", text) or int(text) >= _MAX_NUMA_NODES:
            self.odd(
                "numa_node", f'"{text[:40]}" is not a NUMA node (-1 to {_MAX_NUMA_NODES - 1}); taken as none'
            )
            return None
        return int(text) if int(text) >= 0 else None

    def memory(self) -> int | None:
        text = self.text("gpu/memory_total")
        if text is None or re.fullmatch(r"[0-9]{1,18}", text):
            return int(text) if text else None
        self.odd("gpu/memory_total", f'"{text[:40]}" is not a number of bytes; memory is unknown')
        return None

    def device_number(self) -> tuple[int | None, int | None]:
        text = self.text("gpu/dev") or ""
        match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
        if match:
            return int(match[1]), int(match[2])
        self.odd("gpu/dev", f'"{text[:40]}" is not major:minor; the device number is unknown')
        return None, None

    def dev_name(self) -> str | None:
        """The DEVNAME of the device event; only a plain name below /dev is believed."""
        match = re.search(r"^DEVNAME=([A-Za-z0-9_-]+)$", self.text("gpu/uevent") or "", re.MULTILINE)
        if match:
            return match[1]
        self.odd("gpu/uevent", "no DEVNAME; the device node is unknown")
        return None

    def features(self) -> dict[str, bool]:
        result: dict[str, bool] = {}
        try:
            names = sorted(path.name for path in (self.path / "gpu/features").iterdir())
        except OSError:
            return result
        for name in names:
            text = self.text(f"gpu/features/{name}")
            if text in ("supported", "unsupported"):
                result[name] = text == "supported"
            else:
                self.odd(
                    f"gpu/features/{name}", f'"{(text or "")[:40]}" is neither supported nor unsupported'
                )
        return result


def _read(path: Path) -> str | None:
    """The stripped text of a file; None when it is missing, unreadable or blank."""
    try:
        with path.open("rb") as file:
            return file.read(_PAGE).decode("utf-8", errors="replace").strip().strip("\0").strip() or None
    except OSError:
        return None
