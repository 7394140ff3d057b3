"""Random cases: drakit allocates as upstream's allocators do, errors and their texts included."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from allocation_cases import FEATURES
from differential import Findings, allocations, verdicts
from oracle_program import covered_percent

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

FIXED_SEED = 37
CASES = 3000


@pytest.fixture(scope="module")
def covered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("coverage")


@pytest.fixture(scope="module")
def fixed(covered: Path) -> Findings:
    return allocations(FIXED_SEED, CASES, coverage=covered)


def test_fixed_cases_have_upstreams_answers(fixed: Findings) -> None:
    assert fixed.different == 0, fixed.text()


def test_fresh_cases_have_upstreams_answers(fresh_seed: int) -> None:
    findings = allocations(fresh_seed, CASES)
    assert findings.different == 0, findings.text()


def test_cases_are_of_every_kind(fixed: Findings) -> None:
    assert fixed.percent("allocated") >= 30, fixed.summary()
    assert fixed.percent("impossible") >= 20, fixed.summary()
    assert fixed.percent("error") >= 5, fixed.summary()
    assert fixed.kinds["node"] > 0, fixed.summary()
    assert fixed.percent("too slow upstream") < 2, fixed.summary()


def test_every_pair_of_features_meets(fixed: Findings) -> None:
    missing = [pair for pair in combinations(sorted(FEATURES), 2) if not fixed.pairs[pair]]
    assert missing == []


def test_nearly_all_of_upstreams_allocator_is_executed(fixed: Findings, covered: Path) -> None:
    assert covered_percent(covered) >= 90


@pytest.mark.parametrize("implementation", ["incubating", "scheduler"])
def test_other_implementations_are_followed_too(fresh_seed: int, implementation: str) -> None:
    findings = allocations(fresh_seed, CASES // 3, implementation=implementation)
    assert findings.different == 0, findings.text()


def test_the_stable_allocator_comes_to_the_same_verdict(fresh_seed: int) -> None:
    # It visits pools in random order, so which devices it takes, and which problem it meets first, is not known.
    findings = verdicts(fresh_seed, CASES // 3)
    assert findings.different == 0, findings.text()
