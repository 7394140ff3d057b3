"""Every expression that upstream's tests compile or evaluate has upstream's answer from drakit, costs included."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from expression_answers import Expressions
from upstream_tables import expressions

from dra_api.cel import CelRuntimeError, compile_selector
from drakit.offline.expressions import device_input, enabled

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

Entry = dict[str, Any]
_MATCHES = 340
_DERIVED = 23
_REFUSED = 6
_INTERRUPTED = "operation interrupted"
"""What v0.37.2 evaluates and refuses at least, and how the message of a cancelled evaluation begins."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    return expressions(tmp_path_factory.mktemp("tables"))


def test_all_of_upstreams_cases_are_looked_at(table: list[Entry]) -> None:
    evaluated = Counter(entry["line"]["derived"] for entry in table if entry["evaluated"])
    refused = {entry["line"]["expression"] for entry in table if "compileError" in entry["answer"]}
    assert evaluated[False] >= _MATCHES
    assert evaluated[True] >= _DERIVED
    assert len(refused) >= _REFUSED


def test_answers_are_upstreams(table: list[Entry]) -> None:
    evaluator = Expressions()
    different = []
    for entry in table:
        if entry["cancelled"]:
            continue
        ours = evaluator.answer(entry["line"])
        if not entry["evaluated"]:
            # Caches compile without an estimate.
            ours = {key: ours.get(key) for key in entry["answer"]} or {"compiled": "compileError" not in ours}
        if ours != (entry["answer"] or {"compiled": True}):
            different.append(json.dumps({**entry, "drakit": ours}))
    assert not different, f"{len(different)} different:\n" + "\n".join(different[:5])


def test_cancelled_evaluations_end_as_upstreams(table: list[Entry]) -> None:
    cancelled = [entry for entry in table if entry["cancelled"]]
    assert cancelled
    for entry in cancelled:
        line, answer = entry["line"], entry["answer"]
        assert answer["matchError"].startswith(_INTERRUPTED)
        program = compile_selector(
            line["expression"], features=enabled(line["featureGates"]), environment=line["environment"]
        )
        with pytest.raises(CelRuntimeError, match=f"^{_INTERRUPTED}"):
            program.matches(device_input(line), lambda: True)
        with pytest.raises(CelRuntimeError) as caught:
            program.evaluate(device_input(line), lambda: True)
        assert (program.estimated_cost, caught.value.cost) == (answer["estimatedCost"], answer["actualCost"])
