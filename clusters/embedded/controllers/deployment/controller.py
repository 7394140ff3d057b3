"""Watches Deployments, their ReplicaSets and Pods, and decides what one sync has to do."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import Controller, Key, changed_key, key_of
from clusters.embedded.controllers.deployment.model import is_rolling
from clusters.embedded.controllers.deployment.rollout import Rollout
from clusters.embedded.controllers.pods import (
    cached_controller,
    controller_of,
    index_by_controller,
    is_deleted,
    is_terminal,
    labels_of,
    owned,
    owned_or_orphaned,
)
from dra_api.label_selector import LabelSelectorError, matches

APPS = "apps/v1"


class DeploymentController(Controller):
    """Creates and scales ReplicaSets for Deployments and keeps the Deployments' status."""

    name = "deployment-controller"

    def set_up(self) -> Sequence[Informer]:
        """Watch Deployments, ReplicaSets and Pods."""
        self._deployments = Informer(self.client, APPS, "deployments")
        self._sets = Informer(self.client, APPS, "replicasets")
        self._pods = Informer(self.client, "v1", "pods")
        index_by_controller(self._sets)
        index_by_controller(self._pods)
        self._deployments.add_handler(lambda old, new: self.queue.add(changed_key(old, new)))
        self._sets.add_handler(self._on_set)
        self._pods.add_handler(self._on_pod)
        return self._deployments, self._sets, self._pods

    def _on_set(self, old: Object | None, new: Object | None) -> None:
        owners = [key for key in (self._owner_key(old), self._owner_key(new)) if key is not None]
        for key in owners:
            self.queue.add(key)
        if new is None or controller_of(new) is not None:
            return
        if old is None or owners or labels_of(old) != labels_of(new):
            for key in self._matching(new):
                self.queue.add(key)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        """With Recreate the next set is made when the last Pod of the old ones is gone."""
        if new is not None or old is None:
            return
        owner = controller_of(old)
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        found = self._sets.get(str(old["metadata"]["namespace"]), str(owner["name"]))
        key = self._owner_key(found)
        deployment = self._deployments.get(*key) if key is not None else None
        if key is None or deployment is None or is_rolling(deployment):
            return
        if not any(owned(self._pods, one) for one in owned(self._sets, deployment)):
            self.queue.add(key)

    def _owner_key(self, found: Object | None) -> Key | None:
        """The Deployment in the cache that controls the ReplicaSet."""
        deployment = cached_controller(self._deployments, found, "Deployment")
        return key_of(deployment) if deployment is not None else None

    def _matching(self, found: Object) -> list[Key]:
        keys = []
        for deployment in self._deployments.items():
            if deployment["metadata"]["namespace"] != found["metadata"]["namespace"]:
                continue
            try:
                if matches(deployment["spec"]["selector"], labels_of(found)):
                    keys.append(key_of(deployment))
            except LabelSelectorError:
                continue
        return keys

    async def sync(self, key: Key) -> None:
        """Adopt sets, then scale them or carry on with the rollout, and write the status."""
        deployment = self._deployments.get(*key)
        if deployment is None:
            return
        if not any(deployment["spec"]["selector"].values()):
            await self._refuse(deployment)
            return
        sets = await claim(
            self.client,
            deployment,
            ("deployments", APPS, "replicasets"),
            owned_or_orphaned(self._sets, deployment),
            deployment["spec"]["selector"],
        )
        rollout = Rollout(
            self.client,
            self.recorder,
            self.clock,
            deployment,
            sets,
            cached_set=lambda name: self._sets.get(key[0], name),
            terminating=self.gate("DeploymentReplicaSetTerminatingReplicas"),
        )
        if is_deleted(deployment):
            await rollout.only_status()
            return
        wait = await rollout.run(lambda newest: self._old_pods_run(deployment, newest))
        if wait is not None:
            if wait < 1:
                self.queue.add_rate_limited(key)
            else:
                # Timestamps have whole seconds.
                self.queue.add_after(key, wait + 1)

    async def _refuse(self, deployment: Object) -> None:
        text = "This deployment is selecting all pods. A non-empty selector is required."
        self.recorder.event(deployment, "Warning", "SelectingAll", text)
        generation = deployment["metadata"].get("generation", 0)
        status = deployment.get("status") or {}
        if status.get("observedGeneration", 0) < generation:
            body = {**deployment, "status": {**status, "observedGeneration": generation}}
            try:
                await self.client.update(APPS, "deployments", body, "status")
            except ClientError as error:
                self.log.info("status of %s: %s", key_of(deployment), error)

    def _old_pods_run(self, deployment: Object, newest: Object | None) -> bool:
        for one in owned(self._sets, deployment):
            if newest is not None and one["metadata"]["uid"] == newest["metadata"]["uid"]:
                continue
            if any(not is_terminal(pod) for pod in owned(self._pods, one)):
                return True
        return False
