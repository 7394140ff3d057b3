"""The ReplicaSet controller: so many Pods of a template, no more and no less.

Source of orders, reasons and texts: kubernetes v1.37.2 `pkg/controller/replicaset`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import (
    Controller,
    Key,
    Written,
    changed_key,
    key_of,
    without_zeros,
)
from clusters.embedded.controllers.deletion_order import pods_to_delete
from clusters.embedded.controllers.expectations import Expectations
from clusters.embedded.controllers.pod_control import PodControl, pod_from_template, slow_start, together
from clusters.embedded.controllers.pods import (
    cached_controller,
    controlled_by,
    controller_of,
    index_by_controller,
    is_active,
    is_available,
    is_deleted,
    is_ready,
    is_terminating,
    labels_of,
    namespace_terminating,
    next_availability,
    owned,
    owned_or_orphaned,
)
from dra_api.label_selector import LabelSelectorError, matcher, matches

APPS: Final = "apps/v1"
_KIND: Final = "ReplicaSet"
_BURST: Final = 500
_FAILURE: Final = "ReplicaFailure"
_ALWAYS_WRITTEN: Final = ("replicas", "terminatingReplicas")


class ReplicaSetController(Controller):
    """Creates and deletes the Pods of ReplicaSets and keeps their status."""

    name = "replicaset-controller"

    def set_up(self) -> Sequence[Informer]:
        """Watch ReplicaSets and Pods."""
        self._sets = Informer(self.client, APPS, "replicasets")
        self._pods = Informer(self.client, "v1", "pods")
        index_by_controller(self._sets)
        index_by_controller(self._pods)
        self._control = PodControl(self.client, self.recorder)
        self._expectations = Expectations(self.clock)
        self._written = Written({"pods": self._pods, "replicasets": self._sets})
        self._sets.add_handler(self._on_set)
        self._pods.add_handler(self._on_pod)
        return self._sets, self._pods

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        key = changed_key(old, new)
        if new is None:
            self._expectations.forget(key)
            self._written.forget(key)
        self.queue.add(key)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None or is_deleted(new):
            for pod in (new, old):
                owner = self._owner_key(pod)
                if owner is not None and pod is not None:
                    self._expectations.deleted(owner, key_of(pod))
                    self.queue.add(owner)
            return
        owner = self._owner_key(new)
        if old is None and owner is not None:
            self._expectations.created(owner)
        before = self._owner_key(old)
        for key in (owner, before):
            if key is not None:
                self.queue.add(key)
        if owner is not None:
            self._await_availability(owner, old, new)
        elif old is None or labels_of(old) != labels_of(new) or before is not None:
            for key in self._matching_sets(new):
                self.queue.add(key)

    def _await_availability(self, owner: Key, old: Object | None, new: Object) -> None:
        found = self._sets.get(*owner)
        seconds = int((found or {}).get("spec", {}).get("minReadySeconds", 0))
        if seconds and old is not None and not is_ready(old) and is_ready(new):
            self.queue.add_after(owner, seconds)

    def _owner_key(self, pod: Object | None) -> Key | None:
        """The ReplicaSet in the cache that controls the Pod."""
        found = cached_controller(self._sets, pod, _KIND)
        return key_of(found) if found is not None else None

    def _matching_sets(self, pod: Object) -> list[Key]:
        if controller_of(pod) is not None:
            return []
        namespace = pod["metadata"]["namespace"]
        return [
            key_of(found)
            for found in self._sets.items()
            if found["metadata"]["namespace"] == namespace and _selects(found, pod)
        ]

    async def sync(self, key: Key) -> None:
        """Claim Pods, create or delete what differs, write the status."""
        if not self._written.seen(key):
            self.again_soon(key)
            return
        found = self._sets.get(*key)
        if found is None:
            self._expectations.forget(key)
            self._written.forget(key)
            return
        may_act = self._expectations.satisfied(key)
        candidates = owned_or_orphaned(self._pods, found)
        active = await claim(
            self.client,
            found,
            ("replicasets", "v1", "pods"),
            [pod for pod in candidates if is_active(pod)],
            found["spec"]["selector"],
            written=lambda pod: self._written.note(key, "pods", pod),
        )
        fits = matcher(found["spec"]["selector"])
        terminating = [
            pod
            for pod in candidates
            if is_terminating(pod) and controlled_by(pod, found) and fits(labels_of(pod))
        ]
        failure: ClientError | None = None
        if may_act and not is_deleted(found):
            failure = await self._manage(key, found, active)
        now = self.clock.now()
        status = self._status(found, active, terminating, failure, now)
        await self._write_status(key, found, status)
        if failure is not None:
            raise failure
        seconds = int(found["spec"].get("minReadySeconds", 0))
        if seconds and status.get("readyReplicas", 0) != status.get("availableReplicas", 0):
            wait = next_availability(active, seconds, now)
            self.queue.add_after(key, wait if wait is not None else seconds)

    async def _manage(self, key: Key, found: Object, active: list[Object]) -> ClientError | None:
        missing = int(found["spec"]["replicas"]) - len(active)
        if missing > 0:
            return await self._create(key, found, min(missing, _BURST))
        if missing < 0:
            return await self._delete(key, found, active, min(-missing, _BURST))
        return None

    async def _create(self, key: Key, found: Object, count: int) -> ClientError | None:
        self._expectations.expect(key, creations=count)

        async def create(_: int) -> None:
            try:
                pod = await self._control.create(pod_from_template(found["spec"]["template"], found), found)
            except ClientError as error:
                if namespace_terminating(error):
                    return
                raise
            self._written.note(key, "pods", pod)

        successes, failure = await slow_start(count, create)
        self._expectations.created(key, count - successes)
        return failure

    async def _delete(self, key: Key, found: Object, active: list[Object], count: int) -> ClientError | None:
        chosen = pods_to_delete(
            active, self._related_pods(found), count, self.clock.now(), costs=self.gate("PodDeletionCost")
        )
        self._expectations.expect(key, deletions=[key_of(pod) for pod in chosen])

        async def delete(pod: Object) -> None:
            try:
                await self._control.delete(pod, found)
            except ClientError as error:
                self._expectations.deleted(key, key_of(pod))
                if error.code != 404:
                    raise

        return await together(delete, chosen)

    def _related_pods(self, found: Object) -> list[Object]:
        """The Pods of all ReplicaSets of the same owner, such as those of one Deployment."""
        owner = controller_of(found)
        if owner is None:
            return []
        pods: dict[str, Object] = {}
        for related in self._sets.by_index("controller", str(owner["uid"])):
            for pod in owned(self._pods, related):
                pods[pod["metadata"]["uid"]] = pod
        return list(pods.values())

    def _status(
        self,
        found: Object,
        active: list[Object],
        terminating: list[Object],
        failure: ClientError | None,
        now: float,
    ) -> Object:
        spec = found["spec"]
        seconds = int(spec.get("minReadySeconds", 0))
        wanted_labels = labels_of(spec["template"]).items()
        status: Object = {
            **(found.get("status") or {}),
            "replicas": len(active),
            "fullyLabeledReplicas": sum(wanted_labels <= labels_of(pod).items() for pod in active),
            "readyReplicas": sum(is_ready(pod) for pod in active),
            "availableReplicas": sum(is_available(pod, seconds, now) for pod in active),
            "observedGeneration": found["metadata"].get("generation", 0),
            "conditions": self._conditions(found, len(active), failure),
        }
        if self.gate("DeploymentReplicaSetTerminatingReplicas"):
            status["terminatingReplicas"] = len(terminating)
        else:
            status.pop("terminatingReplicas", None)
        return without_zeros(status, _ALWAYS_WRITTEN)

    def _conditions(self, found: Object, active: int, failure: ClientError | None) -> list[Any]:
        conditions = list((found.get("status") or {}).get("conditions") or [])
        failed = any(condition["type"] == _FAILURE for condition in conditions)
        if failure is not None and not failed:
            creating = active < int(found["spec"]["replicas"])
            text = failure.message if creating else f"unable to delete pods: {failure.message}"
            conditions.append(
                {
                    "type": _FAILURE,
                    "status": "True",
                    "lastTransitionTime": self.clock.timestamp(),
                    "reason": "FailedCreate" if creating else "FailedDelete",
                    "message": text,
                }
            )
        elif failure is None and failed:
            conditions = [condition for condition in conditions if condition["type"] != _FAILURE]
        return conditions

    async def _write_status(self, key: Key, found: Object, status: Object) -> None:
        if without_zeros(found.get("status") or {}, _ALWAYS_WRITTEN) == status:
            return
        body = {**found, "status": status}
        try:
            made = await self.client.update(APPS, "replicasets", body, "status")
        except ClientError as error:
            if error.code != 409:
                raise
            fresh = copy.copy(await self.client.get(APPS, "replicasets", key[1], key[0]))
            made = await self.client.update(APPS, "replicasets", {**fresh, "status": status}, "status")
        self._written.note(key, "replicasets", made)


def _selects(found: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    try:
        return matches(found["spec"]["selector"], labels_of(pod))
    except LabelSelectorError:
        return False
