"""Pods against quotas: their number, what they request and are limited to, by scopes.

Resources of a Pod that is being resized count as its spec says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from clusters.embedded.quota.amounts import Amounts, add, count, largest, parse
from clusters.embedded.quota.evaluator import CREATE, UPDATE, Evaluator, GroupResource, Object, ScopeSelector
from dra_api.defaults_pod_level import qos_class
from dra_api.quantity import Quantity
from dra_api.validation.formats import extended_resource_problems

REQUESTS: Final = "requests."
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
_HUGE_PAGES: Final = "hugepages-"
_MEASURED: Final = ("cpu", "memory", "ephemeral-storage")
_REQUIRED: Final = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
_POD_LEVEL: Final = ("cpu", "memory")


def is_extended_for_quota(name: str) -> bool:
    """Whether a name of a quota limits an extended resource."""
    if not name.startswith(REQUESTS):
        return False
    native = "/" not in name or "kubernetes.io/" in name
    return not native or name.startswith(REQUESTS + CLASS_PREFIX)


class PodEvaluator(Evaluator):
    """Pods."""

    full_objects = True

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: seconds since 1970, for pods that should have ended."""
        super().__init__(GroupResource("", "pods"), "pods")
        self._now = now
        self.names = (
            *self.names,
            *(f"{prefix}{name}" for prefix in ("", REQUESTS, "limits.") for name in _MEASURED),
        )

    def handles(self, operation: str, subresource: str, new: Object, old: Object) -> bool:
        """New pods, and those that come under another scope."""
        if subresource == "resize":
            return operation == UPDATE
        if subresource:
            return False
        return operation == CREATE or (operation == UPDATE and _terminates(new) != _terminates(old))

    def matching(self, names: Iterable[str]) -> list[str]:
        """See Evaluator."""
        return [
            name
            for name in names
            if name in self.names
            or name.startswith((_HUGE_PAGES, REQUESTS + _HUGE_PAGES))
            or is_extended_for_quota(name)
        ]

    def missing(self, names: Collection[str], obj: Object) -> str:
        """Where cpu or memory is limited, each container has to say how much it wants."""
        spec = obj.get("spec") or {}
        if _pod_level(spec, "requests") or _pod_level(spec, "limits"):
            return ""
        required = _REQUIRED.intersection(names)
        lacking: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            present = _usage_of(parse(resources.get("requests")), parse(resources.get("limits")))
            for name in required - present.keys():
                lacking.setdefault(name, set()).add(container.get("name", ""))
        texts = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
        return f"must specify {'; '.join(texts)}" if texts else ""

    def in_scope(self, selector: ScopeSelector, obj: Object) -> bool:
        """See Evaluator."""
        spec = obj.get("spec") or {}
        match selector.name:
            case "Terminating":
                return _terminates(obj)
            case "NotTerminating":
                return not _terminates(obj)
            case "BestEffort":
                return str(qos_class(spec)) == "BestEffort"
            case "NotBestEffort":
                return str(qos_class(spec)) != "BestEffort"
            case "PriorityClass":
                return _has_priority(selector, spec.get("priorityClassName") or "")
            case "CrossNamespacePodAffinity":
                return _crosses_namespaces(spec.get("affinity") or {})
        return False

    def usage(self, obj: Object) -> Amounts:
        """The object itself always counts, the rest only until it has ended."""
        counted = {self.resource.count_name: count(1)}
        if not self._is_charged(obj):
            return counted
        spec = obj.get("spec") or {}
        return add(counted, _usage_of(_total(spec, "requests"), _total(spec, "limits")))

    def freed(self, old: Object, new: Object) -> bool:
        """A pod that ended or came under another scope."""
        return _terminates(old) != _terminates(new) or (self._is_charged(old) and not self._is_charged(new))

    def _is_charged(self, pod: Object) -> bool:
        if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return False
        metadata = pod.get("metadata") or {}
        grace = metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" not in metadata or grace is None:
            return True
        end = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
        return self._now() <= end + float(grace)


def _usage_of(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Amounts:
    result: Amounts = {"pods": count(1)}
    for name in _MEASURED:
        if name in requests:
            result[name] = result[f"{REQUESTS}{name}"] = requests[name]
        if name in limits:
            result[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith(_HUGE_PAGES):
            result[name] = result[f"{REQUESTS}{name}"] = amount
        elif name.startswith(CLASS_PREFIX) or ("/" in name and not extended_resource_problems(name)):
            result[f"{REQUESTS}{name}"] = amount
    return result


def _total(spec: Mapping[str, Any], field: str) -> Amounts:
    """Requests or limits of all containers together, at the moment when they are largest."""

    def of(container: Mapping[str, Any]) -> Amounts:
        return parse((container.get("resources") or {}).get(field))

    result: Amounts = {}
    for container in spec.get("containers") or ():
        result = add(result, of(container))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = of(container)
        if container.get("restartPolicy") == "Always":
            result = add(result, own)
            sidecars = add(sidecars, own)
            own = sidecars
        else:
            own = add(own, sidecars)
        peak = largest(peak, own)
    result = {**largest(result, peak), **_pod_level(spec, field)}
    overhead = parse(spec.get("overhead"))
    if field == "requests":
        return add(result, overhead)
    # Limits grow by the overhead only where there is a limit.
    return add(result, {name: overhead[name] for name in overhead if name in result})


def _pod_level(spec: Mapping[str, Any], field: str) -> Amounts:
    resources = parse((spec.get("resources") or {}).get(field))
    return {
        name: amount
        for name, amount in resources.items()
        if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)
    }


def _terminates(pod: Object) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _has_priority(selector: ScopeSelector, name: str) -> bool:
    match selector.operator:
        case "In":
            return name in selector.values
        case "NotIn":
            return name not in selector.values
        case "DoesNotExist":
            return not name
    return bool(name)


def _crosses_namespaces(affinity: Mapping[str, Any]) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
