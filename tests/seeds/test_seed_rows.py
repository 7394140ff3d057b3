"""No row of the seeds is forgotten: each has a test, or stands in the list of those that come later."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import yaml

_HERE = Path(__file__).parent
_DIFFERS = {"no", "yes", "partly", "outdated"}


def _rows() -> dict[str, dict[str, str]]:
    rows = yaml.safe_load((_HERE / "rows.yaml").read_text(encoding="utf-8"))["rows"]
    assert [row["id"] for row in rows] == list(dict.fromkeys(row["id"] for row in rows)), (
        "an id is used twice"
    )
    return {row["id"]: row for row in rows}


def _tested() -> Counter[str]:
    """Rows in `@pytest.mark.seed(...)` of all tests."""
    found: Counter[str] = Counter()
    for path in [*_HERE.glob("test_*.py"), *(_HERE.parent / "local").glob("test_*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.seed":
                        found.update(ast.literal_eval(argument) for argument in mark.args)
    return found


def _later() -> list[tuple[str, bool]]:
    groups = yaml.safe_load((_HERE / "later.yaml").read_text(encoding="utf-8"))["later"]
    assert all(group["why"] for group in groups)
    return [(row, bool(group.get("part"))) for group in groups for row in group["rows"]]


def test_every_row_has_a_test_or_comes_later() -> None:
    rows, tested, later = set(_rows()), set(_tested()), _later()
    assert tested | {row for row, _ in later} == rows
    assert sorted(row for row, part in later if (row in tested) != part) == []
    assert len(later) == len(dict(later)), "a row stands in the list twice"


def test_rows_are_complete() -> None:
    for number, row in _rows().items():
        assert set(row) == {"id", "seed", "statement", "differs"}, number
        assert row["differs"] in _DIFFERS, number
        assert row["statement"], number


def test_the_numbers_of_the_rows_have_no_gaps() -> None:
    rows = set(_rows())
    # 21 manifests; 57, 26, 43 and 26 statements of the four seeds; 13 outputs.
    expected = {f"M{number:02}" for number in range(1, 22)} | {f"C{number:02}" for number in range(1, 14)}
    for seed, count in (("000", 57), ("001", 26), ("002", 43), ("004", 26)):
        expected |= {f"S{seed}-{number:02}" for number in range(1, count + 1)}
    assert rows == expected
