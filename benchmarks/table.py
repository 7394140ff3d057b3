"""Rows of results: JSON for machines, a table for docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any


def parser(documentation: str | None) -> argparse.ArgumentParser:
    """Options that all benchmarks have."""
    result = argparse.ArgumentParser(description=(documentation or "").splitlines()[0])
    result.add_argument(
        "--markdown", action="store_true", help="a table instead of a line of JSON for each row"
    )
    return result


def show(rows: Iterable[Mapping[str, Any]], markdown: bool) -> None:
    """Print each row as soon as it is there."""
    for number, row in enumerate(rows):
        if not markdown:
            print(json.dumps(row), flush=True)
            continue
        if number == 0:
            print("| " + " | ".join(row) + " |")
            print("|" + " --- |" * len(row))
        print("| " + " | ".join(_cell(value) for value in row.values()) + " |", flush=True)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        f"{value:,.4g}"
        if isinstance(value, float) and abs(value) < 1000
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
