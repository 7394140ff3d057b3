"""Taints that tell the condition of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.workqueue import SyncError

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"
# Condition type and status of a node, and the key of the taint that they stand for.
_KEYS: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OWN_KEYS: Final = frozenset({*_KEYS.values(), UNSCHEDULABLE})
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.1
Taint = tuple[str, str]
"""Key and effect."""


def taints_of(node: Object) -> list[Object]:
    """The taints of a node."""
    return node.get("spec", {}).get("taints") or []


def has(node: Object, taint: Taint) -> bool:
    """Whether a node has a taint with this key and effect."""
    return any((one["key"], one["effect"]) == taint for one in taints_of(node))


def no_schedule_changes(node: Object) -> tuple[list[Taint], list[Taint]]:
    """The NoSchedule taints that a node lacks by its conditions and cordon, and those without a reason."""
    wanted = {
        _KEYS[condition["type"], condition["status"]]: None
        for condition in node.get("status", {}).get("conditions") or []
        if (condition["type"], condition["status"]) in _KEYS
    }
    if node.get("spec", {}).get("unschedulable"):
        wanted[UNSCHEDULABLE] = None
    present = [
        one["key"] for one in taints_of(node) if one["effect"] == NO_SCHEDULE and one["key"] in _OWN_KEYS
    ]
    missing = [(key, NO_SCHEDULE) for key in wanted if key not in present]
    return missing, [(key, NO_SCHEDULE) for key in present if key not in wanted]


async def swap(
    client: ApiClient, clock: Clock, node: Object, add: Sequence[Taint], remove: Sequence[Taint]
) -> None:
    """Add taints, then remove others, in two writes as upstream. Raises ClientError and SyncError."""
    name = node["metadata"]["name"]
    await _write(client, clock, name, add, ())
    if any(has(node, taint) for taint in remove):
        await _write(client, clock, name, (), remove)


async def remove_taints(client: ApiClient, clock: Clock, node: Object, taints: Iterable[Taint]) -> None:
    """Remove taints from a node that may have them."""
    for taint in taints:
        if has(node, taint):
            await _write(client, clock, node["metadata"]["name"], (), (taint,))


async def _write(
    client: ApiClient, clock: Clock, name: str, add: Sequence[Taint], remove: Sequence[Taint]
) -> None:
    for _ in range(_ATTEMPTS):
        node = await client.get("v1", "nodes", name)
        before = taints_of(node)
        after = [one for one in before if (one["key"], one["effect"]) not in remove]
        for key, effect in add:
            after = [one for one in after if (one["key"], one["effect"]) != (key, effect)]
            after.append({"key": key, "effect": effect, "timeAdded": clock.timestamp()})
        if after == before:
            return
        # The list of taints has no merge key: the version keeps others' changes from being lost.
        body: dict[str, Any] = {
            "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
            "spec": {"taints": after or None},
        }
        try:
            await client.patch("v1", "nodes", name, body)
            return
        except ClientError as error:
            if error.code != 409:
                raise
        await asyncio.sleep(_PAUSE)
    raise SyncError(f"the taints of node {name} change too often")
