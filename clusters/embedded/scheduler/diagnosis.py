"""Why a pod fits nowhere, in the words of events and conditions.

Source: kubernetes v1.37.2 `pkg/scheduler/framework/types.go` (FitError).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from .framework.plugin import NodeStatuses
from .framework.status import Status, unresolvable

NO_NODES = "no nodes available to schedule pods"


@dataclass
class Diagnosis:
    """What was found out about the nodes in one attempt."""

    total: int
    """The number of nodes in the cluster."""
    statuses: dict[str, Status] = field(default_factory=dict)
    absent: Status = field(default_factory=unresolvable)
    """The status of nodes that were not looked at."""
    pre_filter: str = ""
    post_filter: str = ""
    plugins: set[str] = field(default_factory=set)
    """The plugins that refused the pod: their events wake it up."""

    def refuse(self, node: str, status: Status) -> None:
        """Note why a node was refused."""
        self.statuses[node] = status
        if status.plugin:
            self.plugins.add(status.plugin)

    def node_statuses(self) -> NodeStatuses:
        """The statuses of all nodes, for PostFilter."""
        return NodeStatuses(self.statuses, self.absent)

    @property
    def message(self) -> str:
        """The text of the event."""
        parts = [f"0/{self.total} nodes are available:"]
        if self.pre_filter:
            parts.append(f"{self.pre_filter}.")
        else:
            reasons = histogram(self.statuses, self.absent, self.total)
            if reasons:
                parts.append(f"{', '.join(reasons)}.")
        if self.post_filter:
            parts.append(self.post_filter)
        return " ".join(parts)


def histogram(statuses: Mapping[str, Status], absent: Status, total: int) -> list[str]:
    """The reasons with the number of nodes that gave them, sorted as strings."""
    counts: Counter[str] = Counter()
    for status in statuses.values():
        counts.update(status.reasons)
    missing = total - len(statuses)
    if missing > 0:
        for reason in absent.reasons:
            counts[reason] += missing
    return sorted(f"{count} {reason}" for reason, count in counts.items())


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt to schedule a pod failed."""

    status: Status
    message: str
    plugins: Set[str] = frozenset()
    """The plugins whose events wake the pod up; none for errors, which are retried by time."""
    nomination: str | None = ""
    """The node to nominate the pod for: empty clears it, None leaves it as it is."""
