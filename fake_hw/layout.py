"""What the tree of a machine consists of: a pure plan of directories, files, links and device nodes.

docs/hardware.md describes the layout. Names and formats are those of Linux, except for the
`gpu/` directory of a device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from fake_hw.topology import CONTROL_MINOR, Bridge, GpuFunction, Machine, NumaNode

MAJOR: Final = 240
"""Major number of all device nodes: the first of the block that Linux leaves to local use."""

BUS_DEVICES: Final = "sys/bus/pci/devices"
_BRIDGE_DRIVER: Final = "pcieport"
_BRIDGE_CLASS: Final = "0x060400"
_BRIDGE_IDS: Final = ("0x8086", "0x347a")


@dataclass(frozen=True)
class Directory:
    """A directory."""


@dataclass(frozen=True)
class File:
    """A regular file."""

    data: bytes


@dataclass(frozen=True)
class Link:
    """A symbolic link with a relative target."""

    target: str


@dataclass(frozen=True)
class Node:
    """A character device."""

    major: int
    minor: int

    @property
    def text(self) -> str:
        """What a regular file holds that stands in for the device."""
        return f"c {self.major}:{self.minor}\n"


Entry = Directory | File | Link | Node


def cpu_ranges(cpus: Iterable[int]) -> str:
    """The kernel's list form of CPU numbers, such as `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def plan(
    machine: Machine, *, absent: Collection[str] = (), minors: Mapping[str, int] | None = None
) -> dict[str, Entry]:
    """Every entry of the tree by its path below the root, in an order to make them: a link after its target.

    `absent` are PCI addresses to leave out with all that is behind them; `minors` are device
    numbers that differ from the topology.
    """
    return _Plan(machine, absent, minors or {}).entries


class _Plan:
    def __init__(self, machine: Machine, absent: Collection[str], minors: Mapping[str, int]) -> None:
        self.machine = machine
        self.absent = absent
        self.minors = minors
        self.entries: dict[str, Entry] = {}
        self.directory("sys")
        self.directory("dev")
        self.directory(BUS_DEVICES)
        self.directory("sys/bus/pci/drivers")
        self.directory("sys/devices")
        for node in machine.numa_nodes:
            self.numa_node(node)
        self.system_lists()
        self.module()
        for root in machine.pci_roots:
            self.functions(f"sys/devices/{root.id}", root.devices, root.numa_node)
            self.directory(f"sys/devices/{root.id}")

    def directory(self, path: str) -> None:
        for parent in reversed(PurePosixPath(path).parents):
            if parent.name:
                self.entries.setdefault(str(parent), Directory())
        self.entries.setdefault(path, Directory())

    def file(self, path: str, value: object) -> None:
        self.directory(str(PurePosixPath(path).parent))
        self.entries[path] = File(f"{value}\n".encode())

    def link(self, path: str, target: str) -> None:
        """A link at `path` to another path of the tree, written relative as the kernel does."""
        self.directory(str(PurePosixPath(path).parent))
        here, there = path.split("/")[:-1], target.split("/")
        common = 0
        while common < min(len(here), len(there)) and here[common] == there[common]:
            common += 1
        self.entries[path] = Link("/".join([".."] * (len(here) - common) + there[common:]))

    def numa_node(self, node: NumaNode) -> None:
        base = f"sys/devices/system/node/node{node.id}"
        self.file(f"{base}/cpulist", cpu_ranges(node.cpus))
        self.file(f"{base}/distance", " ".join(map(str, node.distances)))
        kilobytes = node.memory // 1024
        lines = (("MemTotal", kilobytes), ("MemFree", kilobytes), ("MemUsed", 0))
        self.file(
            f"{base}/meminfo", "\n".join(f"Node {node.id} {name}: {size:14d} kB" for name, size in lines)
        )
        for cpu in node.cpus:
            cpu_base = f"sys/devices/system/cpu/cpu{cpu}"
            self.file(f"{cpu_base}/topology/physical_package_id", node.package)
            self.file(f"{cpu_base}/topology/core_id", cpu)
            self.link(f"{cpu_base}/node{node.id}", base)
            self.link(f"{base}/cpu{cpu}", cpu_base)

    def system_lists(self) -> None:
        nodes = self.machine.numa_nodes
        cpus = cpu_ranges(cpu for node in nodes for cpu in node.cpus)
        for name in ("online", "possible", "present"):
            self.file(f"sys/devices/system/cpu/{name}", cpus)
        every = cpu_ranges(node.id for node in nodes)
        for name in ("online", "possible", "has_memory"):
            self.file(f"sys/devices/system/node/{name}", every)
        self.file("sys/devices/system/node/has_cpu", cpu_ranges(node.id for node in nodes if node.cpus))

    def module(self) -> None:
        driver = self.machine.kernel_driver
        if driver is None:
            return
        base = f"sys/module/{driver.name}"
        self.directory(base)
        if driver.version is not None:
            self.file(f"{base}/version", driver.version)
        if driver.cuda_driver_version is not None:
            self.file(f"{base}/cuda_driver_version", driver.cuda_driver_version)
        self.directory(f"sys/bus/pci/drivers/{driver.name}")
        self.link(f"sys/bus/pci/drivers/{driver.name}/module", base)
        self.entries[f"dev/{driver.name}ctl"] = Node(MAJOR, CONTROL_MINOR)

    def functions(self, parent: str, devices: Iterable[Bridge | GpuFunction], numa: int | None) -> None:
        for device in devices:
            if device.bdf in self.absent:
                continue
            base = f"{parent}/{device.bdf}"
            if isinstance(device, Bridge):
                vendor_device = _BRIDGE_IDS
                self.pci(base, numa, _BRIDGE_CLASS, vendor_device, vendor_device, _BRIDGE_DRIVER)
                self.functions(base, device.devices, numa)
            else:
                self.gpu(base, device, numa)

    def pci(
        self,
        base: str,
        numa: int | None,
        class_code: str,
        ids: tuple[str, str],
        subsystem: tuple[str, str],
        driver: str,
    ) -> None:
        address = base.rsplit("/", 1)[1]
        nodes = self.machine.numa_nodes if numa is None else (self.machine.numa_nodes[numa],)
        self.file(f"{base}/vendor", ids[0])
        self.file(f"{base}/device", ids[1])
        self.file(f"{base}/subsystem_vendor", subsystem[0])
        self.file(f"{base}/subsystem_device", subsystem[1])
        self.file(f"{base}/class", class_code)
        self.file(f"{base}/numa_node", -1 if numa is None else numa)
        self.file(f"{base}/local_cpulist", cpu_ranges(cpu for node in nodes for cpu in node.cpus))
        vendor, device, sub_vendor, sub_device = (value[2:].upper() for value in (*ids, *subsystem))
        code = class_code[2:].upper()
        kind = f"bc{code[:2]}sc{code[2:4]}i{code[4:]}"
        alias = f"pci:v0000{vendor}d0000{device}sv0000{sub_vendor}sd0000{sub_device}{kind}"
        lines = (
            f"DRIVER={driver}",
            f"PCI_CLASS={code.lstrip('0')}",
            f"PCI_ID={vendor}:{device}",
            f"PCI_SUBSYS_ID={sub_vendor}:{sub_device}",
            f"PCI_SLOT_NAME={address}",
            f"MODALIAS={alias}",
        )
        self.file(f"{base}/uevent", "\n".join(lines))
        self.file(f"{base}/modalias", alias)
        self.link(f"{base}/subsystem", "sys/bus/pci")
        self.link(f"{base}/driver", f"sys/bus/pci/drivers/{driver}")
        self.directory(f"sys/bus/pci/drivers/{driver}")
        self.link(f"sys/bus/pci/drivers/{driver}/{address}", base)
        self.link(f"{BUS_DEVICES}/{address}", base)

    def gpu(self, base: str, gpu: GpuFunction, numa: int | None) -> None:
        model = self.machine.gpu_models[gpu.model]
        driver = self.machine.kernel_driver
        if driver is None:
            raise ValueError(f"{gpu.bdf} is a GPU, but the machine has no kernel driver")
        ids = (model.vendor_id, model.device_id)
        subsystem = (model.subsystem_vendor_id or ids[0], model.subsystem_device_id or ids[1])
        minor = self.minors.get(gpu.bdf, gpu.minor)
        name = f"{driver.name}{minor}"
        self.file(f"{base}/gpu/dev", f"{MAJOR}:{minor}")
        self.file(f"{base}/gpu/uevent", f"MAJOR={MAJOR}\nMINOR={minor}\nDEVNAME={name}")
        facts = {
            "uuid": gpu.uuid,
            "product_name": model.product,
            "brand": model.brand,
            "architecture": model.architecture,
            "memory_total": model.memory,
            "cuda_compute_capability": model.cuda_compute_capability,
            "firmware_version": model.firmware_version,
            "serial": gpu.serial,
        }
        for fact, value in facts.items():
            if value is not None:
                self.file(f"{base}/gpu/{fact}", value)
        for feature, supported in model.features.items():
            self.file(f"{base}/gpu/features/{feature}", "supported" if supported else "unsupported")
        self.entries[f"dev/{name}"] = Node(MAJOR, minor)
        self.pci(base, numa, model.class_code, ids, subsystem, driver.name)
