"""Pods on a node that is not ready."""

from __future__ import annotations

from collections.abc import Iterable

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.workqueue import SyncError


async def mark_not_ready(
    client: ApiClient, clock: Clock, events: EventRecorder, pods: Iterable[Object]
) -> None:
    """Set the condition Ready of pods to False. Raises SyncError when some could not be written."""
    failures = []
    for pod in pods:
        conditions = [dict(one) for one in pod.get("status", {}).get("conditions") or []]
        ready = next((one for one in conditions if one["type"] == "Ready"), None)
        if ready is None or ready["status"] == "False":
            continue
        ready.update(status="False", lastTransitionTime=clock.timestamp())
        body = {**pod, "status": {**pod["status"], "conditions": conditions}}
        try:
            await client.update("v1", "pods", body, "status")
        except ClientError as error:
            if error.code == 404:
                continue
            failures.append(str(error))
        events.event(pod, "Warning", "NodeNotReady", "Node is not ready")
    if failures:
        raise SyncError("; ".join(failures))
