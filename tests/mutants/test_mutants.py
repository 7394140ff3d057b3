from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import catalogue
from tests.mutants.registry import ROOT, Mutant, mutants

MUTANTS = mutants()


def test_every_requirement_names_mutants_that_exist_and_every_mutant_is_named() -> None:
    named = {name for requirement in catalogue.requirements().values() for name in requirement.mutants}
    assert named == set(MUTANTS)
    assert all(requirement.mutants for requirement in catalogue.requirements().values())


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_is_caught_by_the_requirement_it_breaks(mutant: Mutant, tmp_path: Path) -> None:
    focus = [word for requirement in mutant.breaks for word in ("--focus", requirement)]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "drakit",
            "conformance",
            str(mutant.write_descriptor(tmp_path)),
            "--json",
            *focus,
        ],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
    )
    assert run.stdout, run.stderr
    # A change that does not fit the driver any more breaks it in a way that any requirement notices.
    assert not re.search(r"\b(Attribute|Type|Name|Import)Error\b", run.stdout), run.stdout
    report = json.loads(run.stdout)
    verdicts = {result["id"]: result for result in report["results"] if result["id"] in mutant.breaks}
    assert {name: result["verdict"] for name, result in verdicts.items()} == dict.fromkeys(
        mutant.breaks, "fail"
    ), verdicts
