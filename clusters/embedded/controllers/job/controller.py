"""Watches Jobs and Pods, syncs Jobs, and frees Pods whose Jobs will not do so any more."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.client import ClientError
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.components.workqueue import WorkQueue, run_workers
from clusters.embedded.controllers.claiming import claim
from clusters.embedded.controllers.controller import Controller, Key, Written, changed_key, key_of
from clusters.embedded.controllers.job import model
from clusters.embedded.controllers.job.memory import Memory
from clusters.embedded.controllers.job.pods import JobPods, untracking_patch
from clusters.embedded.controllers.job.sync import JobSync
from clusters.embedded.controllers.pod_control import PodControl
from clusters.embedded.controllers.pods import (
    cached_controller,
    controller_of,
    index_by_controller,
    is_deleted,
    labels_of,
    owned_or_orphaned,
)
from dra_api.label_selector import LabelSelectorError, matches

BATCH = "batch/v1"


class JobController(Controller):
    """Runs the Pods of Jobs to completion."""

    name = "job-controller"
    retry_delays = (1.0, 60.0)

    def __init__(self, batch_period: float = 1.0) -> None:
        """Changes of Pods and of a Job's status wait for `batch_period` seconds, to be handled together."""
        self._batch_period = batch_period

    def set_up(self) -> Sequence[Informer]:
        """Watch Jobs and Pods."""
        self._jobs = Informer(self.client, BATCH, "jobs")
        self._pods = Informer(self.client, "v1", "pods")
        index_by_controller(self._pods)
        self._control = PodControl(self.client, self.recorder)
        self._memory = Memory(self.clock)
        self._written = Written({"pods": self._pods, "jobs": self._jobs})
        self._strays: WorkQueue[Key] = WorkQueue(self.clock)
        self._jobs.add_handler(self._on_job)
        self._pods.add_handler(self._on_pod)
        return self._jobs, self._pods

    async def beside(self) -> None:
        """Free the Pods that no Job frees; which these are is known when both caches are filled."""
        await self._jobs.wait_synced()
        await self._pods.wait_synced()
        await run_workers(self._strays, self._free, name=self.name, log=self.log)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        key = changed_key(old, new)
        if new is None:
            self._written.forget(key)
            self._memory.forget(key)
            self._memory.finished.discard((old or {}).get("metadata", {}).get("uid", ""))
        if new is None or model.is_finished(new):
            self._stray_pods_of(new or old or {})
        if new is not None and model.is_finished(new) and old is not None:
            return
        same = (
            old is not None
            and new is not None
            and old["metadata"].get("generation") == new["metadata"].get("generation")
        )
        self.queue.add_after(key, self._batch_period if same else 0)

    def _stray_pods_of(self, job: Object) -> None:
        for pod in self._pods.by_index("controller", job["metadata"]["uid"]):
            if model.has_tracking(pod):
                self._strays.add(key_of(pod))

    def _job_of(self, pod: Object | None) -> Object | None:
        """The Job in the cache that controls the Pod."""
        return cached_controller(self._jobs, pod, "Job")

    def _soon(self, job: Object) -> None:
        self.queue.add_after(key_of(job), self._batch_period)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new if new is not None else old
        if pod is None:
            return
        if new is None or is_deleted(new):
            self._on_deletion(pod, final=new is None)
            return
        job, before = self._job_of(new), self._job_of(old)
        for one in (before, job):
            if one is not None:
                if not model.has_tracking(new):
                    self._memory.removal_seen(key_of(one), new["metadata"]["uid"])
                self._soon(one)
        if job is not None and old is None:
            self._memory.expectations.created(key_of(job))
            if model.is_finished(job) and model.has_tracking(new):
                self._strays.add(key_of(new))
        if controller_of(new) is None:
            if model.has_tracking(new):
                self._strays.add(key_of(new))
            if old is None or labels_of(old) != labels_of(new) or before is not None:
                self._offer(new)

    def _offer(self, pod: Object) -> None:
        for job in self._jobs.items():
            if job["metadata"]["namespace"] != pod["metadata"]["namespace"]:
                continue
            try:
                if matches(job["spec"]["selector"], labels_of(pod)):
                    self._soon(job)
            except LabelSelectorError:
                continue

    def _on_deletion(self, pod: Object, *, final: bool) -> None:
        job, tracked = self._job_of(pod), model.has_tracking(pod)
        if job is None or model.is_finished(job):
            if tracked and not final:
                self._strays.add(key_of(pod))
            return
        key = key_of(job)
        self._memory.expectations.deleted(key, key_of(pod))
        if final or not tracked:
            self._memory.removal_seen(key, pod["metadata"]["uid"])
        self._soon(job)

    async def _free(self, key: Key) -> None:
        """Remove the finalizer of a Pod without Job, or of a finished one."""
        pod = self._pods.get(*key)
        if pod is None or not model.has_tracking(pod):
            return
        owner = controller_of(pod)
        if owner is not None:
            if owner["kind"] != "Job" or owner["apiVersion"] != BATCH:
                return
            job = self._job_of(pod)
            if job is not None and (model.is_foreign(job) or not model.is_finished(job)):
                return
        try:
            await self.client.patch("v1", "pods", key[1], untracking_patch(), key[0])
        except ClientError as error:
            if error.code != 404:
                raise

    async def sync(self, key: Key) -> None:
        """Count Pods, make or remove some, write the status."""
        if not self._written.seen(key):
            self.again_soon(key)
            return
        job = self._jobs.get(*key)
        if job is None:
            self._memory.forget(key)
            return
        if model.is_foreign(job):
            return
        uid = job["metadata"]["uid"]
        if model.is_finished(job):
            self._memory.end_backoff(key)
            self._written.forget(key)
            self._memory.finished.discard(uid)
            return
        if uid in self._memory.finished:
            return
        may_act = self._memory.expectations.satisfied(key)

        def pod_written(pod: Object) -> None:
            self._written.note(key, "pods", pod)

        pods = await claim(
            self.client,
            job,
            ("jobs", "v1", "pods"),
            owned_or_orphaned(self._pods, job),
            job["spec"]["selector"],
            finalizers=(model.TRACKING,),
            written=pod_written,
        )
        await JobSync(
            self.client,
            self.recorder,
            self.clock,
            self._memory,
            job,
            pods,
            lambda copied: JobPods(self.client, self._control, self._memory, copied, pod_written),
            lambda made: self._written.note(key, "jobs", made),
            lambda seconds: self.queue.add_after(key, seconds),
            may_act=may_act,
            batch_period=self._batch_period,
        ).run()
