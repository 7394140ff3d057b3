"""Answers of drakit to lines of `drakit cel --jsonl`, and to those with `"derived": true`, which are for the expression
of a derived attribute: `attribute` stands in the place of `match`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dra_api.cel import CelRuntimeError, CompileError, compile_derived_attribute
from drakit.offline.expressions import Evaluator, device_input, enabled


class Expressions:
    """Answers lines; programs of selectors are kept for the next ones."""

    def __init__(self) -> None:
        self._selectors = Evaluator()

    def answer(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one line. Raises LineError."""
        given = {key: value for key, value in line.items() if key != "derived"}
        return _derived(given) if line.get("derived") else self._selectors.answer(given)


def _derived(line: Mapping[str, Any]) -> dict[str, Any]:
    device = device_input(line)
    try:
        program = compile_derived_attribute(
            line["expression"],
            features=enabled(line.get("featureGates") or {}),
            environment=line.get("environment", "stored"),
        )
    except CompileError as error:
        return {"compileError": str(error)}
    estimate = {"estimatedCost": program.estimated_cost}
    try:
        found = program.evaluate(device)
    except CelRuntimeError as error:
        cost = {} if error.cost is None else {"actualCost": error.cost}
        return {"matchError": str(error), **estimate, **cost}
    return {"attribute": found.attribute, **estimate, "actualCost": found.cost}
