from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusters.gates import LATEST
from conformance import catalogue
from tests.mutants.registry import Mutant, mutants
from tests.mutants.warm import SECONDS, drakit_run

MUTANTS = mutants()


def test_every_requirement_names_mutants_that_exist_and_every_mutant_is_named() -> None:
    named = {name for requirement in catalogue.requirements().values() for name in requirement.mutants}
    assert named == set(MUTANTS)
    assert all(item.mutants or item.known_gaps for item in catalogue.requirements().values())


def judge(mutant: Mutant, folder: Path, requirements: Sequence[str], *options: str) -> dict[str, str]:
    """Run the command on these requirements; their verdicts."""
    focus = [word for requirement in requirements for word in ("--focus", requirement)]
    arguments = ["conformance", str(mutant.descriptor(folder)), "--json", *focus, *options]
    component = mutant.name if mutant.change_cluster else ""
    out, err = drakit_run(arguments, component, folder)
    assert out, err
    # A change that does not fit the code any more breaks it in a way that any requirement notices.
    assert not re.search(r"\b(Attribute|Type|Name|Import)Error\b", out), out
    results = json.loads(out)["results"]
    return {result["id"]: result["verdict"] for result in results if result["id"] in requirements}


@pytest.mark.mutants
@pytest.mark.timeout(SECONDS + 100)
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_is_caught_by_the_requirement_it_breaks(mutant: Mutant, tmp_path: Path) -> None:
    verdicts = judge(mutant, tmp_path, mutant.breaks)
    # A failure that the released version shares is told as its gap.
    gaps = {
        name: [gap for gap in catalogue.requirements()[name].known_gaps if LATEST in gap.versions]
        for name in mutant.breaks
    }
    assert verdicts == {name: "known-gap" if gaps[name] else "fail" for name in mutant.breaks}


@pytest.mark.mutants
@pytest.mark.timeout(SECONDS + 100)
def test_a_driver_that_keeps_a_claim_of_one_test_is_not_given_to_the_next(tmp_path: Path) -> None:
    # Each of these prepares the first device; a driver that still holds it for another test would refuse.
    requirements = ["DRV-PREP-01", "DRV-PREP-03", "DRV-CDI-01"]
    verdicts = judge(MUTANTS["never-lets-go"], tmp_path, requirements, "--parallel", "1")
    assert verdicts == dict.fromkeys(requirements, "pass")
