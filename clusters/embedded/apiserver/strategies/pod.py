"""Pods (api-machinery sections 7, 13, 20 and api-validation section 9)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import Write, keep_status, restore
from clusters.embedded.apiserver.strategies.core import CoreStrategy
from clusters.embedded.apiserver.times import timestamp
from dra_api import defaults_pod_level

_KEPT_WHEN_ABSENT: Final = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)


class PodStrategy(CoreStrategy):
    """Pods: generation counted, status apart."""

    manages_generation = True
    status_metadata = ("labels", "annotations", "finalizers")

    def prepare_create(self, new: Object, write: Write) -> None:
        """Pending, with its QoS class; requests and limits of the Pod as a whole are completed."""
        super().prepare_create(new, write)
        spec = new.get("spec") or {}
        defaults_pod_level.fill_in(spec)
        status: dict[str, Any] = {"phase": "Pending", "qosClass": defaults_pod_level.qos_class(spec)}
        if spec.get("schedulingGates"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            gated = condition("PodScheduled", "False", "SchedulingGated", message)
            set_condition(status, gated, timestamp(write.now))
        new["status"] = status

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays; the generation counts spec changes."""
        keep_status(new, old)
        super().prepare_update(new, old, write)

    def prepare_status(self, new: Object, old: Object, write: Write) -> None:
        """Parts of the status that are absent keep their old value; an empty list removes one."""
        super().prepare_status(new, old, write)
        status = new.setdefault("status", {})
        before = old.get("status", {})
        for name in _KEPT_WHEN_ABSENT:
            if name not in status:
                restore(status, before, name)
        if not status.get("qosClass"):
            restore(status, before, "qosClass")
        _keep_observed_generations(status, before)


def _keep_observed_generations(status: Object, before: Object) -> None:
    """Writers that do not know observedGeneration do not take it away."""
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    # Several conditions of one type are allowed: the first of the old ones belongs to the first of the new ones.
    known: dict[str, list[int]] = {}
    for each in before.get("conditions") or []:
        known.setdefault(each.get("type", ""), []).append(each.get("observedGeneration") or 0)
    for each in status.get("conditions") or []:
        generations = known.get(each.get("type", "")) or [0]
        generation = generations.pop(0)
        if generation and not each.get("observedGeneration"):
            each["observedGeneration"] = generation


def condition(kind: str, state: str, reason: str = "", message: str = "") -> Object:
    """A condition of a pod as the server itself writes one; `set_condition` gives it its time."""
    made: Object = {"type": kind, "status": state, "lastProbeTime": None, "lastTransitionTime": None}
    return made | {key: text for key, text in (("reason", reason), ("message", message)) if text}


def set_condition(status: Object, new: Object, now: str) -> None:
    """Put a condition in the place of the one of its type; its time moves only with its status."""
    conditions = status.setdefault("conditions", [])
    for index, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            same = old.get("status") == new["status"]
            conditions[index] = {**new, "lastTransitionTime": old.get("lastTransitionTime") if same else now}
            return
    conditions.append({**new, "lastTransitionTime": now})
