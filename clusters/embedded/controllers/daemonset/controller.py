"""Watches DaemonSets, nodes, Pods and revisions, and carries out what the plans say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import Controller, Key, Written, changed_key, key_of
from clusters.embedded.controllers.daemonset import history, plan
from clusters.embedded.controllers.daemonset.nodes import by_node, new_pod
from clusters.embedded.controllers.expectations import Expectations
from clusters.embedded.controllers.pod_control import PodControl, slow_start, together
from clusters.embedded.controllers.pods import (
    cached_controller,
    controller_of,
    index_by_controller,
    is_deleted,
    is_ready,
    is_terminal,
    labels_of,
    namespace_terminating,
    owned_or_orphaned,
)
from clusters.embedded.controllers.revisions import HASH_LABEL
from dra_api.label_selector import LabelSelectorError, matches

APPS = "apps/v1"
_BURST = 250


class DaemonSetController(Controller):
    """Keeps one Pod of each DaemonSet on each of its nodes."""

    name = "daemonset-controller"

    def set_up(self) -> Sequence[Informer]:
        """Watch DaemonSets, their revisions, Pods and nodes."""
        self._daemon_sets = Informer(self.client, APPS, "daemonsets")
        self._revisions = Informer(self.client, APPS, "controllerrevisions")
        self._pods = Informer(self.client, "v1", "pods")
        self._nodes = Informer(self.client, "v1", "nodes")
        index_by_controller(self._pods)
        index_by_controller(self._revisions)
        self._control = PodControl(self.client, self.recorder)
        self._expectations = Expectations(self.clock)
        self._written = Written({"pods": self._pods, "daemonsets": self._daemon_sets})
        self._backoff = plan.FailureBackoff()
        self._daemon_sets.add_handler(self._on_daemon_set)
        self._revisions.add_handler(self._on_revision)
        self._pods.add_handler(self._on_pod)
        self._nodes.add_handler(self._on_node)
        return self._daemon_sets, self._revisions, self._pods, self._nodes

    def _on_daemon_set(self, old: Object | None, new: Object | None) -> None:
        key = changed_key(old, new)
        if new is None:
            self._expectations.forget(key)
            self._written.forget(key)
        self.queue.add(key)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _placement(old) == _placement(new):
            return
        for daemon_set in self._daemon_sets.items():
            self.queue.add(key_of(daemon_set))

    def _on_revision(self, old: Object | None, new: Object | None) -> None:
        for one in (old, new):
            owner = self._owner(one)
            if owner is not None and old is not None:
                self.queue.add(key_of(owner))
            elif one is not None and controller_of(one) is None:
                self._offer(one)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None or is_deleted(new):
            pod = new if new is not None else old
            owner = self._owner(pod)
            if owner is not None and pod is not None:
                self._expectations.deleted(key_of(owner), key_of(pod))
                self.queue.add(key_of(owner))
            return
        owner, before = self._owner(new), self._owner(old)
        for one in (owner, before):
            if one is not None:
                self.queue.add(key_of(one))
        if owner is not None:
            if old is None:
                self._expectations.created(key_of(owner))
            seconds = int(owner["spec"].get("minReadySeconds", 0))
            if seconds and old is not None and not is_ready(old) and is_ready(new):
                self.queue.add_after(key_of(owner), seconds + 1)
        elif controller_of(new) is None and (
            old is None or labels_of(old) != labels_of(new) or before is not None
        ):
            self._offer(new)

    def _owner(self, obj: Object | None) -> Object | None:
        """The DaemonSet in the cache that controls the object."""
        return cached_controller(self._daemon_sets, obj, "DaemonSet")

    def _offer(self, obj: Object) -> None:
        """An object without controller: whoever selects it may adopt it."""
        for found in self._daemon_sets.items():
            try:
                if found["metadata"]["namespace"] == obj["metadata"]["namespace"] and matches(
                    found["spec"]["selector"], labels_of(obj)
                ):
                    self.queue.add(key_of(found))
            except LabelSelectorError:
                continue

    async def sync(self, key: Key) -> None:
        """Look after history, Pods and status."""
        if not self._written.seen(key):
            self.again_soon(key)
            return
        found = self._daemon_sets.get(*key)
        if found is None:
            self._expectations.forget(key)
            self._written.forget(key)
            return
        if not any(found["spec"]["selector"].values()):
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self.recorder.event(found, "Warning", "SelectingAll", text)
            return
        if is_deleted(found):
            return
        pods = await self._claimed(key, found)
        known = owned_or_orphaned(self._revisions, found)
        current, old = await history.current_and_old(self.client, found, known, pods)
        digest = labels_of(current)[HASH_LABEL]
        if not self._expectations.satisfied(key):
            await self._write_status(key, found, digest, observed=False)
            return
        failure: ClientError | None = None
        try:
            await self._act(key, found, digest, old)
        except ClientError as error:
            failure = error
        await self._write_status(key, found, digest, observed=True)
        if failure is not None:
            raise failure

    async def _claimed(self, key: Key, found: Object) -> list[Object]:
        return await claim(
            self.client,
            found,
            ("daemonsets", "v1", "pods"),
            owned_or_orphaned(self._pods, found),
            found["spec"]["selector"],
            written=lambda pod: self._written.note(key, "pods", pod),
        )

    async def _situation(self, key: Key, found: Object, digest: str) -> plan.Situation:
        pods = await self._claimed(key, found)
        # Ended Pods that are being deleted are somebody else's business.
        left = [pod for pod in pods if not (is_terminal(pod) and is_deleted(pod))]
        return plan.Situation(found, digest, self._nodes.items(), by_node(left), self.clock.now())

    async def _act(self, key: Key, found: Object, digest: str, old: Sequence[Object]) -> None:
        situation = await self._situation(key, found, digest)
        await self._carry_out(key, found, digest, plan.keep_one_a_node(situation, self._backoff))
        rolling = found["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        if rolling and self._expectations.satisfied(key):
            situation = await self._situation(key, found, digest)
            await self._carry_out(key, found, digest, plan.rolling_update(situation))
        await history.clean_up(self.client, found, old, await self._claimed(key, found))

    async def _carry_out(self, key: Key, found: Object, digest: str, wanted: plan.Plan) -> None:
        for kind, reason, text in wanted.events:
            self.recorder.event(found, kind, reason, text)
        if wanted.again is not None:
            self.queue.add_after(key, wanted.again)
        nodes, pods = wanted.nodes[:_BURST], wanted.pods[:_BURST]
        self._expectations.expect(key, creations=len(nodes), deletions=[key_of(pod) for pod in pods])

        async def create(position: int) -> None:
            pod = new_pod(found, nodes[position], digest)
            try:
                self._written.note(key, "pods", await self._control.create(pod, found))
            except ClientError as error:
                if not namespace_terminating(error):
                    raise

        async def delete(pod: Object) -> None:
            try:
                await self._control.delete(pod, found)
            except ClientError as error:
                self._expectations.deleted(key, key_of(pod))
                if error.code != 404:
                    raise

        made, failure = await slow_start(len(nodes), create)
        self._expectations.created(key, len(nodes) - made)
        failure = await together(delete, pods) or failure
        if failure is not None:
            raise failure

    async def _write_status(self, key: Key, found: Object, digest: str, *, observed: bool) -> None:
        situation = await self._situation(key, found, digest)
        numbers = plan.numbers(situation)
        before = found.get("status") or {}
        generation = found["metadata"].get("generation", 0)
        known = {name: before.get(name, 0) for name in numbers}
        if known != numbers or before.get("observedGeneration", 0) < generation:
            made = await self._store_status(found, numbers, generation if observed else None)
            self._written.note(key, "daemonsets", made)
        seconds = int(found["spec"].get("minReadySeconds", 0))
        if seconds and numbers["numberReady"] != numbers["numberAvailable"]:
            self.queue.add_after(key, seconds)

    async def _store_status(
        self, found: Object, numbers: Mapping[str, int], generation: int | None
    ) -> Object:
        def body(obj: Object) -> Object:
            status = {**(obj.get("status") or {}), **numbers}
            if generation is not None:
                status["observedGeneration"] = generation
            return {**obj, "status": plan.tidy(status)}

        try:
            return await self.client.update(APPS, "daemonsets", body(found), "status")
        except ClientError as error:
            if error.code != 409:
                raise
        metadata = found["metadata"]
        fresh = await self.client.get(APPS, "daemonsets", metadata["name"], metadata["namespace"])
        return await self.client.update(APPS, "daemonsets", body(fresh), "status")


def _placement(node: Mapping[str, Any]) -> tuple[Any, Any]:
    """What of a node decides about Pods."""
    return labels_of(node), (node.get("spec") or {}).get("taints") or []
