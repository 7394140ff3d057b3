"""The words of the kit: requirement, verdict, result."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Level(enum.StrEnum):
    """How binding a requirement is (RFC 2119)."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Verdict(enum.StrEnum):
    """Outcome of one requirement, in rising order: a summary takes the highest of its parts."""

    DISABLED = "disabled"
    SKIP = "skip"
    PASS = "pass"  # noqa: S105 - a verdict, no secret
    KNOWN_GAP = "known-gap"
    FAIL = "fail"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """Position in the lattice, 0 for disabled."""
        return list(Verdict).index(self)

    @property
    def tested(self) -> bool:
        """Whether the requirement was really put to the test."""
        return self in (Verdict.PASS, Verdict.KNOWN_GAP, Verdict.FAIL)


def highest(verdicts: Iterable[Verdict]) -> Verdict:
    """The highest verdict; disabled for none."""
    return max(verdicts, key=lambda verdict: verdict.rank, default=Verdict.DISABLED)


class SkipCause(enum.StrEnum):
    """Whose affair a skip is: of the driver (not declared, or it has not what the test needs), of the Kubernetes
    version, of a gate that is off, of the tier (what this kind of cluster cannot do), or of another requirement that
    did not pass.
    """

    DRIVER = "driver"
    VERSION = "version"
    GATE = "gate"
    TIER = "tier"
    PREREQUISITE = "prerequisite"


class Isolation(enum.StrEnum):
    """What a test may share.

    `parallel`: everything that is there, with other tests. `exclusive`: the cluster, but it has a node of its own.
    `disruptive`: it breaks what all others use, and runs when they have ended.
    """

    PARALLEL = "parallel"
    EXCLUSIVE = "exclusive"
    DISRUPTIVE = "disruptive"


@dataclass(frozen=True)
class KnownGap:
    """A released component that breaks the requirement; `versions` are minors such as "1.36"."""

    component: str
    versions: tuple[str, ...]
    issue: str


@dataclass(frozen=True)
class Requirement:
    """One sentence that a driver or a cluster component has to fulfil; the record beside its test.

    `id` is never renamed or reused. `mutants` are broken subjects (tests/mutants) under which the test was seen
    failing. `since` and `until` are Kubernetes minors, `capability` a word of capabilities.yaml (empty: everybody),
    `hooks` the descriptor hooks without which it cannot be tested, `needs` words of tiers.yaml. `skips_time`: the test
    lets the cluster's clock run ahead where it can, which no other test may notice, and waits as long elsewhere.
    `suite` is the folder of the record; `after` names requirements that must have passed, because this one cannot be
    tested otherwise.
    """

    id: str
    level: Level
    rule: str
    subject: str
    source: tuple[str, ...]
    area: str
    mutants: tuple[str, ...] = ()
    isolation: Isolation = Isolation.PARALLEL
    gates: tuple[str, ...] = ()
    since: str = "1.34"
    until: str = ""
    capability: str = ""
    needs: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    known_gaps: tuple[KnownGap, ...] = ()
    seconds: float = 1.0
    skips_time: bool = False
    suite: str = ""
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Something that shows what happened: `kind` is call, object, file or log; `text` is ready to print."""

    kind: str
    title: str
    text: str


@dataclass(frozen=True)
class Result:
    """Verdict of one requirement with everything needed to understand it.

    `mistake`: an error that the user's input caused, such as a hook that does not work, and not the kit. `cause` of a
    skip.
    """

    requirement: Requirement
    verdict: Verdict
    reason: str = ""
    expected: str = ""
    seen: str = ""
    evidence: tuple[Evidence, ...] = field(default=())
    seconds: float = 0.0
    mistake: bool = False
    cause: SkipCause | None = None


class Failed(Exception):  # noqa: N818 - an outcome, not a fault of the kit
    """The subject broke the requirement."""

    def __init__(self, expected: str, seen: str, evidence: Iterable[Evidence] = ()) -> None:
        super().__init__(f"expected {expected}; seen {seen}")
        self.expected = expected
        self.seen = seen
        self.evidence = tuple(evidence)


class NotTestable(Exception):  # noqa: N818 - an outcome, not a fault of the kit
    """The requirement cannot be tested with this driver; the reason is a full clause."""


class InputError(Exception):
    """Something the user gave does not work, so that a requirement cannot be judged; the text says what to do.

    `fatal`: no requirement can be judged. `about` is what does not work.
    """

    def __init__(self, text: str, *, fatal: bool = False, about: str = "the descriptor") -> None:
        super().__init__(text)
        self.fatal = fatal
        self.about = about


def check(condition: bool, expected: str, seen: object) -> None:
    """Raise Failed unless the condition holds."""
    if not condition:
        raise Failed(expected, str(seen))
