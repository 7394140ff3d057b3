"""What a check of a cluster is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from clusters.doctor.cluster.snapshot import Snapshot
from clusters.doctor.model import State, Wanted


@dataclass(frozen=True)
class Problem:
    """Something that is wrong in a cluster: which object, what was seen, and what mends it."""

    state: State
    where: str
    seen: str
    remedy: str = ""


def fault(where: str, seen: str, remedy: str) -> Problem:
    """Pods will not get their devices, or the wrong ones."""
    return Problem(State.FAULT, where, seen, remedy)


def doubt(where: str, seen: str, remedy: str) -> Problem:
    """It may be right, or may go by."""
    return Problem(State.WARNING, where, seen, remedy)


def unknown(where: str, seen: str, remedy: str = "") -> Problem:
    """It could not be looked at."""
    return Problem(State.UNKNOWN, where, seen, remedy)


@dataclass(frozen=True)
class ClusterCheck:
    """One thing that is looked for in a snapshot; `judge` gives what is wrong, and nothing when all is well.

    `needs` are the resources that have to be readable for it.
    """

    id: str
    meaning: str
    judge: Callable[[Snapshot, Wanted], Iterable[Problem]] = field(repr=False)
    needs: tuple[str, ...] = ()

    def run(self, snapshot: Snapshot, wanted: Wanted) -> Sequence[Problem]:
        """What is wrong."""
        if why := snapshot.unread(*self.needs):
            return [unknown("cluster", why, "use a kubeconfig that may get and list it")]
        return list(self.judge(snapshot, wanted))
