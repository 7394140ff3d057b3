"""Where the work comes from: the Pods of the API server, and changes in the runtime."""

from __future__ import annotations

import asyncio
import logging

from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.components.informer import Informer
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.admission import admit
from clusters.embedded.kubelet.pods.conditions import readiness_outdated
from clusters.embedded.kubelet.pods.container_start import Record
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.qos import qos_class
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime, runtime_of_pods
from clusters.embedded.kubelet.pods.status_manager import StatusManager
from clusters.embedded.kubelet.pods.sync_result import SyncError
from clusters.embedded.kubelet.pods.syncer import PodSyncer
from clusters.embedded.kubelet.pods.workers import PodWorkers


class PodSource:
    """Hands Pods to the workers, and forgets those whose objects are gone."""

    def __init__(
        self,
        pods: Informer,
        nodes: Informer,
        runtime: Runtime,
        workers: PodWorkers,
        syncer: PodSyncer,
        statuses: StatusManager,
        claims: ClaimManager,
        record: Record,
        group: asyncio.TaskGroup,
        log: logging.Logger,
        *,
        node_allocatable: bool,
    ) -> None:
        """`pods` and `nodes` hold what concerns this node only; background work is tasks of `group`."""
        self._informer, self._nodes, self._runtime = pods, nodes, runtime
        self._workers, self._syncer, self._statuses = workers, syncer, statuses
        self._claims, self._record, self._group, self._log = claims, record, group, log
        self._node_allocatable = node_allocatable
        self._objects: dict[str, Object] = {}
        self._sandbox_pods: dict[str, str] = {}
        self._at_start: dict[str, PodRuntime] = {}
        self._rejected: set[str] = set()

    # Questions

    def pod(self, uid: str) -> Object | None:
        """The object of a Pod."""
        return self._objects.get(uid)

    def find(self, namespace: str, name: str) -> Object | None:
        """The object of a Pod by name."""
        return self._informer.get(namespace, name)

    def pods(self) -> list[Object]:
        """All objects, oldest first."""
        return sorted(
            self._objects.values(),
            key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", objects.name(pod)),
        )

    def active(self) -> list[Object]:
        """Pods that use the node: neither stopped nor ended before they were."""
        return [pod for uid, pod in self._objects.items() if self._is_active(uid, pod)]

    def active_uids(self) -> set[str]:
        """UIDs of the active Pods."""
        return {objects.uid(pod) for pod in self.active()}

    def _is_active(self, uid: str, pod: Object) -> bool:
        if self._workers.terminated(uid):
            return False
        status = self._statuses.get(uid) or {}
        ended = objects.is_terminal(pod) or status.get("phase") in objects.TERMINAL
        return not ended or self._workers.terminating(uid)

    def could_run(self, uid: str) -> bool:
        """Whether containers of the Pod may run."""
        return self._workers.could_run(uid)

    # Changes

    async def start(self) -> None:
        """Begin: look at what runs already, then follow the API server and the runtime in tasks of the group."""
        changes = self._runtime.changes()
        self._at_start = dict(await runtime_of_pods(self._runtime))
        self._note_sandboxes(self._at_start)
        self._group.create_task(self._informer.run(), name="pods")
        await self._informer.wait_synced()
        # In the order of creation, so that of too many the oldest are admitted.
        for pod in sorted(
            self._informer.items(), key=lambda pod: pod["metadata"].get("creationTimestamp") or ""
        ):
            self._added(pod)
        self._informer.add_handler(self._changed)
        for uid, state in self._at_start.items():
            if uid not in self._objects:
                self._group.create_task(self._stop_unknown(uid, state))
        self._at_start.clear()
        self._group.create_task(self._follow_runtime(changes), name="runtime changes")

    def _note_sandboxes(self, states: dict[str, PodRuntime]) -> None:
        for uid, state in states.items():
            for sandbox in state.sandboxes:
                self._sandbox_pods[sandbox.id] = uid

    async def _follow_runtime(self, changes: object) -> None:
        async for sandbox_id in changes:  # type: ignore[attr-defined]
            if sandbox_id not in self._sandbox_pods:
                self._sandbox_pods.clear()
                self._note_sandboxes(dict(await runtime_of_pods(self._runtime)))
            uid = self._sandbox_pods.get(sandbox_id)
            if uid is not None:
                self._workers.poke(uid)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._removed(old)
        elif objects.uid(new) not in self._objects:
            self._added(new)
        else:
            self._updated(self._objects[objects.uid(new)], new)

    def _added(self, pod: Object) -> None:
        uid = objects.uid(pod)
        others = [item for item in self.active() if objects.uid(item) != uid]
        self._objects[uid] = pod
        if not objects.is_terminal(pod) and not objects.deleted(pod) and not self._workers.terminating(uid):
            node = self._nodes.items()
            rejection = admit(pod, others, node[0], node_allocatable=self._node_allocatable) if node else None
            if rejection is not None:
                self._reject(pod, rejection.reason, rejection.message)
                return
        state = self._at_start.get(uid)
        self._workers.update(pod, stopped=state is None or state.is_terminal)

    def _reject(self, pod: Object, reason: str, message: str) -> None:
        self._rejected.add(objects.uid(pod))
        self._record(pod, "Warning", reason, message)
        self._statuses.set(
            pod,
            {
                "phase": "Failed",
                "reason": reason,
                "message": f"Pod was rejected: {message}",
                "qosClass": objects.status(pod).get("qosClass") or qos_class(pod),
            },
        )

    def _updated(self, old: Object, new: Object) -> None:
        uid = objects.uid(new)
        self._objects[uid] = new
        self._workers.refresh(new)
        if uid in self._rejected:
            # It never ran here: only its object has to go when it is deleted.
            if objects.deleted(new):
                self._workers.update(new, stopped=True, kill=True)
            return
        if objects.differ(old, new):
            self._workers.update(new, stopped=True)
        elif readiness_outdated(new):
            self._workers.poke(uid)

    def _removed(self, pod: Object) -> None:
        uid = objects.uid(pod)
        self._objects.pop(uid, None)
        if self._workers.is_finished(uid):
            self.finished(uid)
        else:
            self._workers.update(pod, kill=True)

    def finished(self, uid: str) -> None:
        """The life of a Pod is over; if its object is gone too, nothing is kept of it."""
        if uid in self._objects:
            return
        self._workers.remove(uid)
        self._statuses.forget(uid)
        self._rejected.discard(uid)
        self._group.create_task(self._syncer.remove(uid, self._log))

    async def _stop_unknown(self, uid: str, state: PodRuntime) -> None:
        """A Pod whose object went while no kubelet was here."""
        try:
            await self._syncer.stop_unknown(state)
        except SyncError as error:
            self._log.warning('Failed to stop orphaned pod podUID="%s" err="%s"', uid, error)
            return
        if uid not in self._objects:
            await self._syncer.remove(uid, self._log)
