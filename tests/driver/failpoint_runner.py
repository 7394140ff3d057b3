"""Kills a driver's state code at every failpoint, restarts it and prints what it found, one JSON document.

A program of its own because it forks: each case is a child that really dies of SIGKILL, so over 150 cases take
a few seconds instead of the minute that whole processes would need.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver_kit import Rig, claim, result, uid

from driver.sdk import failpoints
from driver.sdk.errors import ClaimError


def prepared_answered(base: Path) -> Path:
    return base / "answered"


def nothing(base: Path) -> None:
    """The node as it is."""


def leave_temporaries(base: Path) -> None:
    """An earlier driver was killed while it wrote."""
    (base / "plugin" / ".checkpoint.json.0badcafe.tmp").write_bytes(b"{")
    (base / "cdi" / f".gpu.example.com-gpu_{uid(1)}.json.0badcafe.tmp").write_bytes(b"{")


def damage(base: Path) -> None:
    """The checkpoint is damaged."""
    (base / "plugin" / "checkpoint.json").write_bytes(b"damaged")


def prepare_and_damage(base: Path) -> None:
    """Claim 1 is prepared and its pod runs; then the checkpoint is damaged."""
    rig_of(base).prepare(1)
    prepared_answered(base).touch()
    damage(base)


SCENARIOS: dict[str, Callable[[Path], None]] = {
    "round": nothing,
    "leftovers": leave_temporaries,
    "corrupt": damage,
    "recovered": prepare_and_damage,
}
"""What is done before the driver that will be killed starts."""


def round_trip(base: Path) -> None:
    """Start, prepare two devices for claim 1, prepare it again without its CDI file, unprepare it."""
    rig = rig_of(base)
    rig.prepare(1)
    prepared_answered(base).touch()
    rig.cdi_file(1).unlink()
    rig.prepare(1)
    (base / "leaving").touch()
    rig.unprepare(1)
    (base / "gone").touch()


def rig_of(base: Path) -> Rig:
    """The driver after a start; claim 2 holds gpu-2 since long."""
    rig = Rig(base, create=False)
    rig.claims.add(claim(1, result("gpu-0"), result("gpu-1")))
    rig.claims.add(claim(2, result("gpu-2")))
    rig.claims.add(claim(3, result("gpu-0"), result("gpu-1")))
    return rig.restart()


def in_child(action: Callable[[], None]) -> int:
    """Run in a forked child; its wait status."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def check(base: Path) -> str:
    """Start again and look: "" when no claim is lost or doubled and nothing is left behind."""
    rig = rig_of(base)
    answered, leaving, gone = (
        prepared_answered(base).exists(),
        (base / "leaving").exists(),
        (base / "gone").exists(),
    )
    entry = rig.checkpoint.get(uid(1))
    names = set(rig.cdi_files())
    if uid(2) not in rig.checkpoint.contents.entries or rig.cdi_file(2).name not in names:
        return "claim 2 is lost"
    if answered and not leaving and entry is None:
        return "claim 1 was answered and is lost"
    if gone and entry is not None:
        return "claim 1 was unprepared and is still there"
    if names - {rig.cdi_file(1).name, rig.cdi_file(2).name}:
        return f"left in the CDI directory: {sorted(names)}"
    if (entry is not None and not entry.recovered) != rig.cdi_file(1).exists() and not (
        entry and entry.recovered
    ):
        return "CDI file and memory of claim 1 disagree"
    held = {name for name, users in rig.configured().items() if uid(1) in users}
    if held != ({"gpu-0", "gpu-1"} if entry is not None and not entry.recovered else held):
        return f"memory {entry} and hardware {held} of claim 1 disagree"
    if entry is None and held:
        return f"hardware of the forgotten claim 1: {held}"
    if answered and not leaving and not refused(rig, 3):
        return "the devices of claim 1 are given away"
    rig.prepare(1)
    if not refused(rig, 3):
        return "the devices of claim 1 are given away after it was prepared again"
    rig.unprepare(1)
    rig.prepare(3)
    if rig.configured() != {"gpu-0": {uid(3)}, "gpu-1": {uid(3)}, "gpu-2": {uid(2)}}:
        return f"hardware at the end: {rig.configured()}"
    if overlaps := rig.overlaps():
        return f"double use: {overlaps}"
    return ""


def refused(rig: Rig, number: int) -> bool:
    """Whether the devices of a claim belong to another."""
    try:
        rig.prepare(number)
    except ClaimError as problem:
        return "already prepared" in str(problem)
    return False


def copy(template: Path, place: Path) -> None:
    """A copy of a node; what never changes of the hardware is only linked to."""
    for name in ("plugin", "cdi", "hw/run"):
        shutil.copytree(template / name, place / name)
    for name in ("sys", "dev"):
        (place / "hw" / name).symlink_to(template / "hw" / name)


def run(base: Path, name: str) -> list[dict[str, Any]]:
    """The cases of a scenario: every failpoint at its first, second, ... time until the round gets through."""
    template = base / "template"
    rig = Rig(template)
    rig.claims.add(claim(2, result("gpu-2")))
    rig.restart().prepare(2)
    cases = []
    for point in failpoints.POINTS:
        killed, number = True, 0
        while killed:
            number += 1
            place = base / f"{point}-{number}"
            copy(template, place)
            SCENARIOS[name](place)

            def crash(point: str = point, number: int = number, place: Path = place) -> None:
                failpoints.arm(f"{point}:{number}")
                round_trip(place)

            killed = in_child(crash) == signal.SIGKILL
            problem = check(place) if killed else ""
            cases.append({"point": point, "number": number, "killed": killed, "problem": problem})
            shutil.rmtree(place)
    return cases


if __name__ == "__main__":
    # What is tested is the end of a process and not of the machine, so memory is as good as a disk.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        sys.stdout.write(json.dumps(run(Path(directory), sys.argv[1])))
