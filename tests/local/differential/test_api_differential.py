"""The embedded API server answers thousands of random requests as a real kube-apiserver does.

DRAKIT_DIFFERENTIAL_OPERATIONS is the number of operations for each set of gates, DRAKIT_DIFFERENTIAL_SEED the seed of
the random part. A failure prints the sequence that api_run.py plays again with --replay.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from api_allowed import ALLOWED, MOST
from api_compare import Comparison
from api_run import Result, find_binaries, pair, run
from api_sequences import OPERATIONS, draw, text
from api_servers import ALPHA_GATES

pytestmark = [pytest.mark.go, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("DRAKIT_DIFFERENTIAL_OPERATIONS", "2500"))
FIXED_SEED = 20261140
FIXED_SHARE = 0.7
OUTCOMES = 80
"""Distinct triples of operation, code and reason that a run must show."""


class Runs:
    """The results of all runs of a test session."""

    def __init__(self) -> None:
        self.comparison = Comparison()
        self.results: list[Result] = []

    @property
    def counts(self) -> Counter[tuple[str, int, str]]:
        """Operations by kind and outcome."""
        return sum((result.counts for result in self.results), Counter())


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """Both sets of gates, each with the fixed seed and with one of today."""
    found, made = find_binaries(), Runs()
    seed = int(os.environ.get("DRAKIT_DIFFERENTIAL_SEED") or random.SystemRandom().randrange(2**31))
    for gates in ({}, ALPHA_GATES):
        with pair(found, gates) as servers:
            for chosen, share in ((FIXED_SEED, FIXED_SHARE), (seed, 1 - FIXED_SHARE)):
                result = run(servers, chosen, int(COUNT * share), comparison=made.comparison)
                made.results.append(result)
                print(f"seed {chosen}, {'alpha' if gates else 'default'} gates\n{result.table()}")  # noqa: T201
    yield made


def test_both_servers_answer_alike(runs: Runs) -> None:
    failures = [failure for result in runs.results for failure in result.failures]
    assert not failures, "\n\n".join(f"{failure}\n{text(failure.operations)}" for failure in failures)


def test_all_that_is_to_be_compared_occurs(runs: Runs) -> None:
    assert {name for name, _, _ in runs.counts} == set(OPERATIONS)
    assert len(runs.counts) >= OUTCOMES
    assert sum(result.events for result in runs.results) > COUNT / 20


def test_differences_come_again(runs: Runs) -> None:
    once = [failure for result in runs.results for failure in result.unsteady]
    assert len(once) <= 1 + COUNT // 500, "\n\n".join(map(str, once))


def test_no_difference_is_allowed_in_vain(runs: Runs) -> None:
    assert len(ALLOWED) <= MOST
    assert [name for name, times in runs.comparison.used.items() if not times] == []


def test_a_sequence_is_the_same_for_the_same_seed() -> None:
    assert draw(7, 3) == draw(7, 3) != draw(8, 3)
