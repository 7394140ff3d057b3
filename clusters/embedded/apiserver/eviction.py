"""POST pods/NAME/eviction: a delete that asks the disruption budgets first (api-machinery section 13).

Source: kubernetes v1.37.2 `pkg/registry/core/pod/storage/eviction.go`. Requests are atomic here, so nothing of its
retries is needed.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.api_status import ApiError, bad_request, not_found
from clusters.embedded.apiserver import options
from clusters.embedded.apiserver.call import Call, Reply
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.handlers import delete as deletion
from clusters.embedded.apiserver.handlers.write import write_options
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.storage import Object, ResourceKey
from clusters.embedded.apiserver.strategies.pod import condition, set_condition
from clusters.embedded.apiserver.subresources import SUCCESS, admit, body_of
from clusters.embedded.apiserver.times import timestamp
from dra_api.label_selector import LabelSelectorError, matches
from dra_api.schema import GVK

_BUDGETS: Final = ResourceKey("policy", "poddisruptionbudgets")
_PODS: Final = ResourceKey("", "pods")
_SEVERAL: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE: Final = "DisruptionBudget"
_PENDING_MAX: Final = 2000


def evict_pod(call: Call, served: Served) -> Reply:
    """Evict one pod, or refuse because of its budget."""
    chosen = write_options(call, "CreateOptions")
    eviction = body_of(call, GVK("policy", "v1", "Eviction"), chosen)
    name = eviction["metadata"].get("name", "")
    if name != call.info.name:
        raise bad_request("name in URL does not match name in Eviction object")
    eviction = admit(call, served, "Eviction", name, eviction, chosen)
    body = dict(eviction.get("deleteOptions") or {})
    if chosen.dry_run:
        body["dryRun"] = ["All"]
    wanted = options.delete_options_of_body(body)
    pod = call.api.store.get(*_PODS, call.info.namespace, name)
    if pod is None:
        raise not_found("pods", "", name)
    deletion.check_preconditions(served, pod, wanted)
    if not _ignores_budgets(pod):
        _ask_budgets(call, pod, dry_run=bool(wanted.dry_run))
    if not wanted.dry_run:
        call.api.store.update(_PODS, _targeted(pod, timestamp(call.api.now())))
    # Admission has seen the eviction; it does not see a DELETE in addition.
    unconditional = options.delete_options_of_body({**body, "preconditions": None})
    deletion.remove(call, served, name, unconditional, admit=False)
    return Reply(dict(SUCCESS), 201, kind="status")


def _ignores_budgets(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _targeted(pod: Object, now: str) -> Object:
    """The pod with the condition that tells why it goes."""
    new: Object = copied(pod)
    gone = condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
    set_condition(new.setdefault("status", {}), gone, now)
    return new


def _ask_budgets(call: Call, pod: Object, *, dry_run: bool) -> None:
    labels = pod["metadata"].get("labels")
    budgets = [b for b in call.api.store.list(*_BUDGETS, call.info.namespace) if _selects(b, labels)]
    if not budgets:
        return
    if len(budgets) > 1:
        raise ApiError(500, "", _SEVERAL)
    budget = budgets[0]
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    if not _is_ready(pod):
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= desired > 0:
            return
    _check_allowed(budget, status)
    if not dry_run:
        new: Object = copied(budget)
        new["status"]["disruptionsAllowed"] -= 1
        pending = new["status"].setdefault("disruptedPods", {})
        pending[pod["metadata"]["name"]] = timestamp(call.api.now())
        call.api.store.update(_BUDGETS, new)


def _selects(budget: Object, labels: Any) -> bool:
    try:
        return matches((budget.get("spec") or {}).get("selector"), labels)
    except LabelSelectorError:
        return False


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _check_allowed(budget: Object, status: dict[str, Any]) -> None:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        text = f"The disruption budget {name} is still being processed by the server."
        raise _too_many(text, retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    start = f"The disruption budget {name} does not allow evicting pods currently"
    if allowed < 0:
        why = "pdb disruptions allowed is negative"
        raise _forbidden(name, why, f"{start}: {why}")
    if len(status.get("disruptedPods") or {}) > _PENDING_MAX:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(name, why, f"{start}: too many pending evictions not confirmed by PDB controller")
    if allowed > 0:
        return
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    conditions = status.get("conditions") or []
    allowing: Object = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), {})
    told = allowing.get("status") == "False" and allowing.get("message")
    if told and allowing.get("reason") == "SyncFailed":
        text = f"{start} because it failed sync: {allowing['message']}"
    elif healthy <= desired:
        text = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    elif told:
        text = f"{start} ({allowing.get('reason', '')}): {allowing['message']}"
    else:
        text = start
    raise _too_many(text)


def _too_many(text: str, retry_after: int = 0) -> ApiError:
    details: dict[str, Any] = {"causes": [{"reason": _CAUSE, "message": text}]}
    headers = {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    return ApiError(429, "TooManyRequests", _VIOLATED, details, headers)


def _forbidden(name: str, why: str, text: str) -> ApiError:
    causes = [{"reason": _CAUSE, "message": text}]
    details = {"name": name, "group": "policy", "kind": "poddisruptionbudget", "causes": causes}
    message = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, details)
