"""Runs the command on an embedded cluster with one broken component: `cluster.py NAME conformance ARGUMENTS`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2])]

import drakit.quiet  # noqa: E402, F401 - before anything that loads gRPC
from drakit.main import script  # noqa: E402
from drakit.tiers import Tier  # noqa: E402
from tests.mutants.registry import COMPONENT_MUTANTS, mutants  # noqa: E402

PATIENCE = 0.25
"""What a broken component never does is not waited for as long as what a slow one does."""


def break_component(name: str) -> None:
    """Break a component of the embedded cluster in this process."""
    change = mutants(COMPONENT_MUTANTS)[name].change_cluster
    if change is None:
        sys.exit(f"{name} is no mutant of a component")
    change()
    Tier.patience = PATIENCE


if __name__ == "__main__":
    break_component(sys.argv.pop(1))
    script()
