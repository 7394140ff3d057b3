"""Mutants of CDI files and of restarts."""

from __future__ import annotations

import os
from typing import Any

from driver.sdk import recovery
from driver.sdk.cdi import CdiFiles
from driver.sdk.checkpoint import Checkpoint, Contents
from driver.sdk.errors import HardwareError
from driver.sdk.preparer import Preparer
from tests.mutants.registry import mutant


@mutant("unresolvable-id")
def unresolvable_id() -> None:
    """The ids of an answer are not those of the file."""
    real = CdiFiles.device_id
    CdiFiles.device_id = lambda self, uid, device: f"{real(self, uid, device)}-x"  # type: ignore[method-assign]


@mutant("old-cdi-version")
def old_cdi_version() -> None:
    """The files claim a CDI version that does not know what they use."""
    real = CdiFiles.spec
    CdiFiles.spec = lambda self, uid, devices: {**real(self, uid, devices), "cdiVersion": "0.3.0"}  # type: ignore[method-assign]


@mutant("empty-cdi-edits")
def empty_cdi_edits() -> None:
    """A device of the file has no edits."""
    real = CdiFiles.spec

    def spec(self: CdiFiles, uid: str, devices: Any) -> Any:
        found = real(self, uid, devices)
        return {**found, "devices": [{**device, "containerEdits": {}} for device in found["devices"]]}

    CdiFiles.spec = spec  # type: ignore[method-assign]


@mutant("constant-ids")
def constant_ids() -> None:
    """The CDI id of a device is the same for every claim, its content is not."""
    CdiFiles.device_name = lambda self, uid, device: device.name  # type: ignore[method-assign]
    real = CdiFiles.spec

    def spec(self: CdiFiles, uid: str, devices: Any) -> Any:
        marked = [
            (device, {**edits, "env": [*edits.get("env", []), f"CLAIM={uid}"]}) for device, edits in devices
        ]
        return real(self, uid, marked)

    CdiFiles.spec = spec  # type: ignore[method-assign]


@mutant("leaves-cdi-files")
def leaves_cdi_files() -> None:
    """Unprepare does not remove the claim's file."""
    CdiFiles.remove = lambda self, uid: None  # type: ignore[method-assign]


def _forget() -> None:
    def load(cls: Any, path: Any) -> Any:
        path.unlink(missing_ok=True)
        return Checkpoint(path, Contents())

    Checkpoint.load = classmethod(load)  # type: ignore[method-assign, assignment]


@mutant("forgets-and-leaves-files")
def forgets_and_leaves_files() -> None:
    """What was prepared is kept in memory only, and of unknown claims nothing is removed."""
    _forget()
    CdiFiles.clean = lambda self, known: None  # type: ignore[method-assign]
    real = Preparer.unprepare
    Preparer.unprepare = lambda self, ref: (  # type: ignore[method-assign]
        real(self, ref) if self._checkpoint.get(ref.uid) is not None else None
    )


@mutant("forgets")
def forgets() -> None:
    """What was prepared is kept in memory only."""
    _forget()


@mutant("new-ids-after-restart")
def new_ids_after_restart() -> None:
    """The CDI ids depend on the process."""
    real = CdiFiles.device_name
    CdiFiles.device_name = lambda self, uid, device: f"{real(self, uid, device)}-{os.getpid()}"  # type: ignore[method-assign]


@mutant("trusts-its-memory")
def trusts_its_memory() -> None:
    """A claim it remembers is answered without a look at the CDI directory."""
    Preparer.restore = lambda self, entry: None  # type: ignore[method-assign]
    Preparer._again = lambda self, entry, wanted: self._answer(entry)  # type: ignore[method-assign]


@mutant("restores-on-demand")
def restores_on_demand() -> None:
    """Lost CDI files are written again by the next Prepare only."""
    Preparer.restore = lambda self, entry: None  # type: ignore[method-assign]


def _load_or_die(fatal: Any) -> None:
    real = Checkpoint.load

    def load(cls: Any, path: Any) -> Any:
        if path.exists() and fatal(path.read_bytes()):
            raise OSError(5, "cannot decode state")
        return real(path)

    Checkpoint.load = classmethod(load)  # type: ignore[method-assign, assignment]


@mutant("dies-on-damage")
def dies_on_damage() -> None:
    """A damaged checkpoint is the end."""
    from driver.sdk.checkpoint import parse

    _load_or_die(lambda data: bool(parse(data).damage))


@mutant("damage-is-secret")
def damage_is_secret() -> None:
    """A damaged checkpoint is thrown away without a word."""
    from driver.sdk import checkpoint, readiness

    checkpoint.log.error = readiness.log.error = recovery.log.error = lambda *words, **more: None
    checkpoint.log.warning = lambda *words, **more: None


@mutant("dies-on-empty-state")
def dies_on_empty_state() -> None:
    """An empty checkpoint is the end."""
    _load_or_die(lambda data: not data)


@mutant("dies-on-missing-device")
def dies_on_missing_device() -> None:
    """A remembered device that is not there any more is the end."""

    def restore(self: Preparer, entry: Any) -> None:
        try:
            self._cdi.ensure(entry.ref.uid, self._spec(entry))
        except HardwareError as problem:
            raise OSError(19, str(problem)) from problem

    Preparer.restore = restore  # type: ignore[method-assign]
