"""Runs one mutant: `run.py NAME DRIVER-ARGUMENTS`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

from driver import main as driver  # noqa: E402
from tests.mutants.registry import DRIVER_MUTANTS, mutants  # noqa: E402


def main() -> int:
    """Break the driver, then run it as ever."""
    mutant = mutants(DRIVER_MUTANTS)[sys.argv[1]]
    if mutant.apply is not None:
        mutant.apply()
    return driver.main(sys.argv[2:])


sys.exit(main())
