"""CDI files: one for each claim, named after it, so that an id never stands for different contents."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from driver.sdk import log
from driver.sdk.errors import HardwareError
from driver.sdk.files import remove, remove_temporaries, write_atomic
from driver.sdk.records import PreparedDevice
from node_api.cdi import SpecError, validate
from node_api.cdi.write import LOWEST_WRITTEN_VERSION, written_version


class CdiFiles:
    """The files of one driver in the dynamic CDI directory."""

    def __init__(self, directory: Path, driver: str, kind: str) -> None:
        """`kind` is the class of the ids, such as gpu; the vendor is the driver's name."""
        self.directory = directory
        # A vendor begins with a letter, a driver name may begin with a digit.
        self.vendor = driver if driver[:1].isalpha() else f"d{driver}"
        self.kind = kind
        self._prefix = f"{self.vendor}-{kind}_"

    def path(self, uid: str) -> Path:
        """The file of a claim."""
        return self.directory / f"{self._prefix}{uid}.json"

    def device_name(self, uid: str, device: PreparedDevice) -> str:
        """The CDI name of a claim's device; two shares of one device differ."""
        return f"{uid}-{device.name}" + (f"-{device.share_id}" if device.share_id else "")

    def device_id(self, uid: str, device: PreparedDevice) -> str:
        """The fully qualified id, VENDOR/CLASS=NAME."""
        return f"{self.vendor}/{self.kind}={self.device_name(uid, device)}"

    def spec(self, uid: str, devices: Sequence[tuple[PreparedDevice, dict[str, Any]]]) -> dict[str, Any]:
        """The spec of a claim from its devices and their containerEdits, in the oldest version that allows it.

        Raises:
            HardwareError: if a runtime would refuse it, with what is wrong.
        """
        spec: dict[str, Any] = {
            "cdiVersion": LOWEST_WRITTEN_VERSION,
            "kind": f"{self.vendor}/{self.kind}",
            "devices": [
                {"name": self.device_name(uid, device), "containerEdits": edits} for device, edits in devices
            ],
        }
        try:
            spec["cdiVersion"] = written_version(spec)
        except SpecError as problem:
            raise HardwareError(f"CDI spec: {problem}") from problem
        errors = [finding for finding in validate(spec) if finding.severity == "error"]
        if errors:
            raise HardwareError("; ".join(f"CDI spec: {finding.where}: {finding.text}" for finding in errors))
        return spec

    def ensure(self, uid: str, spec: dict[str, Any]) -> bool:
        """Write the file of a claim unless it has this content; return whether it was written.

        Raises:
            OSError: if it cannot be written.
        """
        path = self.path(uid)
        data = json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
                return False
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(path, data, mode=0o644, point="cdi")
        return True

    def remove(self, uid: str) -> None:
        """Remove the file of a claim; absent is fine. OSError if it cannot be removed."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.path(uid).lstat()
            remove(self.path(uid), point="cdi")

    def clean(self, known: Collection[str]) -> None:
        """Remove what interrupted writes left and the files of claims that are not in `known`.

        Raises:
            OSError: if the directory cannot be read or changed.
        """
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name in remove_temporaries(self.directory, self._prefix, point="cdi"):
            log.info("temporary CDI file removed", file=name)
        keep = {self.path(uid).name for uid in known}
        for path in sorted(self.directory.glob(f"{self._prefix}*.json")):
            if path.name not in keep:
                remove(path, point="cdi")
                log.info("CDI spec of an unknown claim removed", file=path.name)
