"""One sync of a Job: counts its Pods, decides whether it has ended, makes and removes Pods, writes the status."""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import Clock, stamp
from clusters.embedded.components.client import ApiClient, Object
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.controllers.controller import key_of
from clusters.embedded.controllers.job import failures, indexes, model
from clusters.embedded.controllers.job.evaluation import Evaluation
from clusters.embedded.controllers.job.memory import Memory
from clusters.embedded.controllers.job.pods import JobPods, surplus
from clusters.embedded.controllers.pods import is_deleted, is_terminating, phase_of

_PODS_PER_SYNC: Final = 500
_MAX_UNCOUNTED: Final = 500


class JobSync:
    """One sync; to be used once."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        clock: Clock,
        memory: Memory,
        job: Object,
        pods: Sequence[Object],
        job_pods: Callable[[Object], JobPods],
        written: Callable[[Object], None],
        later: Callable[[float], None],
        *,
        may_act: bool,
        batch_period: float,
    ) -> None:
        """`pods` are the Job's own; `written` is told of every written Job, `later` when to come back (seconds)."""
        self._client, self._recorder, self._clock, self._memory = client, recorder, clock, memory
        self._job, self._pods, self._key = copy.deepcopy(job), list(pods), key_of(job)
        self._job_pods, self._written, self._later = job_pods(self._job), written, later
        self._may_act, self._batch_period = may_act, batch_period
        status = self._job.setdefault("status", {})
        status["uncountedTerminatedPods"] = {
            "succeeded": list((status.get("uncountedTerminatedPods") or {}).get("succeeded") or []),
            "failed": list((status.get("uncountedTerminatedPods") or {}).get("failed") or []),
        }
        now = clock.now()
        if status.get("startTime") is None and not model.is_suspended(job):
            status["startTime"] = stamp(now)
        self._indexed = indexes.is_indexed(job)
        self._seen = Evaluation(self._job, self._pods, memory.removals(self._key), now)
        self._ending = self._seen.ending
        self._ready, self._terminating = self._seen.ready, self._seen.terminating
        self._backoff = memory.backoff(self._key).after(self._seen.newly_succeeded, self._seen.newly_failed)

    @property
    def _status(self) -> Object:
        status: Object = self._job["status"]
        return status

    @property
    def _spec(self) -> Object:
        spec: Object = self._job["spec"]
        return spec

    async def run(self) -> None:
        """Do it. Raises ClientError when something has to be tried again."""
        status, now = self._status, self._clock.now()
        if self._seen.deadline_in is not None:
            self._later(self._seen.deadline_in)
        before = {name: status.get(name) for name in ("active", "ready", "terminating")}
        error, flush = await self._act(now)
        after = {name: status.get(name) for name in before}
        await self._track(flush=flush or {**before, "active": before["active"] or 0} != after)
        if error is not None:
            raise error

    async def _act(self, now: float) -> tuple[ClientError | None, bool]:
        """Make and remove Pods; returns the first error and whether the status must be written."""
        error: ClientError | None = None
        active, changed = len(self._seen.active), False
        if self._ending is not None:
            deleted, ready, error = await self._job_pods.delete_active(self._seen.active)
            if deleted != active or not self._may_act:
                # There may be Pods that are not known yet, or that still have to be counted.
                self._ending = None
            self._gone(deleted, ready)
            active -= deleted
        else:
            managed = self._may_act and not is_deleted(self._job)
            if managed:
                active, error = await self._manage(now)
            completions = self._spec.get("completions")
            enough = self._seen.succeeded > 0 if completions is None else self._seen.succeeded >= completions
            if enough and active == 0:
                text = "Reached expected number of succeeded pods"
                self._ending = model.condition(
                    model.SUCCESS_CRITERIA_MET, "True", "CompletionsReached", text, now
                )
            elif managed:
                changed = self._note_suspension(now)
        self._status.update(active=active, ready=self._ready, terminating=self._terminating)
        return error, changed

    def _gone(self, deleted: int, ready: int) -> None:
        self._terminating += deleted
        self._ready -= ready

    async def _manage(self, now: float) -> tuple[int, ClientError | None]:
        """Bring the number of active Pods to what is wanted; returns their number and an error."""
        active, spec = len(self._seen.active), self._spec
        wanted = 0
        if not model.is_suspended(self._job):
            wanted = self._wanted(active)
        removed = surplus(self._job, self._seen.active, max(active - wanted, 0))
        if model.is_suspended(self._job) or removed:
            if not model.is_suspended(self._job):
                removed = removed[:_PODS_PER_SYNC]
            deleted, ready, error = await self._job_pods.delete(removed)
            self._gone(deleted, ready)
            return active - deleted, error
        waiting = self._terminating if failures.only_replaces_failed(self._job) else 0
        missing = min(wanted - waiting - active, _PODS_PER_SYNC)
        if missing <= 0:
            return active, None
        per_index = spec.get("backoffLimitPerIndex") is not None
        delay = 0.0 if per_index else self._backoff.remaining(now)
        chosen: list[int] = []
        if not delay and self._indexed:
            chosen = indexes.first_free(missing, int(spec["completions"]), self._taken_indexes())
            if per_index:
                chosen, delay = self._due(chosen, now)
            missing = len(chosen)
        if delay:
            self._later(max(delay, self._batch_period))
            return active, None
        if not missing:
            return active, None
        made, error = await self._job_pods.create(missing, chosen, self._seen.delayed)
        return active + made, error

    def _wanted(self, active: int) -> int:
        """How many Pods should be active."""
        parallelism, completions = int(self._spec["parallelism"]), self._spec.get("completions")
        if completions is None:
            return active if self._seen.succeeded > 0 else parallelism
        return max(min(int(completions) - self._seen.succeeded, parallelism), 0)

    def _taken_indexes(self) -> set[int]:
        taken = (
            self._seen.succeeded_indexes
            | (self._seen.failed_indexes or set())
            | indexes.indexes_of(self._seen.active)
        )
        if failures.only_replaces_failed(self._job):
            taken |= indexes.indexes_of(pod for pod in self._pods if is_terminating(pod))
        return taken

    def _due(self, chosen: Sequence[int], now: float) -> tuple[list[int], float]:
        """The indexes whose delay is over; when there is none, the shortest delay."""
        delays = {
            index: failures.index_backoff(self._seen.delayed.get(index)).remaining(now) for index in chosen
        }
        due = [index for index in chosen if not delays[index]]
        return due, 0.0 if due else min(delays.values(), default=0.0)

    def _note_suspension(self, now: float) -> bool:
        suspended = model.is_suspended(self._job)
        what = "Suspended" if suspended else "Resumed"
        text, status = f"Job {what.lower()}", "True" if suspended else "False"
        new = model.condition(model.SUSPENDED, status, f"Job{what}", text, now)
        if not model.set_condition(self._job, new):
            return False
        self._recorder.event(self._job, "Normal", what, text)
        if suspended:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = stamp(now)
        return True

    async def _track(self, *, flush: bool) -> None:
        """Count ended Pods so that none is counted twice or lost, whenever the controller dies.

        First their uids go to the status, then their finalizers go, then the uids become numbers.
        """
        with_finalizer = {pod["metadata"]["uid"] for pod in self._pods if self._seen.to_count(pod)}
        flush |= self._count_free(with_finalizer)
        pods, new_indexes, full = self._collect()
        flush |= bool(new_indexes) or self._collected
        if self._indexed:
            flush |= self._write_indexes(new_indexes)
        flush |= self._announce_ending()
        if flush:
            await self._write()
            self._memory.set_backoff(self._key, self._backoff)
            flush = False
        if pods:
            done, error = await self._job_pods.untrack(pods)
            flush = self._count_free(with_finalizer - done)
            if error is not None:
                if flush:
                    await self._write()
                raise error
        finished = not full and self._finish()
        if flush or finished:
            await self._write()
        if finished:
            self._tell_end()
            self._memory.finished.add(self._job["metadata"]["uid"])

    def _count_free(self, with_finalizer: Container[str]) -> bool:
        """Turn uids of Pods without finalizer into numbers; returns whether there were any."""
        changed, uncounted = False, self._status["uncountedTerminatedPods"]
        for field in ("succeeded", "failed"):
            left = [uid for uid in uncounted[field] if uid in with_finalizer]
            if len(left) != len(uncounted[field]):
                self._status[field] = self._status.get(field, 0) + len(uncounted[field]) - len(left)
                uncounted[field] = left
                changed = True
        return changed

    def _collect(self) -> tuple[list[Object], set[int], bool]:
        """Put ended Pods into the status.

        Returns the Pods whose finalizers may go then, the indexes that have succeeded since the last sync, and
        whether Pods were left for the next sync because the status is full.
        """
        uncounted = self._status["uncountedTerminatedPods"]
        known = {field: set(uncounted[field]) for field in ("succeeded", "failed")}
        pods, new_indexes = self._pods, set[int]()
        if self._indexed:
            pods = sorted(pods, key=lambda pod: -1 if (i := indexes.index_of(pod)) is None else i)
        free: list[Object] = []
        self._collected = False
        for pod in pods:
            failed = self._seen.has_failed(pod)
            if not self._seen.to_count(pod) or not self._may_lose_finalizer(pod, failed=failed):
                continue
            free.append(pod)
            uid = pod["metadata"]["uid"]
            index = indexes.valid_index(pod, self._job) if self._indexed else None
            if phase_of(pod) == "Succeeded" and uid not in known["failed"]:
                if self._indexed:
                    if index is not None and index not in self._seen.succeeded_before:
                        new_indexes.add(index)
                elif uid not in known["succeeded"]:
                    uncounted["succeeded"].append(uid)
                    self._collected = True
            elif (
                (failed or self._ends_in_failure())
                and uid not in known["failed"]
                and (not self._indexed or index is not None)
                and failures.judge(self._job, pod).counts
            ):
                uncounted["failed"].append(uid)
                self._collected = True
            if len(new_indexes) + sum(map(len, uncounted.values())) >= _MAX_UNCOUNTED:
                return free, new_indexes, True
        return free, new_indexes, False

    def _ends_in_failure(self) -> bool:
        return self._ending is not None and self._ending["type"] != model.SUCCESS_CRITERIA_MET

    def _may_lose_finalizer(self, pod: Object, *, failed: bool) -> bool:
        if is_deleted(self._job) or self._ending is not None or phase_of(pod) == "Succeeded":
            return True
        if not failed:
            return False
        index = indexes.index_of(pod)
        delayed = self._seen.delayed.get(index) if index is not None else None
        return delayed is None or delayed["metadata"]["uid"] != pod["metadata"]["uid"]

    def _write_indexes(self, new_indexes: set[int]) -> bool:
        status = self._status
        # Succeeded before or in this sync; a Pod whose finalizer stays is not counted yet.
        succeeded = self._seen.succeeded_before | self._seen.succeeded_indexes | new_indexes
        texts: dict[str, Any] = {"completedIndexes": indexes.format_indexes(succeeded)}
        texts["failedIndexes"] = (
            None if self._seen.failed_indexes is None else indexes.format_indexes(self._seen.failed_indexes)
        )
        before = {
            "completedIndexes": status.get("completedIndexes", ""),
            "failedIndexes": status.get("failedIndexes"),
        }
        changed = before != texts
        status.update(texts, succeeded=len(succeeded))
        return changed

    def _announce_ending(self) -> bool:
        """Write the interim condition, and turn what is left to do into the final one; True when there is one."""
        ending, now = self._ending, self._clock.now()
        if ending is None:
            return False
        announced = True
        if ending["type"] == model.FAILURE_TARGET:
            final = model.FAILED
        elif ending["type"] == model.SUCCESS_CRITERIA_MET:
            final = model.COMPLETE
            announced = model.true_condition(self._job, model.SUCCESS_CRITERIA_MET) is None
        else:
            return False
        if announced:
            self._status["conditions"] = [*(self._status.get("conditions") or []), ending]
        self._ending = model.condition(
            final, "True", ending.get("reason", ""), ending.get("message", ""), now
        )
        return announced

    def _finish(self) -> bool:
        """Set the final condition once nothing is left to count and no Pod is about to end."""
        ending, uncounted = self._ending, self._status["uncountedTerminatedPods"]
        if ending is None or uncounted["succeeded"] or uncounted["failed"] or self._terminating > 0:
            return False
        model.set_condition(self._job, ending)
        if ending["type"] == model.COMPLETE:
            self._status["completionTime"] = ending["lastTransitionTime"]
        return True

    def _tell_end(self) -> None:
        ending = self._ending or {}
        if ending.get("type") != model.COMPLETE:
            self._recorder.event(self._job, "Warning", ending.get("reason", ""), ending.get("message", ""))
            return
        completions = self._spec.get("completions")
        if completions is not None and self._status.get("succeeded", 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            self._recorder.event(self._job, "Warning", "TooManySucceededPods", text)
        self._recorder.event(self._job, "Normal", "Completed", "Job completed")

    async def _write(self) -> None:
        body = {**self._job, "status": model.tidy(self._status)}
        made = await self._client.update("batch/v1", "jobs", body, "status")
        self._written(made)
        # The lists are needed although the stored form leaves empty ones out.
        self._job["metadata"] = made["metadata"]
