"""Runs sequences against both servers, counts what they answered and makes failing sequences small.

As a command: `python api_run.py --binaries DIR --seed 1 --operations 20000`, or `--replay FILE` for one sequence.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import api_servers
from api_compare import Comparison, Difference
from api_play import Operation, Player
from api_sequences import draw, text
from api_state import NAMESPACE
from api_values import KINDS, POOL_REQUESTS
from api_wire import Answer

from clusters import binaries

_PATIENCE: Final = 60.0
LENGTH: Final = 30
"""Operations of one sequence."""


@dataclass
class Failure:
    """A sequence on which the servers differ."""

    seed: int
    number: int
    operations: list[Operation]
    differences: list[Difference]

    def __str__(self) -> str:
        places = "\n".join(str(difference) for difference in self.differences[:6])
        operation = json.dumps(self.differences[0].operation)
        return (
            f"seed {self.seed}, sequence {self.number}, {len(self.operations)} operations are left, the last:\n"
            f"{operation}\n{places}"
        )


@dataclass
class Result:
    """What a run found out."""

    counts: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    unsteady: list[Failure] = field(default_factory=list)
    """Sequences whose difference did not come again."""
    seconds: float = 0.0
    operations: int = 0
    events: int = 0

    def table(self) -> str:
        """Counts by operation and outcome."""
        lines = []
        names = sorted({name for name, _, _ in self.counts})
        for name in names:
            outcomes = {key: count for key, count in self.counts.items() if key[0] == name}
            parts = [f"{code}{' ' + reason if reason else ''} {count}" for (_, code, reason), count in
                     sorted(outcomes.items(), key=lambda item: item[0][1:])]  # fmt: skip
            lines.append(f"{name:24}{sum(outcomes.values()):6}  {', '.join(parts)}")
        rate = self.operations / self.seconds if self.seconds else 0.0
        lines.append(
            f"{self.operations} operations and {self.events} watch events in {self.seconds:.0f} s ({rate:.0f}/s), "
            f"{len(self.failures)} sequences differ, {len(self.unsteady)} differed once"
        )
        return "\n".join(lines)


class Pair:
    """Both servers, furnished alike."""

    def __init__(self, real: Player, embedded: Player) -> None:
        self._players = (real, embedded)
        self._pool = ThreadPoolExecutor(2)

    def play(self, operations: list[Operation]) -> tuple[dict[int, Answer], dict[int, Answer]]:
        """The answers of the real and of the embedded server to a sequence on empty servers."""
        # Side by side, so that both have the same second: times in objects are whole seconds.
        side_by_side = threading.Barrier(len(self._players), timeout=_PATIENCE)
        real, embedded = self._pool.map(
            lambda player: _played(player, operations, side_by_side), self._players
        )
        return real, embedded


def _played(
    player: Player, operations: list[Operation], side_by_side: threading.Barrier
) -> dict[int, Answer]:
    try:
        return player.play(operations, side_by_side.wait)
    except BaseException:
        side_by_side.abort()
        raise
    finally:
        _clean(player, {operation["kind"] for operation in operations})


def _clean(player: Player, plurals: set[str]) -> None:
    for kind in (*KINDS, POOL_REQUESTS):
        if kind.plural not in plurals:
            continue
        path = kind.path(kind.versions[0], NAMESPACE)
        for _ in range(20):
            _, found = player.request("GET", path)
            if not found.get("items"):
                break
            for item in found["items"]:
                target = f"{path}/{item['metadata']['name']}"
                if item["metadata"].get("finalizers"):
                    bare = {"metadata": {"finalizers": None}}
                    player.request("PATCH", target, bare, "application/merge-patch+json")
                player.request("DELETE", target, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        else:
            raise RuntimeError(f"{path} cannot be emptied of {json.dumps(found['items'])}")


@contextmanager
def pair(found: binaries.Binaries, gates: dict[str, bool]) -> Iterator[Pair]:
    """Both servers, for as long as the block lasts."""
    with ExitStack() as stack:
        endpoints = (
            stack.enter_context(api_servers.real(found, gates)),
            stack.enter_context(api_servers.embedded(gates)),
        )
        players = []
        for endpoint in endpoints:
            api_servers.furnish(endpoint)
            players.append(Player(endpoint))
            stack.callback(players[-1].close)
        yield Pair(*players)


def differing(servers: Pair, comparison: Comparison, operations: list[Operation]) -> list[Difference]:
    """The first differences of one sequence."""
    return comparison.first(operations, *servers.play(operations))


def smaller(servers: Pair, failure: Failure, patience: int = 60) -> Failure:
    """The same failure with as few operations as leave it."""
    wanted = failure.differences[0].signature.split()[2]
    comparison = Comparison()
    left, found = failure.operations, failure.differences
    left = _up_to(left, found)
    size = max(len(left) // 2, 1)
    while patience > 0:
        changed = False
        at = 0
        while at < len(left) and patience > 0:
            candidate = left[:at] + left[at + size :]
            patience -= 1
            seen = differing(servers, comparison, candidate) if candidate else []
            if seen and seen[0].signature.split()[2] == wanted:
                left, found, changed = _up_to(candidate, seen), seen, True
            else:
                at += size
        if size == 1 and not changed:
            break
        size = max(size // 2, 1)
    return Failure(failure.seed, failure.number, left, found)


def _up_to(operations: list[Operation], found: list[Difference]) -> list[Operation]:
    if "watch" in found[0].operation:
        return operations
    last = found[0].operation["id"]
    return [operation for operation in operations if operation["id"] <= last]


def run(
    servers: Pair,
    seed: int,
    operations: int,
    *,
    comparison: Comparison | None = None,
    most_failures: int = 5,
    shrink: bool = True,
    only: str = "",
    seconds: float = math.inf,
    progress: Callable[[int], object] = lambda done: None,
) -> Result:
    """Play sequences until so many operations are done or so many sequences differ."""
    result, begin = Result(), time.monotonic()
    comparison = comparison or Comparison()
    number = 0
    end = begin + seconds
    while result.operations < operations and len(result.failures) < most_failures and time.monotonic() < end:
        drawn = draw(seed, number, LENGTH)
        if not only or any(operation["kind"] == only for operation in drawn):
            _step(servers, comparison, result, seed, number, drawn)
        number += 1
        progress(result.operations)
    result.seconds = time.monotonic() - begin
    if shrink:
        result.failures = [smaller(servers, failure) for failure in result.failures]
    return result


def _step(
    servers: Pair, comparison: Comparison, result: Result, seed: int, number: int, drawn: list[Operation]
) -> None:
    real, embedded = servers.play(drawn)
    for operation in drawn:
        answer = real.get(operation["id"])
        if answer is not None:
            result.counts[operation["op"], answer.code, _reason(answer)] += 1
            if isinstance(answer.body, list):
                result.events += len(answer.body)
    result.operations += len(drawn)
    found = comparison.first(drawn, real, embedded)
    if not found:
        return
    again = differing(servers, Comparison(), drawn)
    failure = Failure(seed, number, drawn, again or found)
    (result.failures if again else result.unsteady).append(failure)


def _reason(answer: Answer) -> str:
    return str(answer.body.get("reason", "")) if isinstance(answer.body, dict) and answer.code >= 400 else ""


def find_binaries(folder: Path | None = None) -> binaries.Binaries:
    """kube-apiserver and etcd of the version under test: from a folder, the cache, a download or Go."""
    return binaries.find("1.37", ("etcd", "kube-apiserver"), folder=folder)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Compare the embedded API server with kube-apiserver.")
    parser.add_argument("--binaries", type=Path, help="folder of kube-apiserver and etcd")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long")
    parser.add_argument("--alpha", action="store_true", help="all alpha gates of DRA on")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many differing sequences")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument(
        "--brief", action="store_true", help="do not print the operations of differing sequences"
    )
    parser.add_argument("--only", default="", help="plural of the one kind of interest")
    parser.add_argument("--replay", type=Path, help="a file with the operations of one sequence")
    parser.add_argument("--show", action="store_true", help="print all answers of a replayed sequence")
    parser.add_argument("--sequence", type=int, help="only the sequence of this number")
    options = parser.parse_args()
    say = sys.stdout.write
    with pair(find_binaries(options.binaries), api_servers.ALPHA_GATES if options.alpha else {}) as servers:
        if options.replay or options.sequence is not None:
            drawn = (
                json.loads(options.replay.read_text())
                if options.replay
                else draw(options.seed, options.sequence, LENGTH)
            )
            return _replay(servers, drawn, say, options)
        result = run(
            servers, options.seed, options.operations, most_failures=options.failures,
            shrink=not options.no_shrink, only=options.only, seconds=options.seconds, progress=_progress,
        )  # fmt: skip
    for failure in (*result.unsteady, *result.failures):
        say(f"{failure}\n" if options.brief else f"{failure}\n{text(failure.operations)}\n")
    signatures = Counter(failure.differences[0].signature for failure in result.failures)
    for signature, count in signatures.most_common():
        say(f"{count:4} {signature}\n")
    say(result.table() + "\n")
    return 1 if result.failures else 0


def _progress(done: int) -> None:
    if done % 1000 < LENGTH:
        sys.stderr.write(f"{done} operations\n")


def _replay(servers: Pair, drawn: list[Operation], say: Any, options: argparse.Namespace) -> int:
    if options.show:
        for real, embedded in [servers.play(drawn)]:
            for operation in drawn:
                say(f"{json.dumps(operation)}\n")
                for name, answers in (("real", real), ("embedded", embedded)):
                    answer = answers.get(operation["id"])
                    say(f"  {name:8} {json.dumps(answer and asdict(answer))}\n")
    found = differing(servers, Comparison(), drawn)
    if found and not options.no_shrink:
        failure = smaller(servers, Failure(options.seed, options.sequence or 0, drawn, found))
        say(f"{failure}\n{text(failure.operations)}\n")
        return 1
    for difference in found:
        say(f"{json.dumps(difference.operation)}\n{difference}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
