"""What tests build with Go."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

from conformance import catalogue

TESTS = Path(__file__).parents[1]
GO_DRIVER = TESTS / "godriver"


def go(*arguments: str, folder: Path) -> None:
    """Run the Go tool; a failure shows what it said."""
    done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def build_driver() -> Path:
    """The descriptor of the driver on upstream's helper, which is built where it is looked for."""
    # Tests of other processes may just run what they have built. Go locks files of the folder by itself.
    folder = os.open(GO_DRIVER, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        go("build", "-o", "build/godriver", ".", folder=GO_DRIVER)
    finally:
        os.close(folder)
    return GO_DRIVER / "driver.yaml"


def about_drivers() -> list[str]:
    """The words that choose what a run judges about its driver, and nothing about the cluster itself."""
    chosen = [name for name, found in catalogue.requirements().items() if found.subject == "driver"]
    return [word for name in chosen for word in ("--focus", name)]
