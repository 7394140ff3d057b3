"""How fast nodes of a zone may lose their pods: slowly, and not at all when everything seems broken."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from clusters.embedded.components.client import Object

_RATE: Final = 0.1
_REDUCED_RATE: Final = 0.01
_LARGE_ZONE: Final = 50
_UNHEALTHY_SHARE: Final = 0.55
_NEVER: Final = 0.0


class ZoneState(enum.Enum):
    """What share of a zone's nodes is ready."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


def zone_of(node: Object) -> str:
    """The zone of a node; empty when it has no labels of region and zone."""
    labels = node["metadata"].get("labels") or {}
    zone, region = (
        labels.get(
            f"failure-domain.beta.kubernetes.io/{part}", labels.get(f"topology.kubernetes.io/{part}", "")
        )
        for part in ("zone", "region")
    )
    return f"{region}:\x00:{zone}" if region or zone else ""


def zone_state(ready: Iterable[bool]) -> ZoneState:
    """The state of a zone from the readiness of its nodes."""
    answers = list(ready)
    broken = answers.count(False)
    if broken and broken == len(answers):
        return ZoneState.FULL_DISRUPTION
    if broken > 2 and broken / len(answers) >= _UNHEALTHY_SHARE:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


def rate(state: ZoneState, size: int) -> float:
    """Nodes a second that may be tainted in a zone of this state and number of nodes."""
    if state is ZoneState.PARTIAL_DISRUPTION:
        return _REDUCED_RATE if size > _LARGE_ZONE else _NEVER
    return _RATE


class TaintQueue:
    """Nodes of a zone that wait for their NoExecute taint; one token, filled at the rate of the zone."""

    def __init__(self, now: float) -> None:
        """`now` and all further times are seconds."""
        self._waiting: dict[str, None] = {}
        self._known: set[str] = set()
        self._rate = _RATE
        self._tokens = 1.0
        self._filled = now

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, node: str) -> bool:
        """Let a node wait; without effect, and False, for one that was added before and not removed."""
        if node in self._known:
            return False
        self._known.add(node)
        self._waiting[node] = None
        return True

    def remove(self, node: str) -> bool:
        """Forget a node, so that it may be added again."""
        self._waiting.pop(node, None)
        if node not in self._known:
            return False
        self._known.remove(node)
        return True

    def head(self, now: float) -> str | None:
        """The next node, for the price of a token."""
        if not self._waiting or not self._accept(now):
            return None
        return next(iter(self._waiting))

    def done(self, node: str, *, success: bool) -> None:
        """A node got its taint, or has to be tried again after the others."""
        if self._waiting.pop(node, self) is None and not success:
            self._waiting[node] = None

    def set_rate(self, new: float, now: float) -> None:
        """Change the rate; a new bucket is full only if the old one had a token."""
        if new == self._rate:
            return
        had = self._accept(now)
        self._rate = new
        self._tokens, self._filled = (1.0 if had else 0.0), now

    def _accept(self, now: float) -> bool:
        if self._rate <= 0:
            return False
        self._tokens = min(1.0, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
