"""Watches StatefulSets, their Pods and revisions."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import Controller, Key, Written, changed_key, key_of
from clusters.embedded.controllers.pods import (
    cached_controller,
    controller_of,
    index_by_controller,
    is_ready,
    labels_of,
    next_availability,
    owned_or_orphaned,
)
from clusters.embedded.controllers.statefulset import history, status
from clusters.embedded.controllers.statefulset.identity import parent_and_ordinal
from clusters.embedded.controllers.statefulset.pod_control import StatefulPodControl
from clusters.embedded.controllers.statefulset.sync import StatefulSetSync
from dra_api.label_selector import LabelSelectorError, matches

APPS = "apps/v1"


class StatefulSetController(Controller):
    """Keeps the Pods of StatefulSets."""

    name = "statefulset-controller"

    def set_up(self) -> Sequence[Informer]:
        """Watch StatefulSets, Pods and revisions."""
        self._sets = Informer(self.client, APPS, "statefulsets")
        self._pods = Informer(self.client, "v1", "pods")
        self._revisions = Informer(self.client, APPS, "controllerrevisions")
        index_by_controller(self._pods)
        index_by_controller(self._revisions)
        self._written = Written(
            {"pods": self._pods, "statefulsets": self._sets, "controllerrevisions": self._revisions}
        )
        self._sets.add_handler(self._on_set)
        self._pods.add_handler(self._on_pod)
        return self._sets, self._pods, self._revisions

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        key = changed_key(old, new)
        if new is None:
            self._written.forget(key)
        self.queue.add(key)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        owner, before = self._owner(new), self._owner(old)
        for found in (owner, before):
            if found is not None:
                self.queue.add(key_of(found))
        if new is None:
            return
        if owner is not None:
            seconds = int(owner["spec"].get("minReadySeconds", 0))
            if seconds and old is not None and not is_ready(old) and is_ready(new):
                self.queue.add_after(key_of(owner), seconds)
        elif controller_of(new) is None and (
            old is None or labels_of(old) != labels_of(new) or before is not None
        ):
            for found in self._sets.items():
                if found["metadata"]["namespace"] == new["metadata"]["namespace"] and _selects(found, new):
                    self.queue.add(key_of(found))

    def _owner(self, pod: Object | None) -> Object | None:
        """The StatefulSet in the cache that controls the Pod."""
        return cached_controller(self._sets, pod, "StatefulSet")

    async def sync(self, key: Key) -> None:
        """Look after history, Pods and status."""
        if not self._written.seen(key):
            self.again_soon(key)
            return
        found = self._sets.get(*key)
        if found is None:
            self._written.forget(key)
            return

        def noted(resource: str, obj: Object) -> None:
            self._written.note(key, resource, obj)

        revisions = await claim(
            self.client,
            found,
            ("statefulsets", APPS, "controllerrevisions"),
            owned_or_orphaned(self._revisions, found),
            found["spec"]["selector"],
            written=lambda one: noted("controllerrevisions", one),
        )
        pods = await claim(
            self.client,
            found,
            ("statefulsets", "v1", "pods"),
            owned_or_orphaned(self._pods, found),
            lambda pod: parent_and_ordinal(pod)[0] == key[1] and _selects(found, pod),
            written=lambda pod: noted("pods", pod),
        )
        now = self.clock.now()
        current, update, collisions = await history.current_and_update(
            self.client, found, revisions, lambda one: noted("controllerrevisions", one)
        )
        control = StatefulPodControl(self.client, self.recorder, found, lambda pod: noted("pods", pod))
        one_sync = StatefulSetSync(
            found,
            pods,
            current,
            update,
            collisions,
            control,
            self.recorder,
            now,
            several_unavailable=self.gate("MaxUnavailableStatefulSet"),
        )
        one_sync.check_strategy()
        failure: ClientError | None = None
        try:
            await one_sync.run()
        except ClientError as error:
            failure = error
        new = one_sync.status
        status.complete(found, new)
        if status.differs(found.get("status") or {}, new):
            noted("statefulsets", await self._write_status(found, status.tidy(new)))
        live = [one["metadata"]["name"] for one in (current, update)]
        await history.clean_up(self.client, found, revisions, live, pods)
        if failure is not None:
            raise failure
        seconds = int(found["spec"].get("minReadySeconds", 0))
        if seconds and new["readyReplicas"] != new["availableReplicas"]:
            wait = next_availability(pods, seconds, now)
            self.queue.add_after(key, wait if wait is not None else seconds)

    async def _write_status(self, found: Object, new: Object) -> Object:
        try:
            return await self.client.update(APPS, "statefulsets", {**found, "status": new}, "status")
        except ClientError as error:
            if error.code != 409:
                raise
        metadata = found["metadata"]
        fresh = await self.client.get(APPS, "statefulsets", metadata["name"], metadata["namespace"])
        return await self.client.update(APPS, "statefulsets", {**fresh, "status": new}, "status")


def _selects(found: Object, pod: Object) -> bool:
    try:
        return matches(found["spec"]["selector"], labels_of(pod))
    except LabelSelectorError:
        return False
