"""The disruption controller: how many Pods of a PodDisruptionBudget may be evicted now.

Source of rules, reasons and texts: kubernetes v1.37.2 `pkg/controller/disruption`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.client import ClientError
from clusters.clock import parse_stamp, stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.component import Context
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.controller import Controller, Key, Written, changed_key, key_of
from clusters.embedded.controllers.numbers import scaled
from clusters.embedded.controllers.pods import (
    controller_of,
    is_deleted,
    is_ready,
    is_terminal,
    labels_of,
    pod_condition,
)
from dra_api.label_selector import LabelSelectorError, matches

_POLICY: Final = "policy/v1"
_BUDGETS: Final = "poddisruptionbudgets"
_SCALED: Final = {"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}
_NOT_SCALED: Final = {
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
    "CronJob": "cronjobs.batch",
    "Node": "nodes",
}
# An eviction without a deletion is forgotten after this time, and so is the condition that tells of it; seconds.
_DELETION_TIMEOUT: Final = 120.0
_POD: Final = "pod/"
_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


class _CountError(Exception):
    """The number of Pods that should be there is unknown; the text says why."""


class DisruptionController(Controller):
    """Keeps the status of PodDisruptionBudgets, and clears the marks of evictions that did not happen."""

    name = "disruption-controller"

    async def run(self, context: Context) -> None:
        """Work until cancelled."""
        self._reader = context.reader
        await super().run(context)

    def set_up(self) -> Sequence[Informer]:
        """Watch budgets, Pods and what makes Pods."""
        self.recorder = EventRecorder(self.client, "controllermanager", self.clock)
        self._budgets = Informer(self._reader, _POLICY, _BUDGETS)
        self._pods = Informer(self._reader, "v1", "pods")
        self._owners = {
            kind: Informer(self._reader, "apps/v1", resource) for kind, resource in _SCALED.items()
        }
        self._written = Written({_BUDGETS: self._budgets})
        self._budgets.add_handler(lambda old, new: self.queue.add(changed_key(old, new)))
        self._pods.add_handler(self._on_pod)
        for informer in self._owners.values():
            informer.add_handler(self._on_owner)
        return self._budgets, self._pods, *self._owners.values()

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        for pod in (old, new):
            if pod is not None:
                self._add_budgets(pod["metadata"]["namespace"], labels_of(pod))
        if new is not None and (left := self._stale_in(new)) is not None:
            namespace, name = key_of(new)
            self.queue.add_after((namespace, _POD + name), max(left, 0.0))

    def _on_owner(self, old: Object | None, new: Object | None) -> None:
        """A new scale changes what percentages mean."""
        if old is None or new is None or old["spec"].get("replicas") != new["spec"].get("replicas"):
            changed = new or old or {}
            labels = changed["spec"]["template"]["metadata"].get("labels") or {}
            self._add_budgets(changed["metadata"]["namespace"], labels)

    def _add_budgets(self, namespace: str, labels: Mapping[str, str]) -> None:
        for budget in self._budgets.items():
            if budget["metadata"]["namespace"] == namespace and _selects(budget, labels):
                self.queue.add(key_of(budget))

    async def sync(self, key: Key) -> None:
        """Count Pods and write the status of a budget, or clear the mark of a Pod."""
        if key[1].startswith(_POD):
            await self._clear(key[0], key[1].removeprefix(_POD))
            return
        if not self._written.seen(key):
            self.again_soon(key)
            return
        budget = self._budgets.get(*key)
        if budget is None:
            self._written.forget(key)
            return
        try:
            status, again = self._status(budget)
        except _CountError as error:
            text = f"Failed to calculate the number of expected pods: {error}"
            self.recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", text)
            status, again = self._failed(budget, str(error)), None
        if status != (budget.get("status") or {}):
            new = {**budget, "status": status}
            self._written.note(key, _BUDGETS, await self.client.update(_POLICY, _BUDGETS, new, "status"))
        if again is not None:
            self.queue.add_after(key, again)

    def _status(self, budget: Object) -> tuple[Object, float | None]:
        """The status, and in how many seconds to look again. Raises _CountError."""
        now = self.clock.now()
        namespace = budget["metadata"]["namespace"]
        pods = [
            pod
            for pod in self._pods.items()
            if pod["metadata"]["namespace"] == namespace and _selects(budget, labels_of(pod))
        ]
        if not pods:
            self.recorder.event(budget, "Normal", "NoPods", "No matching pods found")
        expected, desired = self._expected(budget, pods)
        known = (budget.get("status") or {}).get("disruptedPods") or {}
        disrupted, ends = {}, []
        for pod in pods:
            name = pod["metadata"]["name"]
            if is_deleted(pod) or name not in known:
                continue
            end = parse_stamp(known[name]) + _DELETION_TIMEOUT
            if end < now:
                text = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                self.recorder.event(pod, "Warning", "NotDeleted", text)
            else:
                disrupted[name] = known[name]
                ends.append(end - now)
        healthy = sum(
            is_ready(pod) for pod in pods if not is_deleted(pod) and pod["metadata"]["name"] not in disrupted
        )
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        generation = budget["metadata"].get("generation", 0)
        status: Object = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status["conditions"] = self._conditions(budget, allowed > 0, reason, "", generation)
        return status, min(ends, default=None)

    def _expected(self, budget: Object, pods: Sequence[Object]) -> tuple[int, int]:
        """How many Pods there should be and how many of them healthy. Raises _CountError."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            total = self._scale(budget, pods)
            return total, max(total - scaled(spec["maxUnavailable"], total, up=True), 0)
        least = spec.get("minAvailable")
        if isinstance(least, str):
            total = self._scale(budget, pods)
            return total, scaled(least, total, up=True)
        # Without either, upstream leaves both numbers at zero.
        return (len(pods), least) if least is not None else (0, 0)

    def _scale(self, budget: Object, pods: Sequence[Object]) -> int:
        """The sum of what the controllers of the Pods want. Raises _CountError."""
        scales: dict[str, int] = {}
        unmanaged = False
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                unmanaged = True
            elif owner["uid"] not in scales:
                uid, scale = self._scale_of(owner, pod)
                scales[uid] = scale
        if unmanaged:
            text = _UNMANAGED.format(_go_selector(budget["spec"].get("selector") or {}))
            self.recorder.event(budget, "Warning", "UnmanagedPods", text)
        return sum(scales.values())

    def _scale_of(self, owner: Mapping[str, Any], pod: Object) -> tuple[str, int]:
        namespace = pod["metadata"]["namespace"]
        if owner["kind"] in _NOT_SCALED:
            raise _CountError(f"{_NOT_SCALED[owner['kind']]} does not implement the scale subresource")
        found = self._owner(owner, namespace)
        if found is None:
            raise _CountError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
        above = controller_of(found)
        if owner["kind"] == "ReplicaSet" and above is not None and above["kind"] == "Deployment":
            found = self._owner(above, namespace) or found
        return str(found["metadata"]["uid"]), int(found["spec"].get("replicas", 1))

    def _owner(self, owner: Mapping[str, Any], namespace: str) -> Object | None:
        informer = self._owners.get(owner["kind"])
        found = informer.get(namespace, owner["name"]) if informer is not None else None
        return found if found is not None and found["metadata"]["uid"] == owner["uid"] else None

    def _failed(self, budget: Object, text: str) -> Object:
        """The status that allows no evictions because the right one is not known."""
        status: Object = copy.deepcopy(budget.get("status") or {})
        status["disruptionsAllowed"] = 0
        generation = status.get("observedGeneration", 0)
        status["conditions"] = self._conditions(budget, False, "SyncFailed", text, generation)
        return status

    def _conditions(
        self, budget: Object, allowed: bool, reason: str, message: str, generation: int
    ) -> list[Object]:
        old = (budget.get("status") or {}).get("conditions") or []
        before: Object = next((one for one in old if one["type"] == "DisruptionAllowed"), {})
        status = "True" if allowed else "False"
        same = before.get("status") == status
        condition = {
            "type": "DisruptionAllowed",
            "status": status,
            "observedGeneration": generation,
            "lastTransitionTime": before["lastTransitionTime"] if same else stamp(self.clock.now()),
            "reason": reason,
            "message": message,
        }
        return [one for one in old if one["type"] != "DisruptionAllowed"] + [condition]

    def _stale_in(self, pod: Object) -> float | None:
        """Seconds until the mark of an eviction that did not happen is cleared; None when there is none."""
        condition = pod_condition(pod, "DisruptionTarget")
        if condition is None or condition["status"] != "True" or is_deleted(pod) or is_terminal(pod):
            return None
        if condition.get("reason") == "TerminationByKubelet":
            return None
        return parse_stamp(condition["lastTransitionTime"]) + _DELETION_TIMEOUT - self.clock.now()

    async def _clear(self, namespace: str, name: str) -> None:
        pod = self._pods.get(namespace, name)
        left = self._stale_in(pod) if pod is not None else None
        if pod is None or left is None:
            return
        if left > 0:
            self.queue.add_after((namespace, _POD + name), left)
            return
        new = copy.deepcopy(pod)
        for condition in new["status"]["conditions"]:
            if condition["type"] == "DisruptionTarget":
                condition.update(status="False", lastTransitionTime=stamp(self.clock.now()))
                condition.pop("reason", None)
                condition.pop("message", None)
        try:
            await self.client.update("v1", "pods", new, "status")
        except ClientError as error:
            if error.code != 404:
                raise


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    try:
        return matches(budget["spec"].get("selector"), labels)
    except LabelSelectorError:
        return False


def _go_selector(selector: Mapping[str, Any]) -> str:
    """A label selector as Go prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or [])}],}},"
        for one in selector.get("matchExpressions") or []
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
