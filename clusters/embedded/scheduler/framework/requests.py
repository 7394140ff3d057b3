"""What pods ask for, as whole numbers: cpu in millicores, everything else in its own unit.

Source: component-helpers v0.37.2 `resource/helpers.go`, kubernetes v1.37.2 `pkg/scheduler/framework/types.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from dra_api.quantity import Quantity

from .events import Object

Amounts = dict[str, int]
Container = Mapping[str, Any]
_ContainerAmounts = Callable[[Container], Mapping[str, str]]

CPU: Final = "cpu"
MEMORY: Final = "memory"
DEFAULT_REQUESTS: Final[Mapping[str, int]] = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""What a container without a request counts as when nodes are compared."""
_HUGE_PAGES: Final = "hugepages-"


@lru_cache(maxsize=8192)
def amount(name: str, text: str) -> int:
    """A quantity of a resource, rounded up."""
    quantity = Quantity.parse(text)
    return quantity.milli_value() if name == CPU else quantity.value()


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A resource list."""
    return {name: amount(name, str(text)) for name, text in (resources or {}).items()}


def pod_requests(pod: Object, defaults: Mapping[str, int] | None = None) -> Amounts:
    """The requests of a pod that waits: its containers, what its init containers need at least, overhead.

    `defaults` stand in for requests that a container does not name.
    """
    return _total(pod, _aggregate(pod, _specified, defaults))


def running_requests(pod: Object, defaults: Mapping[str, int] | None = None) -> Amounts:
    """The requests of a pod on a node: while a resize is going on, the largest of wanted, allocated and actual."""
    status = pod.get("status") or {}
    specified = _aggregate(pod, _specified, defaults)
    if status.get("containerStatuses") or status.get("initContainerStatuses"):
        infeasible = _is_resize_infeasible(status)
        allocated, actual = _from_status(status, infeasible)
        parts = [_aggregate(pod, allocated, defaults), _aggregate(pod, actual, defaults)]
        specified = largest(parts if infeasible else [specified, *parts])
    return _total(pod, specified)


def scoring_defaults(pod: Object, requests: Amounts) -> Mapping[str, int]:
    """The stand-ins for requests when the load of a node is summed up."""
    if not _pod_level(pod):
        return DEFAULT_REQUESTS
    return {name: value for name, value in DEFAULT_REQUESTS.items() if name not in requests}


def add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add amounts."""
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def largest(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """The largest amount of each resource."""
    result: Amounts = {}
    for part in parts:
        for name, value in part.items():
            result[name] = max(result.get(name, value), value)
    return result


def _total(pod: Object, total: Amounts) -> Amounts:
    total.update(_pod_level(pod))
    add(total, amounts(pod["spec"].get("overhead")))
    return total


def _pod_level(pod: Object) -> Amounts:
    """Requests of the pod as a whole, which stand for those of its containers."""
    requests = (pod["spec"].get("resources") or {}).get("requests") or {}
    return {
        name: amount(name, str(text))
        for name, text in requests.items()
        if name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)
    }


def _aggregate(pod: Object, of: _ContainerAmounts, defaults: Mapping[str, int] | None) -> Amounts:
    spec = pod["spec"]

    def of_one(container: Container) -> Amounts:
        return {**(defaults or {}), **amounts(of(container))}

    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, of_one(container))
    sidecars: Amounts = {}
    peaks: list[Amounts] = [total]
    for container in spec.get("initContainers") or ():
        own = of_one(container)
        if container.get("restartPolicy") == "Always":
            add(total, own)
            add(sidecars, own)
            peaks.append(dict(sidecars))
        else:
            add(own, sidecars)
            peaks.append(own)
    return largest(peaks)


def _specified(container: Container) -> Mapping[str, str]:
    return (container.get("resources") or {}).get("requests") or {}


def _from_status(status: Mapping[str, Any], infeasible: bool) -> tuple[_ContainerAmounts, _ContainerAmounts]:
    """Readers of what the kubelet has allocated and what the containers really have."""
    entries = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    found = {entry["name"]: entry for entry in entries}

    def allocated(container: Container) -> Mapping[str, str]:
        given = found.get(container["name"], {}).get("allocatedResources")
        if given is None:
            return {} if infeasible else _specified(container)
        return given or {}

    def actual(container: Container) -> Mapping[str, str]:
        used = (found.get(container["name"], {}).get("resources") or {}).get("requests")
        return allocated(container) if used is None else used or {}

    return allocated, actual


def _is_resize_infeasible(status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in status.get("conditions") or ()
    )
