"""What a check is, and what it finds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from clusters import gates
from clusters.doctor.host import Host

EMBEDDED, LOCAL, KIND = "embedded", "local", "kind"
TIERS: Final = (EMBEDDED, LOCAL, KIND)
"""The kinds of clusters that a host can be asked about."""

Facts = TypeVar("Facts")


class State(enum.StrEnum):
    """How a check ended: of a host something can be missing, of a cluster there can be faults."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    FAULT = "fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """What was seen and, unless all is well, what mends it.

    `blocks` are the tiers that cannot run when it is missing; None stands for all that need the check.
    """

    state: State
    seen: str
    remedy: str = ""
    blocks: frozenset[str] | None = None


def ok(seen: str) -> Finding:
    """All is well."""
    return Finding(State.OK, seen)


def warning(seen: str, remedy: str) -> Finding:
    """It may work, or not for long."""
    return Finding(State.WARNING, seen, remedy)


def missing(seen: str, remedy: str, *, blocks: Iterable[str] | None = None) -> Finding:
    """It cannot work."""
    return Finding(State.MISSING, seen, remedy, None if blocks is None else frozenset(blocks))


def unknown(seen: str, remedy: str = "") -> Finding:
    """It could not be looked at."""
    return Finding(State.UNKNOWN, seen, remedy)


@dataclass(frozen=True)
class Wanted:
    """What somebody wants to start: a Kubernetes minor or release, settings as on a command line, the API's port.

    `binaries` is a folder that the user names for a local cluster.
    """

    version: str = gates.LATEST
    feature_gates: str = ""
    runtime_config: str = ""
    port: int = 0
    binaries: Path | None = None

    @property
    def minor(self) -> str:
        """Major and minor of the version, such as 1.37."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])


@dataclass(frozen=True)
class Check(Generic[Facts]):
    """One thing that clusters need: `look` gathers facts from the host, `judge` says what they mean, and looks nowhere.

    `meaning` is a sentence for who lists the checks; `tiers` are those that need it.
    """

    id: str
    meaning: str
    tiers: tuple[str, ...]
    look: Callable[[Host, Wanted], Facts] = field(repr=False)
    judge: Callable[[Facts], Finding] = field(repr=False)

    def run(self, host: Host, wanted: Wanted) -> Finding:
        """Look and judge; what the host does not let be seen is unknown."""
        try:
            facts = self.look(host, wanted)
        except OSError as error:
            name = f"{error.filename}: " if error.filename else ""
            return unknown(f"{name}{error.strerror or error}", "see whether this user may read it")
        return self.judge(facts)


@dataclass(frozen=True)
class Checked:
    """A check with its finding."""

    check: Check[Any]
    finding: Finding

    def blocks(self, tier: str) -> bool:
        """Whether a tier cannot run for it."""
        finding = self.finding
        blocked = self.check.tiers if finding.blocks is None else finding.blocks
        return finding.state is State.MISSING and tier in blocked and tier in self.check.tiers


def run(checks: Sequence[Check[Any]], host: Host, wanted: Wanted) -> list[Checked]:
    """Every check with its finding, in order."""
    return [Checked(check, check.run(host, wanted)) for check in checks]


def obstacles(checked: Sequence[Checked], tier: str) -> list[str]:
    """The ids of what keeps a tier from running."""
    return [item.check.id for item in checked if item.blocks(tier)]
