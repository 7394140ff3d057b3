"""Differences between the answers of two servers, and the few that are allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api_allowed import ALLOWED, Allowed
from api_normal import Normalizer
from api_play import Operation
from api_wire import Answer

_ABSENT: Final = "<absent>"
_INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Difference:
    """One place where the answers to one operation differ; values as JSON text."""

    operation: Operation
    path: str
    real: str
    embedded: str

    @property
    def signature(self) -> str:
        """What is alike in many sequences."""
        return f"{self.operation['op']} {self.operation['kind']} {_INDEX.sub('[]', self.path)}"

    def __str__(self) -> str:
        return f"{self.path}\n  real     {self.real}\n  embedded {self.embedded}"


def places(real: Any, embedded: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The places where two JSON values differ."""
    if type(real) is not type(embedded):
        yield path, real, embedded
    elif isinstance(real, dict):
        for key in sorted(real.keys() | embedded.keys()):
            if key not in real or key not in embedded:
                yield f"{path}.{key}", real.get(key, _ABSENT), embedded.get(key, _ABSENT)
            else:
                yield from places(real[key], embedded[key], f"{path}.{key}")
    elif isinstance(real, list):
        for index, (one, other) in enumerate(zip(real, embedded, strict=False)):
            yield from places(one, other, f"{path}[{index}]")
        if len(real) != len(embedded):
            shorter = min(len(real), len(embedded))
            yield f"{path}[{shorter}:]", real[shorter:], embedded[shorter:]
    elif real != embedded:
        yield path, real, embedded


class Comparison:
    """Compares answers and remembers which allowed differences occurred."""

    def __init__(self, allowed: Sequence[Allowed] = ALLOWED) -> None:
        self._allowed = allowed
        self.used: dict[str, int] = {entry.name: 0 for entry in allowed}

    def first(
        self,
        operations: list[Operation],
        real: dict[int, Answer],
        embedded: dict[int, Answer],
    ) -> list[Difference]:
        """The differences of the first operation whose answers differ: later ones may follow from them."""
        return next(self.each(operations, real, embedded), [])

    def each(
        self,
        operations: list[Operation],
        real: dict[int, Answer],
        embedded: dict[int, Answer],
    ) -> Iterator[list[Difference]]:
        """The differences of every operation whose answers differ."""
        ours, theirs = Normalizer(), Normalizer()
        for operation in _told_in_order(operations):
            number = operation["id"]
            if number not in real and number not in embedded:
                continue
            one = theirs.of(operation, real[number]) if number in real else None
            other = ours.of(operation, embedded[number]) if number in embedded else None
            found = [
                Difference(
                    operation, path, json.dumps(mine, ensure_ascii=False), json.dumps(its, ensure_ascii=False)
                )
                for path, mine, its in places(one, other)
            ]
            left = [difference for difference in found if not self._excused(difference)]
            if left:
                yield left

    def _excused(self, difference: Difference) -> bool:
        for entry in self._allowed:
            if entry.covers(difference.operation, difference.path, difference.real, difference.embedded):
                self.used[entry.name] += 1
                return True
        return False


def _told_in_order(operations: list[Operation]) -> list[Operation]:
    """Watches last: they show what all others did."""
    return sorted(operations, key=lambda operation: ("watch" in operation, operation["id"]))
