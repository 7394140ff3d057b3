"""The embedded API server judges valid and invalid objects as a real kube-apiserver does.

DRAKIT_VALIDATION_OBJECTS is the number of objects for each set of gates, DRAKIT_DIFFERENTIAL_SEED the seed of the
random part. Every rule of validation_rules.yaml is kept and broken in each way that the file has.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import chain

import pytest
from api_run import find_binaries, pair
from api_servers import ALPHA_GATES
from validation_cases import draw, systematic
from validation_rules import load
from validation_run import Result, cases, run

pytestmark = [pytest.mark.go, pytest.mark.timeout(3600)]

COUNT = int(os.environ.get("DRAKIT_VALIDATION_OBJECTS", "1000"))
FIXED_SEED = 20261141
FRESH = 100
"""Random cases of today, for each set of gates."""


@pytest.fixture(scope="module")
def results() -> Iterator[list[Result]]:
    """Both sets of gates, each with the fixed seed and with one of today."""
    found, made = find_binaries(), []
    seed = int(os.environ.get("DRAKIT_DIFFERENTIAL_SEED") or random.SystemRandom().randrange(2**31))
    for gates in ({}, ALPHA_GATES):
        with pair(found, gates) as servers:
            fresh = (draw(seed, number) for number in range(max(FRESH, COUNT // 10)))
            result = run(servers, chain(cases(FIXED_SEED, COUNT), fresh), alpha=bool(gates))
        made.append(result)
        print(f"seeds {FIXED_SEED} and {seed}, {len(gates)} gates on\n{result.table()}")  # noqa: T201
    yield made


def test_both_servers_judge_alike(results: list[Result]) -> None:
    findings = [finding for result in results for finding in result.findings]
    assert not findings, "\n\n".join(map(str, findings))


def test_differences_come_again(results: list[Result]) -> None:
    once = [finding for result in results for finding in result.unsteady]
    assert len(once) <= 1 + COUNT // 1000, "\n\n".join(map(str, once))


def test_a_real_server_judges_each_rule_as_the_file_says(results: list[Result]) -> None:
    assert [line for result in results for line in result.wrong] == []


def test_each_rule_is_kept_and_broken(results: list[Result]) -> None:
    for rule in load().all:
        assert rule.good, rule.id
        assert rule.bad or rule.id in {"claim.capacity", "claim.admin"}, rule.id
        assert all(result.hits[rule.id, True] for result in results), rule.id


def test_cases_are_the_same_for_the_same_seed() -> None:
    first = [case.operations("c", 0) for case in systematic()]
    assert first == [case.operations("c", 0) for case in systematic()]
    assert draw(7, 3).operations("c", 0) == draw(7, 3).operations("c", 0) != draw(8, 3).operations("c", 0)
