"""The condition EvictionInProgress of a DeviceTaintRule (components 5.8)."""

from __future__ import annotations

from typing import Final

from clusters.embedded.components.client import Object
from clusters.embedded.controllers.device_taint_eviction.evictions import Evictions

CONDITION: Final = "EvictionInProgress"


def present(rule: Object) -> Object:
    """The condition that a rule has, or an empty dict."""
    conditions = rule.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == CONDITION), {})


def condition(rule: Object, evictions: Evictions, evicted: int) -> Object:
    """The condition that a rule should have, without a time; `evicted` pods went because of it so far."""
    status, reason, message = _judge(rule, evictions, evicted)
    if evicted:
        done = f"{_pods(evicted)} evicted since starting the controller."
        message = f"{message} {done}" if message else done
    return {
        "type": CONDITION,
        "status": status,
        "observedGeneration": rule["metadata"].get("generation", 0),
        "reason": reason,
        "message": message,
    }


def _judge(rule: Object, evictions: Evictions, evicted: int) -> tuple[str, str, str]:
    effect = rule["spec"]["taint"]["effect"]
    if effect == "None":
        published, allocated = evictions.selected(rule)
        pods, namespaces = evictions.if_it_evicted(rule).pending(rule)
        message = (
            f"{_devices(published, 'published')} selected. {_devices(allocated, 'allocated')} selected. "
            f"{_pods(pods)} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. This "
            "information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
        return "False", "NoEffect", message
    if effect != "NoExecute":
        return "False", "OtherEffect", "Eviction only happens for the NoExecute effect."
    pods, namespaces = evictions.pending(rule)
    if pods:
        need = "needs" if pods == 1 else "need"
        return (
            "True",
            "PodsPendingEviction",
            f"{_pods(pods)} {need} to be evicted in {_namespaces(namespaces)}.",
        )
    return "False", "Completed" if evicted else "NotStarted", ""


def _devices(count: int, which: str) -> str:
    return f"1 {which} device" if count == 1 else f"{count} {which} devices"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _namespaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"
