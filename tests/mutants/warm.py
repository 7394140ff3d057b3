"""Runs of the command in processes forked from one that has loaded all of it: loading costs more than most runs do."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drakit import quiet  # isort: skip - before anything that loads gRPC
from clusters.embedded import cluster as embedded
from conformance import catalogue
from drakit import conformance, judge
from drakit.main import script
from drakit.tiers import Tier
from tests.mutants.cluster import break_component
from tests.mutants.registry import COMPONENT_MUTANTS, mutants

SECONDS: Final = 500.0
"""How long a run may take."""

LOADED: Final = (quiet, embedded, conformance, judge)
"""What a run would load by itself, as it does with the records and tests of the catalogue."""
catalogue.requirements()
catalogue.tests()
mutants(COMPONENT_MUTANTS)


def drakit_run(arguments: Sequence[str], component: str, folder: Path) -> tuple[str, str]:
    """What `drakit ARGUMENTS` prints on both streams; a named mutant breaks a component of the cluster first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    out, err = folder / "stdout", folder / "stderr"
    process = context.Process(target=_child, args=(arguments, component, out, err))
    process.start()
    process.join(SECONDS)
    in_time = process.exitcode is not None
    process.kill()
    process.join()
    said = err.read_text() if err.exists() else ""
    assert in_time, f"not within {SECONDS:g} s: {said}"
    return out.read_text(), said


def _child(arguments: Sequence[str], component: str, out: Path, err: Path) -> None:
    """Be the command."""
    for number, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    sys.argv[:] = ["drakit", *arguments]
    # A run is about a requirement or two: nodes for more tests at the same time would only cost time.
    Tier.lent_nodes = 1
    if component:
        break_component(component)
    script()
