"""Long searches, beside Kubernetes' allocator: `python -m benchmarks.searches`.

Puzzles of `benchmarks.puzzles` at sizes at which upstream needs 10 to 120 s on one processor. Answers must be equal.
Ours is the least of some runs, everything from the decoded line on; upstream's is one run of its allocator alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from allocator.lines import allocation_answer
from benchmarks import puzzles, table
from tests.oracle.oracle_program import Oracle

SIZES = {
    "match": 20,
    "distinct": 12,
    "counters": 10,
    "requests": 11,
    "alternatives": 10,
    "second claim": 24,
    "late": 24,
}


def main() -> None:
    parser = table.parser(__doc__)
    parser.add_argument("--family", choices=SIZES, action="append")
    parser.add_argument("--size", type=int)
    parser.add_argument("--ours", action="store_true", help="do not ask upstream")
    given = parser.parse_args()
    sizes = {name: given.size or SIZES[name] for name in given.family or SIZES}
    table.show(_rows(sizes, given.ours), given.markdown)


def _rows(sizes: dict[str, int], alone: bool) -> Iterator[dict[str, Any]]:
    oracle = None if alone else Oracle("time")
    for name, size in sizes.items():
        line = puzzles.FAMILIES[name](size)
        ours, answer = min((_ours(line) for _ in range(3)), key=lambda pair: pair[0])
        row = {
            "family": name,
            "size": size,
            "solvable": bool(answer.get("results")),
            "drakit s": round(ours, 4),
        }
        if oracle is not None:
            with oracle.conversation() as ask:
                upstream = ask(line)
            assert upstream["answers"] == [answer], "the answers differ"
            seconds = upstream["seconds"][0]
            row |= {"upstream s": round(seconds, 1), "times sooner": round(seconds / ours)}
        yield row


def _ours(line: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    began = time.process_time()
    answer = allocation_answer(line)
    return time.process_time() - began, answer


if __name__ == "__main__":
    main()
