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


def main() -> None:
    """Break the component, then run the command as ever."""
    change = mutants(COMPONENT_MUTANTS)[sys.argv[1]].change_cluster
    if change is None:
        sys.exit(f"{sys.argv[1]} is no mutant of a component")
    change()
    Tier.patience = PATIENCE
    del sys.argv[1]
    script()


main()
