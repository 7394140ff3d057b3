"""Every case of upstream's own table of allocations has upstream's answer, whichever allocator it is for."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any

import pytest
from differential import comparable
from upstream_tables import IMPLEMENTATIONS, allocations

from allocator.lines import allocation_answer

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

CASES = 275
"""Cases of the table of v0.37.2, with those about the order of pools and slices."""
_CANCELLED = "filter operation aborted"
_CLASS = "could not retrieve device class"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return allocations(tmp_path_factory.mktemp("tables"))


def test_the_whole_table_is_looked_at(table: list[dict[str, Any]]) -> None:
    counts = Counter(entry["implementation"] for entry in table if not entry["cancelled"])
    assert counts["experimental"] >= CASES
    assert counts["experimental"] > counts["incubating"] > counts["stable"] > 100


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_answers_are_upstreams(table: list[dict[str, Any]], implementation: str) -> None:
    different = []
    for entry in table:
        if entry["implementation"] != implementation:
            continue
        stop = partial(bool, entry["cancelled"])
        ours = allocation_answer(entry["line"], implementation=entry["implementation"], cancelled=stop)
        view = unordered if implementation == "stable" else shown
        if view(ours) != view(entry["answer"]):
            different.append(json.dumps({**entry, "drakit": ours}))
    assert not different, f"{len(different)} different:\n" + "\n".join(different[:5])


def shown(answer: dict[str, Any]) -> Any:
    """An answer without what only upstream's test makes: how a call was cancelled, and what its lister says."""
    error = answer.get("error", "")
    for beginning in (_CANCELLED, _CLASS):
        if beginning in error:
            return {**answer, "error": error.partition(beginning)[0] + beginning}
    return comparable(answer)


def unordered(answer: Any) -> Any:
    """An answer without its order: the stable allocator visits pools in a random one."""
    return _sorted(shown(answer))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(entry) for entry in value), key=json.dumps)
    return value
