"""Expressions with the answers of Kubernetes 1.37 for one device: refusals, matches, errors, estimates and costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dra_api.cel import CelRuntimeError, CompileError, DeviceInput, compile_selector

_GOLDEN = json.loads((Path(__file__).parent / "data" / "cel.json").read_text())
_DEVICE = DeviceInput(
    _GOLDEN["device"]["driver"], _GOLDEN["device"]["attributes"], _GOLDEN["device"]["capacity"]
)


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    answer = {key: case[key] for key in ("expression", "new") if key in case}
    try:
        if "new" in case:
            program = compile_selector(case["expression"], features=case["new"], environment="new")
        else:
            program = compile_selector(case["expression"])
    except CompileError as error:
        return {**answer, "refused": error.message}
    answer["estimate"] = program.estimated_cost
    try:
        evaluation = program.evaluate(_DEVICE)
    except CelRuntimeError as error:
        return {**answer, "error": str(error)}
    return {**answer, "match": evaluation.match, "cost": evaluation.cost}


@pytest.mark.parametrize("part", range(8))
def test_expressions_are_judged_and_evaluated_as_upstream_does(part: int) -> None:
    cases = _GOLDEN["cases"][part::8]
    assert len(cases) > 50
    wrong = [(case, answer) for case in cases if (answer := _answer(case)) != case]
    assert wrong == []


def test_matching_without_a_meter_gives_the_same_answers() -> None:
    wrong = []
    for case in _GOLDEN["cases"]:
        if "refused" in case:
            continue
        features = case.get("new", ())
        environment = "new" if "new" in case else "stored"
        program = compile_selector(case["expression"], features=features, environment=environment)
        try:
            answer: Any = program.matches(_DEVICE)
        except CelRuntimeError as error:
            answer = str(error)
        if answer != case.get("match", case.get("error")):
            wrong.append((case, answer))
    assert wrong == []
