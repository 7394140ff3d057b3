"""What the Pods of a Job say about it: counts, indexes, and whether it has ended. No input or output."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.controllers.job import failures, indexes, model
from clusters.embedded.controllers.pods import is_active, is_ready, is_terminating, phase_of


class Evaluation:
    """Made once a sync from the Job, its Pods and the time."""

    active: list[Object]
    """Pods that have neither ended nor are being deleted."""
    ready: int
    terminating: int
    newly_succeeded: list[Object]
    """Ended Pods that the status does not know of."""
    newly_failed: list[Object]
    succeeded: int
    """With those that are not counted yet; of Indexed Jobs the number of indexes."""
    failed: int
    succeeded_before: set[int]
    """Indexes of the status."""
    succeeded_indexes: set[int]
    failed_indexes: set[int] | None
    """None unless failures are limited by index."""
    delayed: dict[int, Object]
    """The last failed Pod of each index that is to be tried again: its successor needs the counts in it."""
    ending: Object | None
    """An interim condition when the Job has ended, the final one when the interim one was written before."""
    deadline_in: float | None
    """Seconds until the active deadline, while there is one."""

    def __init__(self, job: Object, pods: Sequence[Object], removals: Container[str], now: float) -> None:
        """`removals` are uids of Pods whose finalizer has gone although the cache still shows it.

        The status of the Job has a startTime unless it is suspended, and both lists of uncounted Pods.
        """
        self._job, self._pods, self._removals = job, pods, removals
        self._indexed = indexes.is_indexed(job)
        self._per_index = job["spec"].get("backoffLimitPerIndex") is not None
        self.active = [pod for pod in pods if is_active(pod)]
        self.ready = sum(map(is_ready, self.active))
        self.terminating = sum(map(is_terminating, pods))
        self.succeeded_before, self.succeeded_indexes = set(), set()
        self.failed_indexes, self.delayed = None, {}
        self.deadline_in = None
        self._count(job["status"])
        self._find_ending(now)

    def _count(self, status: Object) -> None:
        uncounted = status["uncountedTerminatedPods"]
        self.newly_succeeded = self._uncounted_pods(
            uncounted["succeeded"], lambda pod: phase_of(pod) == "Succeeded"
        )
        self.newly_failed = self._uncounted_pods(uncounted["failed"], self.has_failed)
        self.succeeded = status.get("succeeded", 0) + len(self.newly_succeeded) + len(uncounted["succeeded"])
        counting = [pod for pod in self.newly_failed if failures.judge(self._job, pod).counts]
        self.failed = status.get("failed", 0) + len(counting) + len(uncounted["failed"])

    def has_failed(self, pod: Object) -> bool:
        """Whether the Pod counts as failed."""
        return failures.has_failed(pod, self._job)

    def to_count(self, pod: Object) -> bool:
        """Whether the Pod's finalizer still waits for its being counted."""
        return model.has_tracking(pod) and pod["metadata"]["uid"] not in self._removals

    def _uncounted_pods(self, known: Container[str], fits: Callable[[Object], bool]) -> list[Object]:
        """Ended Pods that neither the status nor its list of uncounted ones contains."""
        return [
            pod
            for pod in self._pods
            if self.to_count(pod)
            and pod["metadata"]["uid"] not in known
            and (not self._indexed or indexes.valid_index(pod, self._job) is not None)
            and fits(pod)
        ]

    def _failure(self, reason: str, message: str, now: float) -> Object:
        return model.condition(model.FAILURE_TARGET, "True", reason, message, now)

    def _find_ending(self, now: float) -> None:
        """Decide whether the Job has ended: first by what earlier syncs decided, then failure, then success."""
        met = model.true_condition(self._job, model.SUCCESS_CRITERIA_MET)
        target = model.true_condition(self._job, model.FAILURE_TARGET)
        if met is not None:
            self.ending = dict(met)
        elif target is not None:
            self.ending = model.condition(
                model.FAILED, "True", target.get("reason", ""), target.get("message", ""), now
            )
        else:
            self.ending = self._policy_failure(now) or self._limit_failure(now)
        if self._indexed:
            self._look_at_indexes(now)

    def _policy_failure(self, now: float) -> Object | None:
        for pod in self._pods:
            if self.has_failed(pod):
                message = failures.judge(self._job, pod).message
                if message:
                    return self._failure("PodFailurePolicy", message, now)
        return None

    def _limit_failure(self, now: float) -> Object | None:
        spec, status = self._job["spec"], self._job["status"]
        if self.failed > spec["backoffLimit"] or failures.restarts_exceed_limit(self._job, self._pods):
            return self._failure("BackoffLimitExceeded", "Job has reached the specified backoff limit", now)
        seconds = spec.get("activeDeadlineSeconds")
        if seconds is None or model.is_suspended(self._job):
            return None
        left = float(seconds) - (now - parse_stamp(status["startTime"]))
        if left <= 0:
            return self._failure("DeadlineExceeded", "Job was active longer than specified deadline", now)
        self.deadline_in = left
        return None

    def _look_at_indexes(self, now: float) -> None:
        job, completions = self._job, int(self._job["spec"]["completions"])
        self.succeeded_before = indexes.parse_indexes(
            self._job["status"].get("completedIndexes", ""), completions
        )
        tracked = [pod for pod in self._pods if model.has_tracking(pod)]
        ended = {indexes.valid_index(pod, job) for pod in tracked if phase_of(pod) == "Succeeded"}
        self.succeeded_indexes = self.succeeded_before | {index for index in ended if index is not None}
        self.succeeded = len(self.succeeded_indexes)
        if self._per_index:
            failed = {indexes.valid_index(pod, job) for pod in tracked if failures.index_has_failed(job, pod)}
            known = indexes.parse_indexes(self._job["status"].get("failedIndexes") or "", completions)
            self.failed_indexes = known | {index for index in failed if index is not None}
            if self.ending is None:
                self.ending = self._index_failure(completions, now)
            self.delayed = self._find_delayed()
        if self.ending is None:
            rule = indexes.success_rule(job, self.succeeded_indexes)
            if rule is not None:
                self.ending = model.condition(
                    model.SUCCESS_CRITERIA_MET,
                    "True",
                    "SuccessPolicy",
                    f"Matched rules at index {rule}",
                    now,
                )

    def _index_failure(self, completions: int, now: float) -> Object | None:
        failed, limit = len(self.failed_indexes or ()), self._job["spec"].get("maxFailedIndexes")
        if limit is not None and failed > limit:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return self._failure("MaxFailedIndexesExceeded", text, now)
        if failed and failed + len(self.succeeded_indexes) >= completions:
            return self._failure("FailedIndexes", "Job has failed indexes", now)
        return None

    def _find_delayed(self) -> dict[int, Object]:
        taken = indexes.indexes_of(self.active) | self.succeeded_indexes | (self.failed_indexes or set())
        found: dict[int, Object] = {}
        for pod in self._uncounted_pods((), self.has_failed):
            index = indexes.valid_index(pod, self._job)
            if index is None or index in taken:
                continue
            known = found.get(index)
            if known is None or (
                failures.all_index_failures(known) <= failures.all_index_failures(pod)
                and failures.finished_at(pod) >= failures.finished_at(known)
            ):
                found[index] = pod
        return found
