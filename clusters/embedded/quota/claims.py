"""ResourceClaims against quotas: their number, and devices by class at the worst."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clusters.embedded.quota.amounts import Amounts, add, count
from clusters.embedded.quota.evaluator import CREATE, UPDATE, Evaluator, GroupResource, Object, Stored
from clusters.embedded.quota.pods import CLASS_PREFIX, REQUESTS, PodEvaluator, is_extended_for_quota
from dra_api.quantity import Quantity

_CLAIMS: Final = GroupResource("resource.k8s.io", "resourceclaims")
_PER_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_ALL: Final = 32
"""The most devices that an allocation can have."""
_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


class ClaimEvaluator(Evaluator):
    """ResourceClaims."""

    full_objects = True

    def __init__(self, stored: Stored, pods: PodEvaluator, *, extended: bool) -> None:
        """`extended`: whether devices count as the extended resources of their classes, too."""
        super().__init__(_CLAIMS)
        self._stored = stored
        self._pods = pods
        self._extended = extended

    def handles(self, operation: str, subresource: str, new: Object, old: Object) -> bool:
        """See Evaluator."""
        return operation in (CREATE, UPDATE) and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        """See Evaluator."""
        resources = self._resource_names() if self._extended else {}
        return [
            name
            for name in names
            if name in self.names or name.endswith(_PER_CLASS) or _is_extended(name, resources)
        ]

    def usage(self, obj: Object) -> Amounts:
        """See Evaluator."""
        result = super().usage(obj)
        for request in ((obj.get("spec") or {}).get("devices") or {}).get("requests") or []:
            result = add(result, _devices(request))
        if self._extended:
            result |= self._as_extended(result, self._accounted_for(obj))
        return result

    def _resource_names(self) -> dict[str, str]:
        """The name of the extended resource of each class, empty for a class without one."""
        classes = self._stored.list("resource.k8s.io", "deviceclasses")
        return {
            each["metadata"]["name"]: (each.get("spec") or {}).get("extendedResourceName") or ""
            for each in classes
        }

    def _as_extended(self, usage: Mapping[str, Quantity], accounted: Mapping[str, Quantity]) -> Amounts:
        """The devices once more as extended resources, without those that the pod itself is charged for."""
        found: Amounts = {}
        names = self._resource_names()
        for name, amount in usage.items():
            device_class = name.removesuffix(_PER_CLASS)
            if device_class == name or not device_class:
                continue
            found[f"{REQUESTS}{CLASS_PREFIX}{device_class}"] = amount
            if names.get(device_class):
                found[f"{REQUESTS}{names[device_class]}"] = amount
        left = {
            name: amount - accounted[name] if name in accounted else amount for name, amount in found.items()
        }
        return {name: amount for name, amount in left.items() if amount.sign > 0}

    def _accounted_for(self, claim: Object) -> Amounts:
        """The usage of the pod for whose extended resources a claim was made; nothing unless that is certain."""
        metadata = claim.get("metadata") or {}
        owner = _pod_owner(metadata)
        if owner is None:
            return {}
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        pod = self._stored.get("", "pods", namespace, owner["name"])
        if pod is None or pod["metadata"].get("uid") != owner.get("uid"):
            return {}
        status = (pod.get("status") or {}).get("extendedResourceClaimStatus")
        if status is not None:
            return self._pods.usage(pod) if status.get("resourceClaimName") == name else {}
        # Until the pod names its claim, the first one that it owns is taken for it.
        mine = metadata.get("creationTimestamp", ""), name
        for other in self._stored.list(*_CLAIMS, namespace):
            other_owner = _pod_owner(other["metadata"])
            if other_owner is None or other_owner.get("uid") != owner.get("uid"):
                continue
            if (other["metadata"].get("creationTimestamp", ""), other["metadata"]["name"]) < mine:
                return {}
        return self._pods.usage(pod)


def _is_extended(name: str, resources: Mapping[str, str]) -> bool:
    """Whether a name of a quota is that of an extended resource behind which a class stands."""
    wanted = name.removeprefix(REQUESTS)
    if not is_extended_for_quota(name):
        return False
    if wanted.startswith(CLASS_PREFIX):
        return wanted.removeprefix(CLASS_PREFIX) in resources
    return wanted in resources.values()


def _pod_owner(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pod that controls a claim made for extended resources."""
    if (metadata.get("annotations") or {}).get(_ANNOTATION) != "true":
        return None
    for owner in metadata.get("ownerReferences") or []:
        if owner.get("controller"):
            is_pod = (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod")
            return owner if is_pod else None
    return None


def _devices(request: Mapping[str, Any]) -> Amounts:
    """The most devices of each class that one request may get."""
    alternatives = request.get("firstAvailable") or []
    if alternatives:
        most: dict[str, int] = {}
        for alternative in alternatives:
            name = alternative.get("deviceClassName", "") + _PER_CLASS
            number = _number(alternative)
            if number > most.get(name, 0):
                most[name] = number
        return {name: count(number) for name, number in most.items()}
    exactly = request.get("exactly")
    if exactly is None:
        return {}
    return {exactly.get("deviceClassName", "") + _PER_CLASS: count(_number(exactly))}


def _number(request: Mapping[str, Any]) -> int:
    mode = request.get("allocationMode")
    if mode == "ExactCount":
        return int(request.get("count") or 0)
    return _ALL if mode == "All" else 0
