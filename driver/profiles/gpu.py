"""The GPU profile: fake GPUs published as the NVIDIA driver publishes real ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dra_api.quantity import BINARY_SI, Quantity
from driver.profiles import gpu_config
from driver.profiles.strings import string_attribute, version_attribute
from driver.sdk import log
from driver.sdk.errors import ConfigError, HardwareError
from driver.sdk.profile import HardwareDevice
from fake_hw.backend import Backend
from fake_hw.errors import HardwareError as FakeHardwareError
from fake_hw.reader import Gpu, Host


def attributes(gpu: Gpu) -> dict[str, Any]:
    """The attributes of a GPU; what the hardware does not tell, or tells badly, is left out."""
    found: dict[str, Any] = {
        "architecture": string_attribute(gpu.architecture),
        "brand": string_attribute(gpu.brand),
        "cudaComputeCapability": version_attribute(gpu.cuda_compute_capability),
        "cudaDriverVersion": version_attribute(gpu.cuda_driver_version),
        "driverVersion": version_attribute(gpu.driver_version),
        "pcieBusID": string_attribute(gpu.bdf),
        "productName": string_attribute(gpu.product),
        "resource.kubernetes.io/numaNode": None if gpu.numa_node is None else {"int": gpu.numa_node},
        "resource.kubernetes.io/pciBusID": string_attribute(gpu.bdf),
        "resource.kubernetes.io/pcieRoot": string_attribute(gpu.pcie_root),
        "type": {"string": "gpu"},
        "uuid": string_attribute(gpu.uuid),
    }
    return {name: value for name, value in found.items() if value is not None}


def capacity(gpu: Gpu) -> dict[str, Any]:
    """The capacity of a GPU: its memory in bytes."""
    return {} if gpu.memory is None else {"memory": {"value": str(Quantity(gpu.memory, 0, BINARY_SI))}}


@contextlib.contextmanager
def _hardware_errors() -> Iterator[None]:
    try:
        yield
    except (FakeHardwareError, OSError) as problem:
        raise HardwareError(str(problem)) from problem


class GpuProfile:
    """GPUs of a tree made by `fake_hw` (see driver.sdk.profile.Profile)."""

    kind = "gpu"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._host = Host(root)
        self._backend = Backend(root)
        self._problems: tuple[str, ...] = ()
        self._seen = False

    @property
    def source(self) -> str:
        """The root of the tree."""
        return str(self._root)

    def scan(self) -> Sequence[HardwareDevice]:
        """All GPUs by PCI address. What was odd about them is logged when it changes.

        A tree that disappears as a whole is an error, not a machine without GPUs: it is being replaced.
        """
        found = self._host.scan()
        if self._seen and not found.gpus and not self._host.sys.is_dir():
            raise HardwareError(f"{self._host.sys} has disappeared")
        self._seen = self._seen or bool(found.gpus)
        if found.problems != self._problems:
            self._problems = found.problems
            for problem in found.problems:
                log.warning("hardware is odd", problem=problem)
        return [
            HardwareDevice(gpu.bdf, gpu.product or "", attributes(gpu), capacity(gpu)) for gpu in found.gpus
        ]

    def parse_config(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """A GpuConfig, checked."""
        return gpu_config.parse(parameters)

    def check(self, address: str, name: str, settings: Mapping[str, Any]) -> None:
        """Whether the GPU supports the sharing strategy."""
        gpu = self._gpu(address, name)
        feature = gpu_config.FEATURES.get(settings["strategy"])
        if feature and not gpu.features.get(feature):
            model = f" ({gpu.product})" if gpu.product else ""
            raise ConfigError(
                f"sharing.strategy: {settings['strategy']} needs the feature {feature}, which {name}{model} "
                "does not support"
            )

    def configure(self, address: str, uid: str, settings: Mapping[str, Any] | None, *, shared: bool) -> None:
        """Begin the use of a GPU; settings other than the environment change it."""
        wanted: dict[str, Any] = {}
        if settings and settings["strategy"] == "TimeSlicing":
            wanted["timeSlice"] = settings["interval"]
        elif settings and settings["strategy"] == "MPS":
            wanted["mps"] = True
        with _hardware_errors():
            self._backend.configure(address, uid, wanted, shared=shared)

    def reset(self, address: str, uid: str) -> None:
        """End the use of a GPU."""
        with _hardware_errors():
            self._backend.reset(address, uid)

    def users(self) -> Mapping[str, Sequence[str]]:
        """What is configured now."""
        with _hardware_errors():
            return {address: tuple(uses) for address, uses in self._backend.configured().items()}

    def edits(self, address: str, name: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
        """Device node; environment: GPU_<n>_UUID, _PCI_BUS_ID, _PRODUCT_NAME, the sharing, what the claim asks for."""
        gpu = self._gpu(address, name)
        if gpu.dev_name is None or gpu.dev_path is None or gpu.major is None or gpu.minor is None:
            raise HardwareError(f"{name} ({address}) in {self._root}: its device node is unknown")
        prefix = name.upper().replace("-", "_")
        env = [f"{prefix}_UUID={gpu.uuid or ''}", f"{prefix}_PCI_BUS_ID={gpu.bdf}"]
        if gpu.product:
            env.append(f"{prefix}_PRODUCT_NAME={gpu.product}")
        if settings:
            env.append(f"{prefix}_SHARING_STRATEGY={settings['strategy']}")
            if "interval" in settings:
                env.append(f"{prefix}_SHARING_INTERVAL={settings['interval']}")
            env += [f"{key}={value}" for key, value in settings["env"].items()]
        node = {
            "path": f"/dev/{gpu.dev_name}",
            "hostPath": str(gpu.dev_path.absolute()),
            "type": "c",
            "major": gpu.major,
            "minor": gpu.minor,
            "permissions": "rw",
        }
        if node["hostPath"] == node["path"]:
            del node["hostPath"]
        return {"env": env, "deviceNodes": [node]}

    def _gpu(self, address: str, name: str) -> Gpu:
        gpu = self._host.gpu(address)
        if gpu is None:
            raise HardwareError(f"{name} ({address}) is not in {self._root}")
        return gpu
