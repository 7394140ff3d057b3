"""What is to be created and deleted for a DaemonSet, and its numbers. No input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.daemonset.nodes import Eligibility, generation_of, is_updated
from clusters.embedded.controllers.numbers import scaled
from clusters.embedded.controllers.pods import (
    created_at,
    is_available,
    is_deleted,
    is_ready,
    phase_of,
)

_FIRST_DELAY, _LONGEST_DELAY = 1.0, 900.0
ByNode = Mapping[str, Sequence[Object]]


@dataclass
class Plan:
    """Nodes that need a Pod, Pods to delete, events (type, reason, text), seconds after which to look again."""

    nodes: list[str] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    again: float | None = None

    def look_again(self, seconds: float) -> None:
        """Look again after so many seconds, or earlier."""
        self.again = seconds if self.again is None else min(self.again, seconds)


class FailureBackoff:
    """Delays between the deletions of failed Pods of one node, so that node and controller do not fight."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, float]] = {}

    def remaining(self, key: str, now: float) -> float | None:
        """The delay that is running; None when a Pod may be deleted."""
        if key not in self._entries:
            return None
        delay, since = self._entries[key]
        return delay if now - since < delay else None

    def next(self, key: str, now: float) -> None:
        """A Pod is deleted: the next delay is twice as long, unless nothing happened for half an hour."""
        delay, since = self._entries.get(key, (0.0, now))
        if not delay or now - since > 2 * _LONGEST_DELAY:
            delay = _FIRST_DELAY / 2
        self._entries[key] = (min(delay * 2, _LONGEST_DELAY), now)
        quiet = [other for other, (_, last) in self._entries.items() if now - last > 2 * _LONGEST_DELAY]
        for other in quiet:
            del self._entries[other]

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class Situation:
    """A DaemonSet, its current template's hash, the nodes, its Pods by node, and the time."""

    daemon_set: Object
    digest: str
    nodes: Sequence[Object]
    pods: ByNode
    now: float

    @property
    def eligibility(self) -> Eligibility:
        """What decides about nodes."""
        return Eligibility(self.daemon_set)

    def available(self, pod: Object) -> bool:
        """Whether a Pod has been ready for long enough."""
        return is_available(pod, int(self.daemon_set["spec"].get("minReadySeconds", 0)), self.now)

    def updated(self, pod: Object) -> bool:
        """Whether a Pod is of the current template."""
        return is_updated(pod, self.digest, generation_of(self.daemon_set))

    def allowed(self, name: str, total: int) -> int:
        """maxSurge or maxUnavailable for so many nodes."""
        strategy = self.daemon_set["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return 0
        return scaled((strategy.get("rollingUpdate") or {}).get(name), total, up=True)


def oldest_first(pods: Iterable[Object]) -> list[Object]:
    """Pods with a node before those without, then by age and name."""
    return sorted(
        pods, key=lambda pod: (not pod["spec"].get("nodeName"), created_at(pod), pod["metadata"]["name"])
    )


def keep_one_a_node(situation: Situation, backoff: FailureBackoff) -> Plan:
    """Pods for nodes without one; the end of Pods that failed, are too many, or may not stay."""
    plan, eligibility = Plan(), situation.eligibility
    known = {node["metadata"]["name"] for node in situation.nodes}
    for node in situation.nodes:
        name = node["metadata"]["name"]
        should_run, may_stay = eligibility.of(node)
        pods = situation.pods.get(name)
        if should_run and pods is None:
            plan.nodes.append(name)
        elif may_stay:
            _prune(plan, situation, name, pods or (), backoff, should_run=should_run)
        else:
            plan.pods += [pod for pod in pods or () if not is_deleted(pod)]
    for name, pods in situation.pods.items():
        if name not in known:
            # Nobody will ever bind these, and nobody else deletes them.
            plan.pods += [pod for pod in pods if not pod["spec"].get("nodeName")]
    return plan


def _prune(
    plan: Plan,
    situation: Situation,
    node: str,
    pods: Sequence[Object],
    backoff: FailureBackoff,
    *,
    should_run: bool,
) -> None:
    running: list[Object] = []
    metadata = situation.daemon_set["metadata"]
    generation = (situation.daemon_set.get("status") or {}).get("observedGeneration", 0)
    for pod in pods:
        if is_deleted(pod):
            continue
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {node}"
        if phase_of(pod) == "Failed":
            key = f"{metadata['uid']}/{generation}/{node}"
            delay = backoff.remaining(key, situation.now)
            if delay is not None:
                plan.look_again(delay)
                continue
            backoff.next(key, situation.now)
            text = f"Found failed daemon pod {where}, will try to kill it"
            plan.events.append(("Warning", "FailedDaemonPod", text))
            plan.pods.append(pod)
        elif phase_of(pod) == "Succeeded":
            text = f"Found succeeded daemon pod {where}, will try to delete it"
            plan.events.append(("Normal", "SucceededDaemonPod", text))
            plan.pods.append(pod)
        else:
            running.append(pod)
    running = oldest_first(running)
    if situation.allowed("maxSurge", 1) <= 0:
        plan.pods += running[1:]
    elif not running:
        if should_run:
            plan.nodes.append(node)
    elif len(running) > 1:
        _prune_surge(plan, situation, running)


def _prune_surge(plan: Plan, situation: Situation, running: Sequence[Object]) -> None:
    """Two Pods may be there: an old ready one and a new one that is not available yet."""
    new = [pod for pod in running if is_updated(pod, situation.digest, None)]
    old = [pod for pod in running if not is_updated(pod, situation.digest, None)]
    plan.pods += new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or situation.available(new[0])):
        plan.pods.append(old[0])


def new_and_old(situation: Situation, pods: Sequence[Object]) -> tuple[Object | None, Object | None] | None:
    """The Pod of the current template and the one of another; None when there are several of either."""
    left = [pod for pod in pods if not is_deleted(pod)]
    new = [pod for pod in left if situation.updated(pod)]
    old = [pod for pod in left if not situation.updated(pod)]
    if len(new) > 1 or len(old) > 1:
        return None
    return (new[0] if new else None), (old[0] if old else None)


def rolling_update(situation: Situation) -> Plan:
    """The next replacements that the strategy allows."""
    eligibility = situation.eligibility
    wanted = {node["metadata"]["name"] for node in situation.nodes if eligibility.of(node)[0]}
    pods: dict[str, Sequence[Object]] = {**dict.fromkeys(sorted(wanted), ()), **situation.pods}
    surge = situation.allowed("maxSurge", len(wanted))
    unavailable = situation.allowed("maxUnavailable", len(wanted))
    if surge:
        return _surge(situation, pods, wanted, surge)
    return _replace(situation, pods, unavailable or (1 if wanted else 0))


def _replace(situation: Situation, pods: ByNode, allowed: int) -> Plan:
    """Delete old Pods: unavailable ones at once, others as long as few enough are unavailable."""
    plan, unavailable = Plan(), 0
    candidates: list[Object] = []
    for _, on_node in sorted(pods.items()):
        pair = new_and_old(situation, on_node)
        if pair is None or (pair[0] is None) == (pair[1] is None):
            # Nothing, too much or both: not this one's business, and not available.
            unavailable += 1
            continue
        new, old = pair
        if new is not None:
            unavailable += not situation.available(new)
        elif old is not None and not situation.available(old):
            plan.pods.append(old)
            unavailable += 1
        elif old is not None:
            candidates.append(old)
    plan.pods += candidates[: max(allowed - unavailable, 0)]
    return plan


def _surge(situation: Situation, pods: ByNode, wanted: set[str], allowed: int) -> Plan:
    """Start new Pods beside old ones; delete old ones whose successor is available."""
    plan, surging, available = Plan(), 0, 0
    candidates: list[str] = []
    unwanted: list[Object] = []
    for node, on_node in sorted(pods.items()):
        pair = new_and_old(situation, on_node)
        if pair is None:
            surging += 1
            continue
        new, old = pair
        counted = old if old is not None else new
        available += counted is not None and situation.available(counted)
        if old is None:
            continue
        if new is not None:
            if situation.available(new):
                plan.pods.append(old)
            else:
                surging += 1
        elif node not in wanted:
            if situation.available(old):
                unwanted.append(old)
            else:
                plan.pods.append(old)
        elif situation.available(old):
            candidates.append(node)
        else:
            plan.nodes.append(node)
    # A node that is not wanted any more loses its Pod only when another is available in its place.
    plan.pods += unwanted[: max(available - len(wanted), 0)]
    plan.nodes += candidates[: max(allowed - surging, 0)]
    return plan


_ALWAYS_WRITTEN: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
)


def numbers(situation: Situation) -> dict[str, int]:
    """The numbers of the status."""
    eligibility = situation.eligibility
    found = dict.fromkeys((*_ALWAYS_WRITTEN, "updatedNumberScheduled", "numberAvailable"), 0)
    for node in situation.nodes:
        pods = situation.pods.get(node["metadata"]["name"])
        if not eligibility.of(node)[0]:
            found["numberMisscheduled"] += bool(pods)
            continue
        found["desiredNumberScheduled"] += 1
        if not pods:
            continue
        found["currentNumberScheduled"] += 1
        first = oldest_first(pods)[0]
        found["numberReady"] += is_ready(first)
        found["numberAvailable"] += situation.available(first)
        found["updatedNumberScheduled"] += situation.updated(first)
    found["numberUnavailable"] = found["desiredNumberScheduled"] - found["numberAvailable"]
    return found


def tidy(status: Mapping[str, Any]) -> Object:
    """A status in the form in which it is stored."""
    return {name: value for name, value in status.items() if name in _ALWAYS_WRITTEN or value}
