"""One pod against all nodes of a cluster, beside Kubernetes' allocator: `python -m benchmarks.allocate`.

Each round makes a new allocator and asks it about every node, single-threaded on both sides, with the state of the
cluster loaded; answers must be equal. A row has the processor time of a round in milliseconds (the least of several
that take turns; upstream's with its garbage collection) and the ratio of ours to upstream's. `first` is the round in
which no device was looked at before, so that every selector is evaluated: a scheduler has that once for each new slice
and selector, and later pods find the answers with the devices. Upstream keeps no answers.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from allocator import AllocatedState, AllocationError, Allocator, CelCache, SliceCache, allocated
from benchmarks import fleet, table
from tests.oracle.oracle_program import Oracle

CASES = ((500, 8, 0.0), (500, 8, 0.5), (500, 8, 1.0), (5000, 8, 0.0), (5000, 8, 0.5), (5000, 8, 1.0))


def main() -> None:
    parser = table.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, help="only the rows with so many nodes")
    given = parser.parse_args()
    cases = [case for case in CASES if given.nodes in (None, case[0])]
    table.show(_rows(cases, given.rounds), given.markdown)


def _rows(cases: Sequence[tuple[int, int, float]], rounds: int) -> Iterator[dict[str, Any]]:
    oracle = Oracle("time", "-allocators", "scheduler")
    for nodes, devices, used in cases:
        line = fleet.line(nodes, devices, used)
        with oracle.conversation() as ask:
            yield _row({"nodes": nodes, "devices a node": devices, "used": f"{used:.0%}"}, line, ask, rounds)


def _row(row: dict[str, Any], line: dict[str, Any], ask: Any, rounds: int) -> dict[str, Any]:
    scheduler = Scheduler(line)
    first, answers = scheduler.round()
    ours, theirs = [], []
    for _ in range(rounds):
        answer = ask({**line, "repeat": 3})
        theirs += answer["seconds"]
        for _ in range(3):
            seconds, again = scheduler.round()
            assert again == answers
            ours.append(seconds)
        assert answers == answer["answers"], "the answers differ"
    return {
        **row,
        "upstream ms": _ms(min(theirs)),
        "drakit ms": _ms(min(ours)),
        "ratio": round(min(ours) / min(theirs), 2),
        "ratio of medians": round(statistics.median(ours) / statistics.median(theirs), 2),
        "first ms": _ms(first),
        "first ratio": round(first / min(theirs), 2),
    }


class Scheduler:
    """What a scheduler keeps from pod to pod."""

    def __init__(self, line: dict[str, Any]) -> None:
        self._line = line
        self._classes = {entry["metadata"]["name"]: entry for entry in line["deviceClasses"]}
        self._state: AllocatedState = allocated(_claims(line["allocated"]["devices"]))
        self._cel = CelCache()
        self._slices = SliceCache()
        self._slices.parsed(line["resourceSlices"])
        for program in (fleet.SELECTOR, fleet.device_class()["spec"]["selectors"][0]["cel"]["expression"]):
            self._cel.compiled(program)

    def round(self) -> tuple[float, list[Any]]:
        """Seconds, and the answers as the oracle gives them."""
        gc.collect()
        began = time.process_time()
        allocator = Allocator(
            {},
            self._line["claims"],
            self._state,
            self._classes.get,
            self._line["resourceSlices"],
            self._cel,
            self._slices,
        )
        answers: list[Any] = []
        for node in self._line["nodes"]:
            try:
                answers.append(allocator.allocate(node))
            except AllocationError as error:
                answers.append(error)
        seconds = time.process_time() - began
        return seconds, [
            {"error": str(answer), "scope": answer.scope}
            if isinstance(answer, AllocationError)
            else {"results": answer}
            for answer in answers
        ]


def _claims(devices: list[str]) -> Iterator[dict[str, Any]]:
    for name in devices:
        driver, pool, device = name.split("/")
        results = [{"driver": driver, "pool": pool, "device": device, "request": "r"}]
        yield {"status": {"allocation": {"devices": {"results": results}}}}


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


if __name__ == "__main__":
    main()
