"""Writes to the status of pods that are to be deleted."""

from __future__ import annotations

from typing import Any

from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object


async def disrupt(
    client: ApiClient,
    clock: Clock,
    pod: Object,
    condition: tuple[str, str] | None,
    phase: str = "",
    *,
    observed: bool = True,
) -> None:
    """Give a pod the condition DisruptionTarget with a reason and a message, and a phase unless that is empty.

    `observed`: the condition says which generation of the pod it is about.

    Without effect when the pod has all that. Raises ClientError; a pod that was replaced under its name is a failure.
    """
    status: dict[str, Any] = {}
    generation = pod["metadata"].get("generation", 0)
    if phase:
        status = {"phase": phase, "observedGeneration": generation}
    if condition is not None:
        reason, message = condition
        new = {
            "type": "DisruptionTarget",
            **({"observedGeneration": generation} if observed else {}),
            "status": "True",
            "reason": reason,
            "message": message,
        }
        present: Object = next(
            (
                one
                for one in pod.get("status", {}).get("conditions") or []
                if one["type"] == "DisruptionTarget"
            ),
            {},
        )
        if any(present.get(key) != value for key, value in new.items()):
            since = present.get("lastTransitionTime") if present.get("status") == "True" else None
            status["conditions"] = [{**new, "lastTransitionTime": since or clock.timestamp()}]
    if status:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await client.patch("v1", "pods", metadata["name"], body, metadata["namespace"], "status")
