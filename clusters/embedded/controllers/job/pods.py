"""Making and removing the Pods of one Job."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.controllers.controller import key_of
from clusters.embedded.controllers.deletion_order import least_worth_first
from clusters.embedded.controllers.job import failures, indexes
from clusters.embedded.controllers.job.memory import Memory
from clusters.embedded.controllers.job.model import TRACKING, has_tracking
from clusters.embedded.controllers.pod_control import PodControl, pod_from_template, slow_start, together
from clusters.embedded.controllers.pods import is_ready, namespace_terminating

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


class JobPods:
    """The Pods of one Job; every call reports what really happened, also when some requests failed."""

    def __init__(
        self,
        client: ApiClient,
        control: PodControl,
        memory: Memory,
        job: Object,
        written: Callable[[Object], None],
    ) -> None:
        """`written` is told of every Pod that was written."""
        self._client, self._control, self._memory = client, control, memory
        self._job, self._key, self._written = job, key_of(job), written

    async def create(
        self, count: int, chosen: Sequence[int], replaced: Mapping[int, Object]
    ) -> tuple[int, ClientError | None]:
        """Make `count` Pods, for the `chosen` indexes when there are any; returns how many were made.

        `replaced` are the failed Pods whose counts of failures their successors inherit, by index.
        """
        self._memory.expectations.expect(self._key, creations=count)

        async def create(position: int) -> None:
            pod = new_pod(self._job, chosen[position] if chosen else None, replaced)
            try:
                self._written(await self._control.create(pod, self._job))
            except ClientError as error:
                if not namespace_terminating(error):
                    raise

        made, error = await slow_start(count, create)
        self._memory.expectations.created(self._key, count - made)
        return made, error

    async def delete(self, pods: Sequence[Object]) -> tuple[int, int, ClientError | None]:
        """Delete Pods that need not be counted; returns how many were deleted, how many of them were ready."""
        self._memory.expectations.expect(self._key, deletions=[key_of(pod) for pod in pods])
        return await self._delete(pods, untrack=True)

    async def delete_active(self, pods: Sequence[Object]) -> tuple[int, int, ClientError | None]:
        """Delete the Pods of a finished Job; their finalizers stay until they are counted."""
        return await self._delete(pods, untrack=False)

    async def _delete(self, pods: Sequence[Object], *, untrack: bool) -> tuple[int, int, ClientError | None]:
        failed = 0

        async def delete(pod: Object) -> None:
            nonlocal failed
            try:
                if untrack and has_tracking(pod):
                    await self._untrack(pod)
                await self._control.delete(pod, self._job)
            except ClientError as error:
                if untrack:
                    self._memory.expectations.deleted(self._key, key_of(pod))
                if error.code != 404:
                    failed += 1
                    raise

        error = await together(delete, pods)
        return len(pods) - failed, sum(map(is_ready, pods)), error

    async def untrack(self, pods: Sequence[Object]) -> tuple[set[str], ClientError | None]:
        """Remove the finalizers of counted Pods; returns the uids of those that have none any more."""
        done: set[str] = set()
        for pod in pods:
            self._memory.expect_removal(self._key, pod["metadata"]["uid"])

        async def untrack(pod: Object) -> None:
            uid = pod["metadata"]["uid"]
            try:
                await self._untrack(pod)
            except ClientError as error:
                self._memory.removal_seen(self._key, uid)
                if error.code != 404:
                    raise
            done.add(uid)

        error = await together(untrack, pods)
        return done, error

    async def _untrack(self, pod: Object) -> None:
        metadata = pod["metadata"]
        patch = untracking_patch()
        self._written(await self._client.patch("v1", "pods", metadata["name"], patch, metadata["namespace"]))


def untracking_patch() -> Object:
    """A strategic merge patch that removes the tracking finalizer."""
    return {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}


def new_pod(job: Mapping[str, Any], index: int | None, replaced: Mapping[int, Object]) -> Object:
    """A Pod of the Job's template, for an index when there is one."""
    pod = pod_from_template(job["spec"]["template"], job)
    metadata, spec = pod["metadata"], pod["spec"]
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if TRACKING in finalizers else [*finalizers, TRACKING]
    if indexes.is_indexed(job):
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            _add_variable(container)
    if index is None:
        return pod
    name = job["metadata"]["name"]
    annotations = {**(metadata.get("annotations") or {}), indexes.INDEX: str(index)}
    if job["spec"].get("backoffLimitPerIndex") is not None:
        annotations.update(failures.failure_annotations(job, replaced.get(index)))
    metadata["annotations"] = annotations
    metadata["labels"] = {**(metadata.get("labels") or {}), indexes.INDEX: str(index)}
    metadata["generateName"] = indexes.generate_name(name, index)
    spec["hostname"] = f"{name}-{index}"
    return pod


def _add_variable(container: Object) -> None:
    known = container.get("env") or []
    if any(one["name"] == _INDEX_VARIABLE for one in known):
        return
    path = {"fieldPath": f"metadata.labels['{indexes.INDEX}']"}
    container["env"] = [
        *copy.deepcopy(known),
        {"name": _INDEX_VARIABLE, "valueFrom": {"fieldRef": path}},
    ]


def surplus(job: Mapping[str, Any], active: Sequence[Object], at_least: int) -> list[Object]:
    """Pods to be removed: those without valid index, all but one of each index, and more up to `at_least`."""
    removed: list[Object] = []
    left = list(active)
    if indexes.is_indexed(job):
        removed, left = _doubled(job, active)
    missing = at_least - len(removed)
    return removed + (least_worth_first(left)[:missing] if missing > 0 else [])


def _doubled(job: Mapping[str, Any], active: Iterable[Object]) -> tuple[list[Object], list[Object]]:
    removed: list[Object] = []
    by_index: dict[int, list[Object]] = {}
    for pod in active:
        index = indexes.valid_index(pod, job)
        if index is None:
            removed.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    left: list[Object] = []
    for _, pods in sorted(by_index.items()):
        *worse, best = least_worth_first(pods)
        removed += worse
        left.append(best)
    return removed, left
