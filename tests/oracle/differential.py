"""Plays random lines to the oracle and to drakit and compares the answers.

    python tests/oracle/differential.py allocate --cases 200000 --seed 7
    python tests/oracle/differential.py cel --cases 20000

prints the seed, what kinds of answers there were, and each difference as a line that can be played again.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import allocation_cases
import expression_cases
from expression_answers import Expressions
from oracle_program import Oracle, covered_percent

from allocator import CelCache
from allocator.features import Features
from allocator.lines import LineError, allocation_answer

Line = Mapping[str, Any]
Answer = dict[str, Any]
_EXPERIMENTAL = frozenset(
    {
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRAOptionalNodeOperations",
    }
)
_INCUBATING = frozenset({"DRADeviceBindingConditions", "DRAConsumableCapacity", "DRAFractionalCapacityRange"})
_SHOWN = 5
_LIMIT = "5s"
_PRINTED_DEVICE = re.compile(r"for device &Device\{Name:([^,]*),.*\} in slice")
_ADDRESS = re.compile(r"(\{[A-Za-z0-9-]+) 0x[0-9a-f]+ ([0-9]+\})")
_TOO_SLOW = "filter operation aborted: context deadline exceeded"


@dataclass
class Findings:
    """What a comparison found."""

    seed: int
    kinds: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[dict[str, Any]] = field(default_factory=list)
    different: int = 0
    panics: list[Line] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.kinds.total()

    def percent(self, kind: str) -> float:
        return 100 * self.kinds[kind] / max(self.count, 1)

    def note(self, line: Line, upstream: Answer, ours: Answer) -> None:
        self.different += 1
        if len(self.differences) < 200:
            self.differences.append({"line": line, "upstream": upstream, "drakit": ours})

    def summary(self) -> str:
        shares = ", ".join(f"{kind} {self.percent(kind):.1f} %" for kind in sorted(self.kinds))
        return f"seed {self.seed}: {self.count} lines ({shares}), {self.different} different"

    def text(self) -> str:
        """The summary with the first differences."""
        shown = [json.dumps(entry) for entry in self.differences[:_SHOWN]]
        return "\n".join([self.summary(), *shown])


def quiet(findings: Findings) -> None:
    """Tell nobody."""


def allocations(
    seed: int,
    count: int,
    *,
    implementation: str = "experimental",
    coverage: Path | None = None,
    progress: Callable[[Findings], None] = quiet,
) -> Findings:
    """Random allocation cases against an allocator of upstream.

    `implementation` is `scheduler` for the one that a scheduler chooses; cases for which that is the stable one are
    left out, because it answers at random.
    """
    told: Any = None if implementation == "scheduler" else implementation
    cel = CelCache(limit=10_000)
    return compare(
        seed,
        _lines(seed, count, implementation),
        Oracle("allocate", "-limit", _LIMIT, "-allocators", implementation, coverage=coverage),
        lambda line: allocation_answer(line, cel, implementation=told),
        kind=allocation_kind,
        features=allocation_cases.features_of,
        progress=progress,
    )


def expressions(seed: int, count: int, *, progress: Callable[[Findings], None] = quiet) -> Findings:
    """Random CEL expressions against upstream's compiler: results, error texts and costs."""
    return compare(
        seed,
        expression_cases.cases(seed, count),
        Oracle("cel"),
        Expressions().answer,
        kind=lambda answer: next(iter(answer)),
        features=lambda line: (),
        progress=progress,
    )


def verdicts(seed: int, count: int) -> Findings:
    """Random allocation cases against the stable allocator; only whether there is an allocation is compared."""
    cel = CelCache(limit=10_000)

    def ours(line: Line) -> Answer:
        return allocation_answer(line, cel, implementation="stable")

    oracle = Oracle("allocate", "-limit", _LIMIT, "-allocators", "stable")
    return compare(
        seed,
        _lines(seed, count, "stable"),
        oracle,
        ours,
        kind=allocation_kind,
        features=allocation_cases.features_of,
        same=_same_verdict,
    )


def _lines(seed: int, count: int, implementation: str) -> Iterator[Line]:
    """The cases with gates that the implementation supports."""
    off = {"incubating": _EXPERIMENTAL, "stable": _EXPERIMENTAL | _INCUBATING}.get(
        implementation, frozenset()
    )
    for line in allocation_cases.cases(seed, count):
        gates = line["featureGates"] | dict.fromkeys(off, False)
        if implementation == "scheduler" and Features.from_gates(gates).stable:
            continue
        yield {**line, "featureGates": gates}


def _same_verdict(ours: Answer, upstream: Answer) -> bool:
    """Whether both allocate or both do not. Which problem is met, and whether before a solution, is up to the order."""
    if "error" in ours or "error" in upstream:
        return True
    return bool(ours.get("results")) == bool(upstream.get("results"))


def _same(ours: Answer, upstream: Answer) -> bool:
    return bool(comparable(ours) == comparable(upstream))


def compare(
    seed: int,
    lines: Iterable[Line],
    oracle: Oracle,
    ours: Callable[[Line], Answer],
    *,
    kind: Callable[[Answer], str],
    features: Callable[[Line], Iterable[str]],
    progress: Callable[[Findings], None] = quiet,
    same: Callable[[Answer, Answer], bool] = _same,
) -> Findings:
    """Ask both about each line; `same` judges the answers."""
    findings = Findings(seed)
    waiting: deque[Line] = deque()

    def remembered() -> Iterator[Line]:
        for line in lines:
            waiting.append(line)
            yield line

    for upstream in oracle.answers(remembered()):
        line = waiting.popleft()
        progress(findings)
        if upstream.get("error") == _TOO_SLOW:
            findings.kinds["too slow upstream"] += 1
            continue
        if "panic" in upstream:
            findings.kinds["panic upstream"] += 1
            findings.panics.append(line)
            continue
        findings.kinds[kind(upstream)] += 1
        findings.pairs.update(combinations(sorted(features(line)), 2))
        answer = _answer(ours, line)
        if "input" in upstream and "input" in answer:
            continue
        if not same(answer, upstream):
            findings.note(line, upstream, answer)
    return findings


def _answer(ours: Callable[[Line], Answer], line: Line) -> Answer:
    try:
        return ours(line)
    except LineError as error:
        return {"input": str(error)}


def allocation_kind(answer: Answer) -> str:
    if "results" in answer:
        return "allocated" if answer["results"] else "impossible"
    return "error" if answer.get("scope") == "pod" else answer.get("scope", "unreadable")


def comparable(value: Any) -> Any:
    """An answer without what differs from run to run: share ids, and addresses in the text of a device or format."""
    if isinstance(value, dict):
        return {key: "share" if key == "shareID" else comparable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [comparable(entry) for entry in value]
    if isinstance(value, str) and value.startswith("gather pool information: "):
        return _PRINTED_DEVICE.sub(r"for device \1 in slice", value)
    return _ADDRESS.sub(r"\1 \2", value) if isinstance(value, str) else value


def _every(count: int, out: Path | None) -> Callable[[Findings], None]:
    def tell(findings: Findings) -> None:
        if findings.count % count == 0 and findings.count:
            print(findings.summary(), flush=True)
            _keep(findings, out)

    return tell


def _keep(findings: Findings, out: Path | None) -> None:
    if out is not None:
        out.write_text("".join(json.dumps(entry) + "\n" for entry in findings.differences))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("allocate", "cel"))
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--implementation", default="experimental")
    parser.add_argument("--coverage", type=Path, help="a folder for counters of executed statements")
    parser.add_argument("--out", type=Path, help="a file for the differences, one a line")
    given = parser.parse_args()
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    start = time.monotonic()
    progress = _every(5000, given.out)
    if given.what == "cel":
        findings = expressions(seed, given.cases, progress=progress)
    else:
        findings = allocations(
            seed,
            given.cases,
            implementation=given.implementation,
            coverage=given.coverage,
            progress=progress,
        )
    print(findings.text() if given.out is None else findings.summary())
    print(f"{time.monotonic() - start:.0f} s")
    if given.coverage is not None:
        print(f"{covered_percent(given.coverage):.1f} % of upstream's allocator executed")
    _keep(findings, given.out)
    return 1 if findings.different else 0


if __name__ == "__main__":
    sys.exit(main())
