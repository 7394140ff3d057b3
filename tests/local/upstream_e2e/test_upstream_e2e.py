"""Kubernetes' own end-to-end specs about DRA must pass on our clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e_runner import Outcome, listed
from e2e_specs import LEAST, Spec, chosen, known

from clusters.binaries import E2E, Binaries

# The first test waits for the end of the whole run.
pytestmark = [pytest.mark.go, pytest.mark.timeout(1700)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each spec of the session."""
    if "spec" in metafunc.fixturenames:
        specs = chosen(metafunc.config.getoption("--minutes", 0.0))
        metafunc.parametrize("spec", specs, ids=[spec.name for spec in specs])


def test_all_specs_of_the_focus_are_known(binaries: Binaries, tmp_path: Path) -> None:
    """A spec that is new in a version must not go unnoticed."""
    names = [spec.name for spec in known()]
    assert listed(binaries.path(E2E), tmp_path) == sorted(names)
    assert len(names) >= LEAST


def test_every_chosen_spec_ran(specs: list[Spec], outcomes: dict[str, Outcome]) -> None:
    assert sorted(outcomes) == sorted(spec.name for spec in specs)


def test_spec_passes(spec: Spec, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[spec.name]
    assert outcome.state == "passed", f"{outcome.state} after {outcome.seconds:.0f} s: {outcome.failure}"
