"""What a run tells its listeners (terminal, reports), in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from conformance.model import Requirement, Result


@dataclass(frozen=True)
class Note:
    """Progress that belongs to no requirement, such as starting the cluster."""

    text: str


@dataclass(frozen=True)
class RunStarted:
    """`total` requirements have a verdict at the end, `planned` of them are going to run."""

    total: int
    planned: int


@dataclass(frozen=True)
class RequirementStarted:
    """A test begins."""

    requirement: Requirement


@dataclass(frozen=True)
class RequirementFinished:
    """A requirement got its verdict."""

    result: Result


@dataclass(frozen=True)
class RunFinished:
    """All verdicts, in catalogue order."""

    results: tuple[Result, ...]
    seconds: float


Event = Note | RunStarted | RequirementStarted | RequirementFinished | RunFinished
Listener = Callable[[Event], None]
