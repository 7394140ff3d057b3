"""The parts of a driver put together on a fake machine, and claims for them. Nothing of the driver is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driver.profiles.gpu import GpuProfile
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.inventory import Inventory
from driver.sdk.preparer import AnsweredDevice, Preparer
from driver.sdk.records import ClaimRef
from driver.sdk.recovery import recover
from fake_hw import journal, machines, tree
from fake_hw.backend import Backend

DRIVER = "gpu.example.com"
NODE = "node-1"
# The GPUs of the machine dual-numa-4 by name: names are given in the order of PCI addresses.
BDF = {"gpu-0": "0000:19:00.0", "gpu-1": "0000:1a:00.0", "gpu-2": "0000:9a:00.0", "gpu-3": "0000:9b:00.0"}


def uid(number: int) -> str:
    """A claim UID that begins with a digit."""
    return f"{number:08x}-0000-4000-8000-000000000000"


def result(device: str, request: str = "gpu", **more: Any) -> dict[str, Any]:
    """One result of an allocation."""
    return {"driver": DRIVER, "pool": NODE, "device": device, "request": request, **more}


def config(
    parameters: Any, *requests: str, source: str = "FromClaim", driver: str = DRIVER
) -> dict[str, Any]:
    """One config entry of an allocation."""
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": driver, "parameters": parameters},
    }


def gpu_config(**fields: Any) -> dict[str, Any]:
    """Parameters of the GPU profile."""
    return {"apiVersion": "gpu.drakit.dev/v1alpha1", "kind": "GpuConfig", **fields}


def claim(
    number: int, *results: dict[str, Any], configs: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """An allocated claim named c<number>."""
    devices: dict[str, Any] = {"results": list(results)}
    if configs:
        devices["config"] = configs
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": f"c{number}", "uid": uid(number)},
        "status": {"allocation": {"devices": devices}},
    }


def ref(number: int) -> ClaimRef:
    """The claim of that number as the kubelet names it."""
    return ClaimRef("ns", f"c{number}", uid(number))


class ClaimTable:
    """Claims by name; stands for the API server."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}

    def add(self, item: dict[str, Any]) -> None:
        self.claims[item["metadata"]["name"]] = item

    def claim(self, namespace: str, name: str) -> dict[str, Any] | None:
        assert namespace == "ns"
        return self.claims.get(name)


class Rig:
    """A driver's state on a machine; `restart` does what a new process does at start."""

    def __init__(self, base: Path, *, machine: str = "dual-numa-4", create: bool = True) -> None:
        self.base = base
        self.root = base / "hw"
        self.claims = ClaimTable()
        if create:
            (base / "plugin").mkdir(parents=True)
            tree.create(machines.get(machine), self.root, mknod=False)
        self.checkpoint_file = base / "plugin" / "checkpoint.json"

    def restart(self) -> Rig:
        self.profile = GpuProfile(self.root)
        self.checkpoint = Checkpoint.load(self.checkpoint_file)
        self.inventory = Inventory(self.profile, self.checkpoint)
        self.cdi = CdiFiles(self.base / "cdi", DRIVER, "gpu")
        self.preparer = Preparer(
            driver=DRIVER, pool=NODE, profile=self.profile, inventory=self.inventory,
            checkpoint=self.checkpoint, cdi=self.cdi, claims=self.claims,
        )  # fmt: skip
        recover(
            checkpoint=self.checkpoint, profile=self.profile, inventory=self.inventory,
            preparer=self.preparer, cdi=self.cdi,
        )  # fmt: skip
        return self

    def prepare(self, number: int, *results: dict[str, Any], **more: Any) -> list[AnsweredDevice]:
        """Put a claim into the table and prepare it."""
        if results:
            self.claims.add(claim(number, *results, **more))
        return self.preparer.prepare(ref(number))

    def unprepare(self, number: int) -> None:
        self.preparer.unprepare(ref(number))

    def configured(self) -> dict[str, set[str]]:
        """Device name -> UIDs that the hardware is configured for."""
        names = {bdf: name for name, bdf in BDF.items()}
        return {names[bdf]: set(uses) for bdf, uses in Backend(self.root).configured().items()}

    def events(self, kind: str) -> list[journal.Event]:
        return [event for event in journal.read(self.root) if event.kind == kind]

    def overlaps(self) -> list[journal.Overlap]:
        return journal.overlaps(journal.read(self.root))

    def cdi_files(self) -> dict[str, dict[str, Any]]:
        """Everything in the CDI directory, hidden and temporary files too."""
        files = sorted((self.base / "cdi").iterdir()) if (self.base / "cdi").is_dir() else []
        return {path.name: json.loads(path.read_text()) if path.suffix == ".json" else {} for path in files}

    def cdi_file(self, number: int) -> Path:
        return self.base / "cdi" / f"gpu.example.com-gpu_{uid(number)}.json"
