"""The three things that are done to a Pod in its life: run it, stop it, clean up after it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace

from clusters.clock import Clock, parse_stamp
from clusters.containers.model import ContainerState
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.conditions import with_ready_sandbox
from clusters.embedded.kubelet.pods.container_start import NodeFacts, Record
from clusters.embedded.kubelet.pods.container_status import StartProblem
from clusters.embedded.kubelet.pods.container_sync import ContainerSync
from clusters.embedded.kubelet.pods.objects import TERMINAL, Object
from clusters.embedded.kubelet.pods.pod_status import StatusInput, generate_status
from clusters.embedded.kubelet.pods.restarts import Backoff
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime, runtime_of_pod
from clusters.embedded.kubelet.pods.status_manager import StatusManager
from clusters.embedded.kubelet.pods.sync_result import SyncError, SyncResult
from clusters.embedded.kubelet.pods.volumes import PodVolumes, VolumeError

_VOLUME_BACKOFF = 0.5
_MAX_VOLUME_BACKOFF = 122.0
_ORPHAN_GRACE = 1.0
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodSyncer:
    """Looks at Pods one at a time each; errors are SyncError."""

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        record: Record,
        *,
        containers: Callable[[Callable[[Object], None]], ContainerSync],
        volumes: PodVolumes,
        claims: ClaimManager,
        statuses: StatusManager,
        node: NodeFacts,
    ) -> None:
        """`containers` makes the part that handles containers, given what is to be told about new sandboxes."""
        self._runtime, self._clock, self._record = runtime, clock, record
        self._volumes, self._claims, self._statuses, self._node = volumes, claims, statuses, node
        self._containers = containers(self._sandbox_ready)
        self._problems: dict[str, dict[str, StartProblem]] = {}
        self._seen_alive: set[str] = set()
        self._ips: dict[str, tuple[str, ...]] = {}
        self._volume_backoff = Backoff(_MAX_VOLUME_BACKOFF, _VOLUME_BACKOFF)

    def _generate(
        self, pod: Object, state: PodRuntime, *, terminal: bool, ips: tuple[str, ...] | None = None
    ) -> Object:
        uid = objects.uid(pod)
        source = StatusInput(
            pod=pod,
            runtime=state,
            old=self._statuses.get(uid) or objects.status(pod),
            problems=self._problems.get(uid, {}),
            host_ip=self._node.host_ip,
            ips=ips,
            node_allocatable=self._node.node_allocatable,
            report_health=self._claims.report_health,
        )
        status = generate_status(source, terminal=terminal)
        deadline = self.deadline(pod)
        # Also when all containers have ended well, as they may when they are told to.
        if deadline is not None and self._clock.now() >= deadline and objects.phase(pod) not in TERMINAL:
            self._record(pod, "Normal", "DeadlineExceeded", _DEADLINE)
            failed = replace(source, failure=("DeadlineExceeded", _DEADLINE))
            status = generate_status(failed, terminal=terminal)
        return status

    def deadline(self, pod: Object) -> float | None:
        """When the Pod has been active for as long as it may be; None without a limit."""
        seconds = pod["spec"].get("activeDeadlineSeconds")
        started = (self._statuses.get(objects.uid(pod)) or objects.status(pod)).get("startTime")
        if seconds is None or not started:
            return None
        return parse_stamp(started) + float(seconds)

    def _sandbox_ready(self, pod: Object) -> None:
        """A new sandbox is reported before images are pulled; of all else nothing is told anew."""
        known = self._statuses.get(objects.uid(pod)) or objects.status(pod)
        self._statuses.set(pod, with_ready_sandbox(pod, known))

    async def _look(self, uid: str) -> PodRuntime:
        """What the runtime knows of a Pod. One that has ended keeps its addresses, which its sandboxes have not."""
        state = await runtime_of_pod(self._runtime, uid)
        if state.ips:
            self._ips[uid] = state.ips
        elif state.is_terminal and uid in self._ips:
            return replace(state, last_ips=self._ips[uid])
        return state

    async def sync(self, pod: Object) -> bool:
        """Have the Pod run; True when it has come to its end by itself."""
        uid = objects.uid(pod)
        if not objects.deleted(pod):
            self._seen_alive.add(uid)
        state = await self._look(uid)
        status = self._generate(pod, state, terminal=False)
        self._statuses.set(pod, status)
        if status["phase"] in TERMINAL:
            return True
        try:
            await self._volumes.set_up(pod, state.ips)
        except VolumeError as error:
            self._record(pod, "Warning", "FailedMount", str(error))
            now = self._clock.now()
            self._volume_backoff.next(uid, now, now)
            raise SyncError(str(error), now + self._volume_backoff.delay(uid)) from error
        self._volume_backoff.forget(uid)
        result = await self._containers.sync(pod, state)
        self._remember(uid, result)
        result.raise_for_errors()
        return False

    def _end_of_grace(self, pod: Object, grace: float) -> float:
        """When the grace period ends: it begins now, without what the clock was advanced while the news came here.

        Watches are as fast as ever then, so that in the time of the clock the kubelet would have known at once. A
        kubelet that was not running counts from its start, as usual.
        """
        end = self._clock.now() + grace
        deleted = pod["metadata"].get("deletionTimestamp")
        if deleted and objects.uid(pod) in self._seen_alive:
            # The stamp has whole seconds: the time that is left can be up to a second more than it says.
            end = min(end, parse_stamp(deleted) + 1.0)
        return end

    def _remember(self, uid: str, result: SyncResult) -> None:
        problems = self._problems.setdefault(uid, {})
        for name in result.started:
            problems.pop(name, None)
        for name, error in result.failed.items():
            problems[name] = StartProblem(error.reason, error.message)

    async def sync_terminating(self, pod: Object, grace: float) -> None:
        """Stop the Pod: containers, sandboxes, then its claims; afterwards nothing of it runs.

        `grace` is what the containers get, in seconds.
        """
        uid = objects.uid(pod)
        state = await self._look(uid)
        self._statuses.set(pod, self._generate(pod, state, terminal=False))
        errors = await self._containers.kill_pod(pod, state, self._end_of_grace(pod, grace))
        if errors:
            text = ", ".join(errors)
            self._record(pod, "Warning", "FailedKillPod", f"error killing pod: {text}")
            raise SyncError(f"error killing terminating pod: {text}")
        stopped = await self._look(uid)
        running = [found.id for found in stopped.containers if found.state is ContainerState.RUNNING]
        if running:
            raise SyncError(
                f"detected running containers after a successful KillPod, CRI violation: {running}"
            )
        # After the containers and before the status: whoever frees devices by the status must find them unused.
        await self._claims.unprepare(pod)
        self._statuses.set(pod, self._generate(pod, stopped, terminal=True))

    async def sync_terminated(self, pod: Object) -> None:
        """Clean up after a Pod that has stopped; its containers stay until the object is gone."""
        uid = objects.uid(pod)
        state = await self._look(uid)
        known = tuple(entry["ip"] for entry in (self._statuses.get(uid) or {}).get("podIPs") or [])
        self._statuses.set(pod, self._generate(pod, state, terminal=True, ips=known or state.ips))
        await self._volumes.tear_down(uid)
        self._statuses.terminate(pod)

    async def stop_unknown(self, state: PodRuntime) -> None:
        """Stop a Pod that only the runtime knows."""
        errors = await self._containers.kill_pod(None, state, self._clock.now() + _ORPHAN_GRACE)
        if errors:
            raise SyncError(", ".join(errors))

    async def remove(self, uid: str, log: logging.Logger) -> None:
        """Forget a Pod whose object is gone: sandboxes, containers with their logs, files."""
        self._problems.pop(uid, None)
        self._seen_alive.discard(uid)
        self._ips.pop(uid, None)
        self._volume_backoff.forget(uid)
        state = await runtime_of_pod(self._runtime, uid)
        for sandbox in state.sandboxes:
            log.debug("removing sandbox %s of pod %s", sandbox.id, uid)
            await self._runtime.remove_pod_sandbox(sandbox.id)
        with contextlib.suppress(OSError):
            await self._volumes.remove(uid)
