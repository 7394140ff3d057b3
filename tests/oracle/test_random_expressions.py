"""Random CEL expressions: the same results, error texts and costs as upstream's compiler."""

from __future__ import annotations

import pytest
from differential import Findings, expressions

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

FIXED_SEED = 37
CASES = 1000


@pytest.fixture(scope="module")
def fixed() -> Findings:
    return expressions(FIXED_SEED, CASES)


def test_fixed_expressions_have_upstreams_answers(fixed: Findings) -> None:
    assert fixed.different == 0, fixed.text()


def test_fresh_expressions_have_upstreams_answers(fresh_seed: int) -> None:
    findings = expressions(fresh_seed, CASES)
    assert findings.different == 0, findings.text()


def test_expressions_are_of_every_kind(fixed: Findings) -> None:
    assert fixed.percent("match") >= 25, fixed.summary()
    assert fixed.percent("attribute") >= 5, fixed.summary()
    assert fixed.percent("matchError") >= 10, fixed.summary()
    assert fixed.percent("compileError") >= 10, fixed.summary()
