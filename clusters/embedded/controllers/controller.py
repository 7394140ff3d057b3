"""What the workload controllers have in common: informers, a queue of keys, workers, events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue
from clusters.embedded.controllers.run import run_controller

Key = tuple[str, str]
"""Namespace and name."""

# Defaults of the gates that these controllers look at, Kubernetes 1.37 (pkg/features/kube_features.go).
_GATES: Final = {
    "DeploymentReplicaSetTerminatingReplicas": True,
    "MaxUnavailableStatefulSet": True,
    "PodDeletionCost": True,
}
_WORKERS: Final = 5
_STALE_SECONDS: Final = 0.01


class SyncError(ClientError):
    """A sync that could not be finished; it is tried again like one whose request was refused."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "", message)


class Controller:
    """One life of a controller. Subclasses name what they watch in `set_up` and handle one key in `sync`.

    The attributes exist from the start of `run` on.
    """

    name: str
    """As in the names of events' sources, `<name>` of kube-controller-manager."""
    client: ApiClient
    clock: Clock
    log: logging.Logger
    recorder: EventRecorder
    queue: WorkQueue[Key]
    retry_delays = (0.005, 1000.0)
    """Seconds of the first and of the longest delay of a key that fails."""

    def set_up(self) -> Sequence[Informer]:
        """Make informers with their indexes and handlers."""
        raise NotImplementedError

    async def sync(self, key: Key) -> None:
        """Bring one object to its wanted state. An exception makes it come again later."""
        raise NotImplementedError

    async def beside(self) -> None:
        """What runs beside the workers, from the start on."""

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        self.client, self.clock, self.log = context.client, context.clock, context.log
        self._gates = context.gates
        self.recorder = EventRecorder(context.client, self.name, context.clock)
        first, longest = self.retry_delays
        self.queue = WorkQueue(context.clock, base_delay=first, max_delay=longest)
        informers = self.set_up()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.beside())
            await run_controller(
                self.log, informers, self.queue, self.sync, workers=_WORKERS, recorder=self.recorder
            )

    def again_soon(self, key: Key) -> None:
        """Come back to a key whose objects in the caches are older than what was written for it."""
        self.queue.add_after(key, _STALE_SECONDS)

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on."""
        return bool(self._gates.get(name, _GATES[name]))


class Written:
    """What a controller wrote, so that it does not act on caches that are older than its own writes."""

    def __init__(self, informers: Mapping[str, Informer]) -> None:
        """`informers` by resource."""
        self._informers = informers
        self._versions: dict[Key, dict[str, int]] = {}

    def note(self, key: Key, resource: str, obj: Mapping[str, Any]) -> None:
        """An object of the resource was written on behalf of `key`."""
        version = int(obj["metadata"].get("resourceVersion") or 0)
        known = self._versions.setdefault(key, {})
        known[resource] = max(known.get(resource, 0), version)

    def seen(self, key: Key) -> bool:
        """Whether the caches contain all that was written for `key`."""
        for resource, version in self._versions.get(key, {}).items():
            if int(self._informers[resource].resource_version or 0) < version:
                return False
        return True

    def forget(self, key: Key) -> None:
        """The owner is gone."""
        self._versions.pop(key, None)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Namespace and name of an object."""
    metadata = obj["metadata"]
    return str(metadata.get("namespace", "")), str(metadata["name"])


def changed_key(old: Object | None, new: Object | None) -> Key:
    """The key of what an informer's handler is told of."""
    seen = new if new is not None else old
    if seen is None:
        raise ValueError("a change has an object before or after it")
    return key_of(seen)


def without_zeros(status: Object, keep: Sequence[str] = ()) -> Object:
    """A status without zero numbers and empty values, which Go omits; fields of `keep` are written anyway."""
    return {name: value for name, value in status.items() if name in keep or value not in (None, 0, "", [])}
