"""Writes valid and invalid objects to both servers and compares verdicts, stored objects, fields and reasons.

As a command: `python validation_run.py --binaries DIR --seed 1 --objects 10000 [--alpha]`. It prints how often each
rule of validation_rules.yaml was kept and broken.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import api_servers
from api_compare import Comparison, Difference
from api_run import Pair, find_binaries, pair
from api_wire import Answer
from validation_cases import Case, draw, systematic, text
from validation_rules import load

BATCH: Final = 20
"""Cases that are played before both servers are emptied."""
_PART: Final = re.compile(r", (?=[a-z]\w*[.\[:])")


@dataclass
class Finding:
    """A case that the servers judge differently."""

    case: Case
    differences: list[Difference]

    def __str__(self) -> str:
        places = "\n".join(str(difference) for difference in self.differences[:8])
        return f"{self.case}\n{places}\n{text(self.case.operations('c', 0))}"


@dataclass
class Result:
    """What a run found out."""

    findings: list[Finding] = field(default_factory=list)
    unsteady: list[Finding] = field(default_factory=list)
    """Differences that did not come again."""
    wrong: list[str] = field(default_factory=list)
    """Cases of one rule that a real server does not judge as the file of rules says."""
    verdicts: Counter[tuple[str, str, int, str]] = field(default_factory=Counter)
    """Cases by write, kind, code and reason of the real server."""
    hits: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """How often each rule was kept (True) and broken (False)."""
    reordered: int = 0
    """Refusals whose causes came in another order."""
    objects: int = 0
    seconds: float = 0.0

    def table(self) -> str:
        """Counts of verdicts and rules."""
        lines = []
        for on, kind in sorted({key[:2] for key in self.verdicts}):
            parts = [
                f"{code}{' ' + reason if reason else ''} {count}"
                for (*place, code, reason), count in sorted(self.verdicts.items())
                if tuple(place) == (on, kind)
            ]
            lines.append(f"{on:7}{kind:28}{', '.join(parts)}")
        lines += [
            f"{rule.id:32}kept {self.hits[rule.id, True]:5}  broken {self.hits[rule.id, False]:5}"
            for rule in load().all
        ]
        lines.append(
            f"{self.objects} objects in {self.seconds:.0f} s, {len(self.findings)} judged differently, "
            f"{len(self.unsteady)} once, {self.reordered} with causes in another order"
        )
        return "\n".join(lines)


def cases(seed: int, objects: int) -> Iterator[Case]:
    """Every rule in every way, then random cases; so many at least as there are ways."""
    first = list(systematic())
    yield from first
    for number in range(objects - len(first)):
        yield draw(seed, number)


def run(
    servers: Pair,
    chosen: Iterable[Case],
    *,
    alpha: bool,
    most_findings: int = 10_000,
    progress: Callable[[int], object] = lambda done: None,
) -> Result:
    """Play all cases, or as many as it takes to find so many differences."""
    result, begin = Result(), time.monotonic()
    for batch in _batches(chosen):
        if len(result.findings) >= most_findings:
            break
        for case, found in _differing(servers, batch, result, alpha=alpha):
            again = _differing(servers, [case], Result(), alpha=alpha)
            (result.findings if again else result.unsteady).append(
                Finding(case, again[0][1] if again else found)
            )
        progress(result.objects)
    result.seconds = time.monotonic() - begin
    return result


def _batches(chosen: Iterable[Case]) -> Iterator[list[Case]]:
    rest = iter(chosen)
    while batch := list(itertools.islice(rest, BATCH)):
        yield batch


def _differing(
    servers: Pair, batch: list[Case], result: Result, *, alpha: bool
) -> list[tuple[Case, list[Difference]]]:
    """The cases of a batch on which the servers differ; what is to be counted goes into the result."""
    operations, owner = [], {}
    for number, case in enumerate(batch):
        made = case.operations(f"c{number}", len(operations))
        operations += made
        owner.update((operation["id"], number) for operation in made)
        _count(case, result)
    real, embedded = servers.play(operations)
    for number, case in enumerate(batch):
        last = max(one for one, other in owner.items() if other == number)
        _judge(case, real[last], result, alpha=alpha)
    result.reordered += sum(
        real[one].body != embedded[one].body and _ordered(real[one]).body == _ordered(embedded[one]).body
        for one in owner
    )
    found: dict[int, list[Difference]] = {}
    one, other = ({key: _ordered(answer) for key, answer in each.items()} for each in (real, embedded))
    for differences in Comparison().each(operations, one, other):
        found.setdefault(owner[differences[0].operation["id"]], differences)
    return [(batch[number], differences) for number, differences in found.items()]


def _count(case: Case, result: Result) -> None:
    result.objects += 1
    for rule, good in case.hits:
        result.hits[rule.id, good] += 1


def _judge(case: Case, answer: Answer, result: Result, *, alpha: bool) -> None:
    reason = (
        str(answer.body.get("reason", "")) if isinstance(answer.body, dict) and answer.code >= 400 else ""
    )
    result.verdicts[case.on, case.kind.plural, answer.code, reason] += 1
    if not case.alone:
        return
    (rule, good), = case.hits  # fmt: skip
    if good != (answer.code < 300) and (alpha or not rule.alpha):
        result.wrong.append(f"{case}: {answer.code} {answer.body}"[:1500])


def _ordered(answer: Answer) -> Answer:
    """The answer with its causes in order: a real server comes by some of them in the order of a map of Go."""
    body: Any = answer.body
    causes = (body.get("details") or {}).get("causes") if isinstance(body, dict) else None
    if not causes or len(causes) < 2:
        return answer
    head, _, listed = body["message"].partition(" is invalid: ")
    parts = sorted(_PART.split(listed.removeprefix("[").removesuffix("]")))
    details = {**body["details"], "causes": sorted(causes, key=lambda cause: sorted(cause.items()))}
    return replace(answer, body={**body, "message": f"{head} is invalid: {parts}", "details": details})


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare what the embedded and a real API server refuse.")
    parser.add_argument("--binaries", type=Path, help="folder of kube-apiserver and etcd")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--alpha", action="store_true", help="all alpha gates of DRA on")
    parser.add_argument("--findings", type=int, default=30, help="stop after so many differences")
    options = parser.parse_args()
    say = sys.stdout.write
    with pair(find_binaries(options.binaries), api_servers.ALPHA_GATES if options.alpha else {}) as servers:
        result = run(
            servers, cases(options.seed, options.objects), alpha=options.alpha, most_findings=options.findings,
            progress=_progress,
        )  # fmt: skip
    for line in result.wrong:
        say(f"the file of rules is wrong about {line}\n")
    for kind, found in (("once", result.unsteady), ("differ", result.findings)):
        for finding in found:
            say(f"{kind}: {finding}\n")
    signatures = Counter(f"{one.case.on} {one.differences[0].signature}" for one in result.findings)
    for signature, count in signatures.most_common():
        say(f"{count:4} {signature}\n")
    say(result.table() + "\n")
    return 1 if result.findings or result.wrong else 0


def _progress(done: int) -> None:
    if done % 1000 < BATCH:
        sys.stderr.write(f"{done} objects\n")


if __name__ == "__main__":
    sys.exit(main())
