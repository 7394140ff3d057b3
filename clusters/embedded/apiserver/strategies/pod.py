"""Pods (api-machinery sections 7, 13, 20 and api-validation section 9)."""

from __future__ import annotations

from typing import Any, Final

from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import Write, keep_status, restore
from clusters.embedded.apiserver.strategies.core import CoreStrategy
from dra_api import defaults_core

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
        """Pending, with its QoS class."""
        super().prepare_create(new, write)
        spec = new.get("spec") or {}
        status: dict[str, Any] = {"phase": "Pending", "qosClass": defaults_core.qos_class(spec)}
        if spec.get("schedulingGates"):
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
            status["conditions"] = [condition]
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
