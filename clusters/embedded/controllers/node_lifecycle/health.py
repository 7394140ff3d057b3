"""What is known of the life of one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object

# Seconds without a sign of life until a node that had reported, or never did, counts as lost.
GRACE_SECONDS: Final = 50.0
STARTUP_SECONDS: Final = 60.0
# NetworkUnavailable belongs to others.
_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass
class Health:
    """The last signs of life: `probe` is when one was seen, in seconds of the controller's own clock."""

    probe: float
    ready: Object | None
    lease: Object | None = None


def condition(node: Object, kind: str) -> Object | None:
    """A condition of a node."""
    for one in node.get("status", {}).get("conditions") or []:
        if one["type"] == kind:
            found: Object = one
            return found
    return None


def observe(node: Object, health: Health | None, lease: Object | None, now: float) -> tuple[Health, float]:
    """Take in what node and lease say; returns the health and the grace period, in seconds."""
    ready = condition(node, "Ready")
    saved_lease = health.lease if health is not None else None
    if ready is None:
        grace = STARTUP_SECONDS
        if health is None:
            health = Health(parse_stamp(node["metadata"]["creationTimestamp"]), None)
        else:
            health.ready = None
    else:
        grace = GRACE_SECONDS
        heartbeat = ready.get("lastHeartbeatTime")
        if health is None or health.ready is None or health.ready.get("lastHeartbeatTime") != heartbeat:
            health = Health(now, ready)
    if lease is not None and (saved_lease is None or _renewed(saved_lease) < _renewed(lease)):
        health.lease = lease
        health.probe = now
    return health, grace


def _renewed(lease: Object) -> float:
    time = lease.get("spec", {}).get("renewTime")
    return parse_stamp(time) if time else 0.0


def lost(node: Object, now: str) -> Object:
    """The node with its conditions Unknown from `now` on."""
    conditions = [dict(one) for one in node.get("status", {}).get("conditions") or []]
    known = {one["type"]: one for one in conditions}
    for kind in _CONDITIONS:
        present = known.get(kind)
        if present is None:
            conditions.append(
                {
                    "type": kind,
                    "status": "Unknown",
                    "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
                    "lastTransitionTime": now,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }
            )
        elif present["status"] != "Unknown":
            present.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=now,
            )
    return {**node, "status": {**node.get("status", {}), "conditions": conditions}}
