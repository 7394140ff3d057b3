"""One sync of a Deployment: what it does to the ReplicaSets and to the status."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.controllers.controller import SyncError
from clusters.embedded.controllers.deployment import model, status
from clusters.embedded.controllers.deployment.rollback import rolled_back, wished_revision
from clusters.embedded.controllers.pods import (
    annotations_of,
    controlled_by,
    controller_ref,
    is_deleted,
    labels_of,
    namespace_terminating,
)
from clusters.embedded.controllers.template_hash import template_hash

_APPS = "apps/v1"
_NAME_LIMIT = 253


class Rollout:
    """One sync; to be used once."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        clock: Clock,
        deployment: Object,
        sets: Sequence[Object],
        *,
        cached_set: Callable[[str], Object | None],
        terminating: bool,
    ) -> None:
        """`sets` are the Deployment's own; `cached_set` finds any ReplicaSet of the namespace by its name."""
        self._client, self._recorder, self._clock = client, recorder, clock
        self._deployment = copy.deepcopy(deployment)
        self._newest, self._old = model.split_sets(deployment, sets)
        self._cached_set = cached_set
        self._terminating = terminating

    @property
    def _sets(self) -> list[Object]:
        return self._old + ([self._newest] if self._newest is not None else [])

    async def only_status(self) -> None:
        """Report, do nothing else."""
        await self._sync_revision()
        await self._report()

    async def run(self, old_pods_run: Callable[[Object | None], bool]) -> float | None:
        """Do the next step; returns seconds after which to look again although nothing changed.

        `old_pods_run` says whether Pods of other sets than the given one have not ended.
        """
        await self._note_pause()
        if self._deployment["spec"].get("paused"):
            await self._scale()
            return None
        revision = wished_revision(self._deployment)
        if revision is not None:
            await self._roll_back(revision)
            return None
        await self._sync_revision()
        replicas = model.replicas_of(self._deployment)
        if any(model.desired_replicas(one) not in (None, replicas) for one in model.with_pods(self._sets)):
            await self._scale()
            return None
        if model.is_rolling(self._deployment):
            done = await self._rolling_step()
        else:
            done = await self._recreating_step(old_pods_run)
        if not done and status.is_complete(self._deployment, self._deployment.get("status") or {}):
            await self._clean_up()
        return await self._report_rollout()

    async def _note_pause(self) -> None:
        if not model.has_deadline(self._deployment):
            return
        current = self._deployment.setdefault("status", {})
        known = status.find_condition(current, status.PROGRESSING)
        reason = known.get("reason") if known is not None else None
        paused = bool(self._deployment["spec"].get("paused"))
        if reason == status.TIMED_OUT or paused == (reason == status.PAUSED):
            return
        reason, text = (
            (status.PAUSED, "Deployment is paused") if paused else (status.RESUMED, "Deployment is resumed")
        )
        self._set_progressing("Unknown", reason, text)
        await self._write_deployment_status()

    def _set_progressing(self, value: str, reason: str, text: str) -> None:
        new = status.condition(status.PROGRESSING, value, reason, text, self._clock.now())
        status.set_condition(self._deployment.setdefault("status", {"conditions": []}), new)

    async def _write_deployment_status(self) -> None:
        """Write status and annotations; the answer replaces what this sync knows of the Deployment."""
        body = {**self._deployment, "status": status.tidy(self._deployment.get("status") or {})}
        self._deployment = await self._client.update(_APPS, "deployments", body, "status")

    async def _sync_revision(self, *, create: bool = False) -> None:
        """Number the newest set and the Deployment; make the set when it is missing and `create` is true."""
        revision = model.max_revision(self._old) + 1
        if self._newest is None:
            if create:
                await self._create_set(revision)
            return
        newest, spec = self._newest, self._deployment["spec"]
        known = dict(annotations_of(newest))
        annotations = model.set_annotations(self._deployment, known, revision, exists=True)
        seconds = spec.get("minReadySeconds", 0)
        if annotations != known or newest["spec"].get("minReadySeconds", 0) != seconds:
            body = {
                **newest,
                "metadata": {**newest["metadata"], "annotations": annotations},
                "spec": {**newest["spec"], "minReadySeconds": seconds},
            }
            self._newest = await self._client.update(_APPS, "replicasets", body)
            return
        changed = self._set_revision(known.get(model.REVISION, ""))
        current = self._deployment.get("status") or {}
        if model.has_deadline(self._deployment) and not status.find_condition(current, status.PROGRESSING):
            text = f'Found new replica set "{newest["metadata"]["name"]}"'
            self._set_progressing("True", "FoundNewReplicaSet", text)
            changed = True
        if changed:
            await self._write_deployment_status()

    def _set_revision(self, revision: str) -> bool:
        metadata = self._deployment["metadata"]
        if annotations_of(self._deployment).get(model.REVISION) == revision:
            return False
        metadata["annotations"] = {**annotations_of(self._deployment), model.REVISION: revision}
        return True

    async def _create_set(self, revision: int) -> None:
        body = self._new_set(revision)
        name, size = body["metadata"]["name"], body["spec"]["replicas"]
        existed = False
        try:
            made = await self._client.create(_APPS, "replicasets", body, body["metadata"]["namespace"])
        except ClientError as error:
            if error.code == 409 and error.reason == "AlreadyExists":
                made = await self._existing_set(name, error)
                existed = True
            else:
                if not namespace_terminating(error):
                    await self._report_failed_creation(name, error)
                raise
        self._newest = made
        changed = self._set_revision(str(revision))
        if not existed:
            if size > 0:
                text = f"Scaled up replica set {name} from 0 to {size}"
                self._recorder.event(self._deployment, "Normal", "ScalingReplicaSet", text)
            if model.has_deadline(self._deployment):
                self._set_progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
                changed = True
        if changed:
            await self._write_deployment_status()

    def _new_set(self, revision: int) -> Object:
        metadata, spec = self._deployment["metadata"], self._deployment["spec"]
        digest = template_hash(spec["template"], (self._deployment.get("status") or {}).get("collisionCount"))
        labels = {**labels_of(spec["template"]), model.HASH_LABEL: digest}
        selector = copy.deepcopy(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), model.HASH_LABEL: digest}
        template = copy.deepcopy(spec["template"])
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        return {
            "apiVersion": _APPS,
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name'][: _NAME_LIMIT - 1 - len(digest)]}-{digest}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": model.set_annotations(self._deployment, {}, revision, exists=False),
                "ownerReferences": [controller_ref(self._deployment)],
            },
            "spec": {
                "replicas": model.new_set_replicas(self._deployment, self._old, 0),
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": selector,
                "template": template,
            },
        }

    async def _existing_set(self, name: str, error: ClientError) -> Object:
        """The set of this name: ours from before, else the hashes collide and the next sync takes another one."""
        found = self._cached_set(name)
        if found is None:
            raise SyncError(f'replicaset.apps "{name}" not found')
        template = self._deployment["spec"]["template"]
        if controlled_by(found, self._deployment) and model.same_template(
            template, found["spec"]["template"]
        ):
            return found
        current = self._deployment.setdefault("status", {})
        current["collisionCount"] = int(current.get("collisionCount") or 0) + 1
        await self._write_deployment_status()
        raise error

    async def _report_failed_creation(self, name: str, error: ClientError) -> None:
        text = f'Failed to create new replica set "{name}": {error.message}'
        if model.has_deadline(self._deployment):
            self._set_progressing("False", "ReplicaSetCreateError", text)
            # The failure of the creation is what matters.
            with contextlib.suppress(ClientError):
                await self._write_deployment_status()
        self._recorder.event(self._deployment, "Warning", "ReplicaSetCreateError", text)

    async def _scale(self) -> None:
        """Follow a change of the Deployment's size, or hold still in a pause."""
        await self._sync_revision()
        replicas = model.replicas_of(self._deployment)
        single = model.active_or_latest(self._newest, self._old)
        if single is not None:
            await self._resize(single, replicas)
        elif model.is_saturated(self._deployment, self._newest):
            for one in model.with_pods(self._old):
                await self._resize(one, 0)
        elif model.is_rolling(self._deployment):
            for one, size in model.proportional_sizes(self._deployment, model.with_pods(self._sets)):
                await self._resize(one, size, annotate=True)
        if self._deployment["spec"].get("paused"):
            await self._clean_up()
        await self._report()

    async def _resize(self, one: Object, size: int, *, annotate: bool = False) -> bool:
        """Give a set another size; with `annotate`, also when only its annotations are outdated."""
        before = model.replicas_of(one)
        annotations = {**annotations_of(one), **model.size_annotations(self._deployment)}
        if before == size and (not annotate or annotations == annotations_of(one)):
            return False
        body = {
            **one,
            "metadata": {**one["metadata"], "annotations": annotations},
            "spec": {**one["spec"], "replicas": size},
        }
        made = await self._client.update(_APPS, "replicasets", body)
        self._replace(made)
        if before == size:
            return False
        direction = "up" if before < size else "down"
        text = f"Scaled {direction} replica set {made['metadata']['name']} from {before} to {size}"
        self._recorder.event(self._deployment, "Normal", "ScalingReplicaSet", text)
        return True

    def _replace(self, made: Object) -> None:
        uid = made["metadata"]["uid"]
        if self._newest is not None and self._newest["metadata"]["uid"] == uid:
            self._newest = made
        self._old = [made if one["metadata"]["uid"] == uid else one for one in self._old]

    async def _rolling_step(self) -> bool:
        await self._sync_revision(create=True)
        newest = self._newest
        if newest is None:
            raise SyncError("a rollout without a new replica set")
        replicas, current = model.replicas_of(self._deployment), model.replicas_of(newest)
        if current > replicas:
            if await self._resize(newest, replicas):
                return True
        elif current < replicas:
            size = model.new_set_replicas(self._deployment, self._sets, current)
            if await self._resize(newest, size):
                return True
        return await self._shrink_old(newest)

    async def _shrink_old(self, newest: Object) -> bool:
        """Take away old Pods as far as enough available ones stay: first those that are not available anyway."""
        old = model.by_age(model.with_pods(self._old))
        minimum = model.replicas_of(self._deployment) - model.max_unavailable(self._deployment)
        missing = model.replicas_of(newest) - model.count([newest], "availableReplicas")
        limit = model.wanted(self._sets) - minimum - missing
        if not old or limit <= 0:
            return False
        removed = 0
        try:
            for one in old:
                size = model.replicas_of(one)
                share = min(limit - removed, size - model.count([one], "availableReplicas"))
                if share > 0:
                    await self._resize(one, size - share)
                    removed += share
            available = model.count([*old, newest], "availableReplicas") - minimum
            removed_available = 0
            for one in model.by_age(model.with_pods(self._old)):
                share = min(model.replicas_of(one), available - removed_available)
                if share > 0:
                    await self._resize(one, model.replicas_of(one) - share)
                    removed_available += share
        except ClientError:
            # The status is written in any case; the set's next change brings the Deployment back.
            return False
        return removed + removed_available > 0

    async def _recreating_step(self, old_pods_run: Callable[[Object | None], bool]) -> bool:
        scaled = False
        for one in model.with_pods(self._old):
            scaled |= await self._resize(one, 0)
        if scaled:
            return True
        if model.count(self._old, "replicas") > 0 or old_pods_run(self._newest):
            return True
        await self._sync_revision(create=True)
        if self._newest is not None:
            await self._resize(self._newest, model.replicas_of(self._deployment))
        return False

    async def _clean_up(self) -> None:
        """Delete the oldest of the old sets beyond the history's limit, if nothing of them is left."""
        if not model.has_history_limit(self._deployment):
            return
        alive = [one for one in self._old if not is_deleted(one)]
        surplus = len(alive) - int(self._deployment["spec"]["revisionHistoryLimit"])
        for one in model.by_revision(alive)[: max(surplus, 0)]:
            current = one.get("status") or {}
            if current.get("replicas") or model.replicas_of(one):
                continue
            if one["metadata"].get("generation", 0) > current.get("observedGeneration", 0):
                continue
            metadata = one["metadata"]
            try:
                await self._client.delete(_APPS, "replicasets", metadata["name"], metadata["namespace"])
            except ClientError as error:
                if error.code != 404:
                    raise

    def _calculated(self) -> Object:
        return status.calculate(
            self._deployment, self._newest, self._sets, self._clock.now(), terminating=self._terminating
        )

    async def _report(self) -> None:
        await self._write_if_new(self._calculated())

    async def _report_rollout(self) -> float | None:
        new, now = self._calculated(), self._clock.now()
        status.judge_progress(self._deployment, self._newest, new, now)
        status.take_failures(self._newest, self._sets, new)
        if not await self._write_if_new(new):
            return status.next_check(self._deployment, new, now)
        return None

    async def _write_if_new(self, new: Mapping[str, Any]) -> bool:
        if status.tidy(new) == status.tidy(self._deployment.get("status") or {}):
            return False
        self._deployment["status"] = dict(new)
        await self._write_deployment_status()
        return True

    async def _roll_back(self, revision: int) -> None:
        """Do what the annotation of the old rollback request says, and remove it."""
        await self._sync_revision(create=True)
        change = rolled_back(self._deployment, self._sets, revision)
        if change.warning:
            self._recorder.event(self._deployment, "Warning", *change.warning)
        self._deployment = await self._client.update(_APPS, "deployments", change.deployment)
        if change.message:
            self._recorder.event(self._deployment, "Normal", "DeploymentRollback", change.message)
