"""One sync of a StatefulSet: which Pods are made, replaced and removed, and in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from clusters.embedded.components.client import Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.controllers.controller import SyncError
from clusters.embedded.controllers.numbers import scaled
from clusters.embedded.controllers.pod_control import slow_start
from clusters.embedded.controllers.pods import is_available, is_deleted, is_terminal, phase_of
from clusters.embedded.controllers.statefulset import identity, status
from clusters.embedded.controllers.statefulset.identity import revision_of
from clusters.embedded.controllers.statefulset.pod_control import StatefulPodControl

_RECREATE_GATE: Final = "StatefulSetRecreateStrategy"


class StatefulSetSync:
    """One sync; to be used once."""

    def __init__(
        self,
        found: Object,
        pods: Sequence[Object],
        current: Object,
        update: Object,
        collisions: int,
        control: StatefulPodControl,
        recorder: EventRecorder,
        now: float,
        *,
        several_unavailable: bool,
    ) -> None:
        """`several_unavailable` says whether an update's maxUnavailable counts; else one Pod is updated at a time."""
        self._found, self._current, self._update = found, current, update
        self._control, self._recorder, self._now = control, recorder, now
        self._several = several_unavailable
        self._ordered = found["spec"].get("podManagementPolicy") != "Parallel"
        wanted = identity.ordinals(found)
        there = {identity.ordinal_of(pod): pod for pod in pods}
        self._replicas = [
            there.get(ordinal) or identity.new_pod(found, ordinal, current, update) for ordinal in wanted
        ]
        condemned = [ordinal for ordinal in there if ordinal >= 0 and ordinal not in wanted]
        self._condemned = [there[ordinal] for ordinal in sorted(condemned, reverse=True)]
        self.status: Object = {
            "observedGeneration": found["metadata"].get("generation", 0),
            "currentRevision": current["metadata"]["name"],
            "updateRevision": update["metadata"]["name"],
            "collisionCount": collisions,
            "conditions": list((found.get("status") or {}).get("conditions") or []),
        }
        self._count(pods)

    def _count(self, pods: Sequence[Object]) -> None:
        current, update = self.status["currentRevision"], self.status["updateRevision"]
        self.status.update(status.numbers(self._found, pods, current, update, self._now))

    def _is_available(self, pod: Mapping[str, Any]) -> bool:
        return is_available(pod, int(self._found["spec"].get("minReadySeconds", 0)), self._now)

    def _is_unavailable(self, pod: Mapping[str, Any]) -> bool:
        return not self._is_available(pod) or is_deleted(pod)

    def _is_old(self, pod: Mapping[str, Any]) -> bool:
        return revision_of(pod) != str(self._update["metadata"]["name"])

    def check_strategy(self) -> None:
        """Refuse the strategy Recreate, whose feature gate is off. Raises SyncError after an event."""
        metadata = self._found["metadata"]
        if self._found["spec"]["updateStrategy"]["type"] != "Recreate":
            return
        text = (
            f"statefulset {metadata['namespace']}/{metadata['name']} uses Recreate strategy but "
            f"feature gate {_RECREATE_GATE} is disabled"
        )
        self._recorder.event(self._found, "Warning", "UnknownStrategy", text)
        raise SyncError(text)

    async def run(self) -> None:
        """Do what can be done now; `status` is then what to report, also after a ClientError."""
        if is_deleted(self._found):
            return
        try:
            done = await self._for_all(self._replicas, self._tend)
            if done:
                done = await self._for_all(self._condemned, self._condemn)
        finally:
            self._count([*self._replicas, *self._condemned])
        if not done or self._found["spec"]["updateStrategy"]["type"] == "OnDelete":
            return
        if self._several:
            await self._roll()
        else:
            await self._roll_one()

    async def _for_all(self, pods: Sequence[Object], act: Callable[[Object], Awaitable[bool]]) -> bool:
        """Act on one Pod after the other until one says that it has to be waited for, or on all at once."""
        if self._ordered:
            for pod in pods:
                if not await act(pod):
                    return False
            return True

        async def at(position: int) -> None:
            await act(pods[position])

        _, error = await slow_start(len(pods), at)
        if error is not None:
            raise error
        return True

    async def _tend(self, pod: Object) -> bool:
        """Make a wanted Pod, replace an ended one; returns whether its successors may be looked at."""
        if is_terminal(pod):
            if not is_deleted(pod):
                await self._control.delete(pod)
            return False
        if not status.exists(pod):
            await self._control.create(pod)
            return False
        if phase_of(pod) == "Pending":
            await self._control.create_claims(pod)
        if self._ordered and (
            is_deleted(pod) or not status.is_running_and_ready(pod) or not self._is_available(pod)
        ):
            return False
        if not (identity.has_identity(self._found, pod) and identity.has_storage(self._found, pod)):
            await self._control.update(pod)
        return True

    async def _condemn(self, pod: Object) -> bool:
        """Delete a Pod beyond the wanted ones, highest ordinal first."""
        if is_deleted(pod):
            return False
        healthy = status.is_running_and_ready(pod) and self._is_available(pod)
        if self._ordered and not healthy and pod is not self._first_unavailable():
            return False
        await self._control.delete(pod)
        return False

    def _first_unavailable(self) -> Object | None:
        for pod in [*self._replicas, *reversed(self._condemned)]:
            if self._is_unavailable(pod):
                return pod
        return None

    async def _delete_old(self, pod: Object) -> None:
        await self._control.delete(pod)
        self.status["currentReplicas"] -= 1

    @property
    def _rolling(self) -> Mapping[str, Any]:
        rolling: Mapping[str, Any] = self._found["spec"]["updateStrategy"].get("rollingUpdate") or {}
        return rolling

    def _targets(self) -> list[Object]:
        """The Pods from the partition on, highest ordinal first."""
        return self._replicas[int(self._rolling.get("partition") or 0) :][::-1]

    async def _roll_one(self) -> None:
        for pod in self._targets():
            if self._is_old(pod) and not is_deleted(pod):
                await self._delete_old(pod)
                return
            if self._is_unavailable(pod):
                return

    async def _roll(self) -> None:
        """Delete old Pods as long as few enough are unavailable."""
        value = self._rolling.get("maxUnavailable")
        limit = max(scaled(1 if value is None else value, len(self._replicas), up=False), 1)
        unavailable = [pod for pod in self._replicas if self._is_unavailable(pod)]
        budget = limit - len(unavailable)
        targets = [pod for pod in self._targets() if self._is_old(pod)]
        if self._ordered:
            for pod in [pod for pod in targets if not is_deleted(pod)][: max(budget, 0)]:
                await self._delete_old(pod)
            return
        # Old Pods that are unavailable anyway cost nothing.
        for pod in targets:
            if not self._is_available(pod) and not is_deleted(pod):
                await self._delete_old(pod)
        for pod in [pod for pod in targets if not self._is_unavailable(pod)][: max(budget, 0)]:
            await self._delete_old(pod)
