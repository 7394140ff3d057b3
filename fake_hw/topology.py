"""A machine as data: NUMA nodes, PCI roots, bridges and GPUs, read strictly from a YAML topology document.

docs/hardware.md explains the format with an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from fake_hw import values
from fake_hw.document import Document, Section, did_you_mean, scalar

SCHEMA_VERSION: Final = "1"
FEATURES: Final = ("timeslice", "mps", "mig")
"""What a GPU model may declare as supported or unsupported; left out means that the device does not tell."""

CONTROL_MINOR: Final = 255
"""Minor number of the control device, so that GPUs have 0 to 254."""

_MAX_DISTANCE: Final = 254
_LOCAL_DISTANCE: Final = 10
_NO_CPUS: Final[tuple[int, ...]] = ()


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node: CPU numbers, their socket (None without CPUs), bytes, one distance per node."""

    id: int
    cpus: tuple[int, ...]
    package: int | None
    memory: int
    distances: tuple[int, ...]


@dataclass(frozen=True)
class KernelDriver:
    """The kernel module that drives all GPUs; versions are raw strings as a kernel prints them."""

    name: str
    version: str | None = None
    cuda_driver_version: str | None = None


@dataclass(frozen=True)
class GpuModel:
    """What all GPUs of one model share. Ids are as in sysfs (`0x10de`), memory in bytes."""

    product: str
    vendor_id: str
    device_id: str
    memory: int
    class_code: str = "0x030200"
    subsystem_vendor_id: str | None = None
    subsystem_device_id: str | None = None
    brand: str | None = None
    architecture: str | None = None
    cuda_compute_capability: str | None = None
    firmware_version: str | None = None
    features: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuFunction:
    """One GPU at a PCI address; `model` is a key of `Machine.gpu_models`, `minor` its device number."""

    bdf: str
    model: str
    minor: int
    uuid: str
    serial: str | None = None


@dataclass(frozen=True)
class Bridge:
    """A PCI bridge or one port of a switch, with the functions behind it."""

    bdf: str
    devices: tuple[Bridge | GpuFunction, ...] = ()


@dataclass(frozen=True)
class PciRoot:
    """A PCI root complex such as `pci0000:64`; NUMA node None: the firmware does not tell (-1)."""

    id: str
    numa_node: int | None
    devices: tuple[Bridge | GpuFunction, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A whole machine, checked: addresses, uuids and minors are unique, every reference resolves."""

    name: str
    numa_nodes: tuple[NumaNode, ...]
    pci_roots: tuple[PciRoot, ...] = ()
    gpu_models: Mapping[str, GpuModel] = field(default_factory=dict)
    kernel_driver: KernelDriver | None = None
    description: str | None = None

    def gpus(self) -> tuple[GpuFunction, ...]:
        """All GPUs, in the order of the document."""
        return tuple(gpu for root in self.pci_roots for gpu in _gpus_below(root.devices))


def _gpus_below(devices: tuple[Bridge | GpuFunction, ...]) -> Iterator[GpuFunction]:
    for device in devices:
        if isinstance(device, GpuFunction):
            yield device
        else:
            yield from _gpus_below(device.devices)


def load(text_or_path: str | Path, source: str = "machine") -> Machine:
    """Read a topology document: a Path is opened, a string is the document itself.

    Raises TopologyError with every problem (file, line, path, what is allowed), OSError for a file.
    """
    if isinstance(text_or_path, Path):
        source = str(text_or_path)
        text_or_path = text_or_path.read_bytes().decode("utf-8", errors="replace")
    document = Document(text_or_path, source)
    machine = _Parser(document).machine()
    document.finish()
    return machine


class _Parser:
    """Reads one document; notes problems in it and goes on."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.models: dict[str, GpuModel] = {}
        self.model_names: list[str] = []
        self.numa_count = 0
        self.has_driver = False

    def machine(self) -> Machine:
        fields = (
            "schemaVersion",
            "name",
            "description",
            "kernelDriver",
            "numaNodes",
            "gpuModels",
            "pciRoots",
        )
        top = Section(self.document, self.document.root, "", fields)
        top.required("schemaVersion", self._schema_version, "")
        name = top.required("name", values.machine_name, "")
        description = top.optional("description", values.text, None)
        driver = self._kernel_driver(top)
        self.has_driver = "kernelDriver" in top
        nodes = self._numa_nodes(top)
        self.model_names = [key for key, _, _ in top.entries("gpuModels")]
        for key, node, path in top.entries("gpuModels"):
            self.models[key] = self._gpu_model(node, path)
        roots = tuple(self._root(node, path) for node, path in top.items("pciRoots"))
        return Machine(name, nodes, roots, self.models, driver, description)

    @staticmethod
    def _schema_version(value: str) -> str:
        if value != SCHEMA_VERSION:
            raise ValueError(f"is not a version that this program knows; allowed: {SCHEMA_VERSION}")
        return value

    def _kernel_driver(self, top: Section) -> KernelDriver | None:
        section = top.section("kernelDriver", ("name", "version", "cudaDriverVersion"))
        if section is None:
            return None
        return KernelDriver(
            section.required("name", values.module_name, ""),
            section.optional("version", values.text, None),
            section.optional("cudaDriverVersion", values.text, None),
        )

    def _numa_nodes(self, top: Section) -> tuple[NumaNode, ...]:
        items = top.items("numaNodes", required=True)
        self.numa_count = len(items)
        if not items and "numaNodes" in top:
            self.document.add(top.line_of("numaNodes"), "numaNodes", "must have at least one node")
        return tuple(self._numa_node(node, path, index) for index, (node, path) in enumerate(items))

    def _numa_node(self, node: yaml.Node, path: str, index: int) -> NumaNode:
        section = Section(self.document, node, path, ("id", "cpus", "package", "memory", "distances"))
        number = section.required("id", values.number(0, 1023), index)
        if number != index:
            self.document.add(
                section.line_of("id"), section.at("id"), f"must be {index}: nodes count up from 0"
            )
        cpus = section.optional("cpus", values.cpu_list, _NO_CPUS)
        for cpu in cpus:
            self.document.unique(section.line_of("cpus"), section.at("cpus"), "CPU", str(cpu))
        package = section.optional("package", values.number(0, 255), None)
        if ("cpus" in section) != ("package" in section):
            text = "must be given together with cpus, and left out for a node without CPUs"
            self.document.add(section.line_of("package"), section.at("package"), text)
        distances = tuple(
            scalar(self.document, item, where, values.number(_LOCAL_DISTANCE, _MAX_DISTANCE), _LOCAL_DISTANCE)
            for item, where in section.items("distances", required=True)
        )
        self._check_distances(section, distances, index)
        return NumaNode(index, cpus, package, section.required("memory", values.memory, 0), distances)

    def _check_distances(self, section: Section, distances: tuple[int, ...], index: int) -> None:
        if "distances" not in section:
            return
        where, path = section.line_of("distances"), section.at("distances")
        if len(distances) != self.numa_count:
            text = f"must have one distance for each of the {self.numa_count} nodes, but has {len(distances)}"
            self.document.add(where, path, text)
            return
        for other, distance in enumerate(distances):
            if other == index and distance != _LOCAL_DISTANCE:
                text = f"must be {_LOCAL_DISTANCE}: the distance of a node to itself"
                self.document.add(where, f"{path}[{other}]", text)
            if other != index and distance <= _LOCAL_DISTANCE:
                text = f"must be more than {_LOCAL_DISTANCE}: only the node itself is that near"
                self.document.add(where, f"{path}[{other}]", text)

    def _gpu_model(self, node: yaml.Node, path: str) -> GpuModel:
        fields = (
            *("product", "vendorId", "deviceId", "memory", "class", "subsystemVendorId", "subsystemDeviceId"),
            *("brand", "architecture", "cudaComputeCapability", "firmwareVersion", "features"),
        )
        section = Section(self.document, node, path, fields)
        features = section.section("features", FEATURES)
        return GpuModel(
            product=section.required("product", values.text, ""),
            vendor_id=section.required("vendorId", values.hex_id(4), ""),
            device_id=section.required("deviceId", values.hex_id(4), ""),
            memory=section.required("memory", values.memory, 0),
            class_code=section.optional("class", values.hex_id(6, "03"), GpuModel.class_code),
            subsystem_vendor_id=section.optional("subsystemVendorId", values.hex_id(4), None),
            subsystem_device_id=section.optional("subsystemDeviceId", values.hex_id(4), None),
            brand=section.optional("brand", values.text, None),
            architecture=section.optional("architecture", values.text, None),
            cuda_compute_capability=section.optional("cudaComputeCapability", values.text, None),
            firmware_version=section.optional("firmwareVersion", values.text, None),
            features={
                name: features.required(name, values.boolean, False) for name in FEATURES if name in features
            }
            if features
            else {},
        )

    def _root(self, node: yaml.Node, path: str) -> PciRoot:
        section = Section(self.document, node, path, ("id", "numaNode", "devices"))
        root = section.required("id", values.root_id, "")
        if root:
            self.document.unique(section.line_of("id"), section.at("id"), "PCI bus", root.removeprefix("pci"))
        numa = section.optional("numaNode", self._known_node, None)
        return PciRoot(root, numa, self._functions(section, root.removeprefix("pci"), is_root=True))

    def _known_node(self, value: str) -> int:
        number = values.number(0, 1023)(value)
        if number >= self.numa_count:
            known = f"0 to {self.numa_count - 1}" if self.numa_count else "none"
            raise ValueError(f"is not a NUMA node of this machine; allowed: {known}")
        return number

    def _functions(
        self, section: Section, bus: str, is_root: bool = False
    ) -> tuple[Bridge | GpuFunction, ...]:
        """The functions of one bus; `bus` is `dddd:bb` of the root or bridge above, empty when unreadable."""
        result: list[Bridge | GpuFunction] = []
        own = bus if is_root else ""
        for node, path in section.items("devices"):
            item = Section(
                self.document, node, path, ("gpu", "bridge", "model", "minor", "uuid", "serial", "devices")
            )
            kind = "bridge" if "bridge" in item else "gpu"
            if "gpu" not in item and "bridge" not in item:
                self.document.add(node, path, "must have the field gpu or bridge, with its PCI address")
                continue
            address = item.required(kind, values.bdf, "")
            if address:
                self.document.unique(item.line_of(kind), item.at(kind), "PCI address", address)
            if address and bus:
                if not own and self._secondary_bus(item, kind, address, bus):
                    own = address[:7]
                elif own and address[:7] != own:
                    text = f'"{address}" must be on bus {own}, as all functions behind {section.path}'
                    self.document.add(item.line_of(kind), item.at(kind), text)
            if kind == "bridge":
                result.append(self._bridge(item, address))
            else:
                result.append(self._gpu(item, address))
        return tuple(result)

    def _secondary_bus(self, item: Section, kind: str, address: str, above: str) -> bool:
        """Whether the first function behind a bridge is on a bus that can be there."""
        bus = address[:7]
        if bus[:4] != above[:4] or bus <= above:
            text = (
                f'"{address}" must be in domain {above[:4]} on a bus above {above[5:]}, the bus of its bridge'
            )
            self.document.add(item.line_of(kind), item.at(kind), text)
            return False
        self.document.unique(item.line_of(kind), item.at(kind), "PCI bus", bus)
        return True

    def _only(self, item: Section, kind: str, unwanted: tuple[str, ...]) -> None:
        for name in unwanted:
            if name in item:
                self.document.add(item.line_of(name), item.at(name), f"is not a field of a {kind}")

    def _bridge(self, item: Section, address: str) -> Bridge:
        self._only(item, "bridge", ("gpu", "model", "minor", "uuid", "serial"))
        return Bridge(address, self._functions(item, address[:7]))

    def _gpu(self, item: Section, address: str) -> GpuFunction:
        self._only(item, "GPU", ("devices",))
        if not self.has_driver:
            self.document.add(item.node, "kernelDriver", f"is required, because {item.path} is a GPU")
            self.has_driver = True
        model = item.required("model", self._known_model, "")
        minor = item.required("minor", values.number(0, CONTROL_MINOR - 1), -1)
        if minor >= 0:
            self.document.unique(item.line_of("minor"), item.at("minor"), "minor", str(minor))
        uuid = item.required("uuid", values.text, "")
        if uuid:
            self.document.unique(item.line_of("uuid"), item.at("uuid"), "uuid", uuid)
        return GpuFunction(address, model, minor, uuid, item.optional("serial", values.text, None))

    def _known_model(self, value: str) -> str:
        if value not in self.model_names:
            known = ", ".join(self.model_names) or "none"
            raise ValueError(f"is not in gpuModels; allowed: {known}{did_you_mean(value, self.model_names)}")
        return value


def to_document(machine: Machine) -> dict[str, Any]:
    """The topology document of a machine, as plain data that `load` reads back to an equal machine."""
    driver = machine.kernel_driver
    return _present(
        schemaVersion=int(SCHEMA_VERSION),
        name=machine.name,
        description=machine.description,
        kernelDriver=driver
        and _present(name=driver.name, version=driver.version, cudaDriverVersion=driver.cuda_driver_version),
        numaNodes=[
            _present(
                id=node.id,
                cpus=",".join(map(str, node.cpus)) or None,
                package=node.package,
                memory=node.memory,
                distances=list(node.distances),
            )
            for node in machine.numa_nodes
        ],
        gpuModels={name: _model_document(model) for name, model in machine.gpu_models.items()},
        pciRoots=[
            _present(
                id=root.id,
                numaNode=root.numa_node,
                devices=[_device_document(device) for device in root.devices],
            )
            for root in machine.pci_roots
        ],
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _model_document(model: GpuModel) -> dict[str, Any]:
    return _present(
        product=model.product,
        vendorId=model.vendor_id,
        deviceId=model.device_id,
        memory=model.memory,
        **{"class": model.class_code},
        subsystemVendorId=model.subsystem_vendor_id,
        subsystemDeviceId=model.subsystem_device_id,
        brand=model.brand,
        architecture=model.architecture,
        cudaComputeCapability=model.cuda_compute_capability,
        firmwareVersion=model.firmware_version,
        features=dict(model.features),
    )


def _device_document(device: Bridge | GpuFunction) -> dict[str, Any]:
    if isinstance(device, Bridge):
        return {"bridge": device.bdf, "devices": [_device_document(below) for below in device.devices]}
    return _present(
        gpu=device.bdf, model=device.model, minor=device.minor, uuid=device.uuid, serial=device.serial
    )
