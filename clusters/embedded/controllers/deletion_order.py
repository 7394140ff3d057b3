"""Which Pods of a ReplicaSet go first when there are too many.

Source: kubernetes v1.37.2 `pkg/controller/controller_utils.go`, ActivePodsWithRanks.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.pods import (
    annotations_of,
    created_at,
    is_active,
    is_ready,
    phase_of,
    ready_since,
)

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_MAX_COST: Final = 2**31 - 1


def pods_to_delete(
    active: Sequence[Object], related: Iterable[Object], count: int, now: float, *, costs: bool = True
) -> list[Object]:
    """The `count` Pods of least worth.

    `related` are Pods whose company on a node makes a Pod worth less: those of all ReplicaSets of one Deployment.
    `costs` says whether the annotation of deletion costs counts, `now` is seconds since the epoch.
    """
    if count >= len(active):
        return list(active)
    on_node = Counter(_node(pod) for pod in related if is_active(pod))

    def compare(one: Object, other: Object) -> int:
        return _compare(one, other, on_node, now, costs)

    return sorted(active, key=functools.cmp_to_key(compare))[:count]


def least_worth_first(active: Sequence[Object]) -> list[Object]:
    """The same order for controllers that look neither at company on nodes nor at annotations nor at magnitudes."""

    def compare(one: Object, other: Object) -> int:
        return _compare(one, other, {}, None, costs=False)

    return sorted(active, key=functools.cmp_to_key(compare))


def _compare(one: Object, other: Object, on_node: Mapping[str, int], now: float | None, costs: bool) -> int:
    """Negative when `one` goes first."""
    for worth in (
        lambda pod: bool(_node(pod)),
        lambda pod: _PHASES.get(phase_of(pod), 0),
        is_ready,
        lambda pod: _cost(pod) if costs else 0,
        lambda pod: -on_node.get(_node(pod), 0),
    ):
        if worth(one) != worth(other):
            return -1 if worth(one) < worth(other) else 1
    if is_ready(one) and is_ready(other):
        since, other_since = ready_since(one), ready_since(other)
        if since != other_since:
            return _by_age(one, other, since, other_since, now)
    for restarts in (_restarts(one), _restarts(other)), (_sidecar_restarts(one), _sidecar_restarts(other)):
        if restarts[0] != restarts[1]:
            return -1 if restarts[0] > restarts[1] else 1
    if created_at(one) != created_at(other):
        return _by_age(one, other, created_at(one), created_at(other), now)
    return 0


def _by_age(
    one: Object, other: Object, moment: float | None, other_moment: float | None, now: float | None
) -> int:
    """The younger goes first; with `now` ages are compared by their order of magnitude, then by uid."""
    if moment is None or other_moment is None:
        return -1 if moment is None else 1
    if now is None:
        return -1 if moment > other_moment else 1
    difference = _magnitude(now - moment) - _magnitude(now - other_moment)
    if difference:
        return difference
    return -1 if one["metadata"]["uid"] < other["metadata"]["uid"] else 1


def _magnitude(seconds: float) -> int:
    nanoseconds = seconds * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds >= 1 else -1


def _node(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"].get("nodeName") or "")


def _cost(pod: Mapping[str, Any]) -> int:
    text = annotations_of(pod).get(_COST, "0")
    # Only the usual way of writing a 32-bit integer counts: no plus sign, no leading zeros.
    try:
        value = int(text)
    except ValueError:
        return 0
    return value if str(value) == text and -_MAX_COST - 1 <= value <= _MAX_COST else 0


def _restarts(pod: Mapping[str, Any]) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


def _sidecar_restarts(pod: Mapping[str, Any]) -> int:
    sidecars = {
        container["name"]
        for container in pod["spec"].get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    counts = [int(status.get("restartCount", 0)) for status in statuses if status["name"] in sidecars]
    return max(counts, default=0)
