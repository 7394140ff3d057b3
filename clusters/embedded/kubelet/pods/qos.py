"""Quality of service: the class of a Pod, and what cgroups of its containers get."""

from __future__ import annotations

from typing import Final

from clusters.containers.model import LinuxResources
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.resources import (
    HUGEPAGES,
    Amounts,
    container_claim_amounts,
    container_claim_memory,
    parse_amounts,
    pod_level,
)
from dra_api import defaults_pod_level
from dra_api.quantity import Quantity

_PERIOD: Final = 100_000
_MIN_QUOTA: Final = 1000
_MIN_SHARES, _MAX_SHARES = 2, 262_144
_GUARANTEED_SCORE, _BEST_EFFORT_SCORE = -997, 1000
_CRITICAL_PRIORITY: Final = 2_000_001_000
# Names that the kernel has for page sizes, by the suffix of the resource.
_BINARY_UNITS: Final = (("Gi", 1 << 30, "GB"), ("Mi", 1 << 20, "MB"), ("Ki", 1 << 10, "KB"))


def qos_class(pod: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    return defaults_pod_level.qos_class(pod["spec"])


def linux_resources(
    pod: Object, container: Object, memory_capacity: int, *, node_allocatable: bool
) -> LinuxResources:
    """Limits of a container.

    Node-allocatable claims raise limits that the container declares (hugepages in any case), never CPU shares.
    """
    resources = container.get("resources") or {}
    requests, limits = parse_amounts(resources.get("requests")), parse_amounts(resources.get("limits"))
    claimed = container_claim_amounts(pod, container["name"]) if node_allocatable else {}
    plain_cpu = _limit(pod, limits, {}, "cpu")
    cpu = _limit(pod, limits, claimed, "cpu")
    share_source = requests.get("cpu", plain_cpu)
    quota = 0
    if cpu is not None and not cpu.is_zero():
        quota = max(cpu.milli_value() * _PERIOD // 1000, _MIN_QUOTA)
    memory = _limit(pod, limits, claimed, "memory")
    return LinuxResources(
        cpu_period=_PERIOD,
        cpu_quota=quota,
        cpu_shares=_shares(share_source),
        memory_limit_in_bytes=memory.value() if memory is not None else 0,
        oom_score_adj=oom_score(pod, container, memory_capacity, node_allocatable=node_allocatable),
        hugepage_limits=_hugepages(pod, limits, claimed),
    )


def _limit(pod: Object, limits: Amounts, claimed: Amounts, name: str) -> Quantity | None:
    own = limits.get(name)
    if own is None or own.is_zero():
        return pod_level(pod, "limits").get(name, own)
    return own + claimed[name] if name in claimed else own


def _shares(cpu: Quantity | None) -> int:
    if cpu is None or cpu.is_zero():
        return _MIN_SHARES
    return min(max(cpu.milli_value() * 1024 // 1000, _MIN_SHARES), _MAX_SHARES)


def _hugepages(pod: Object, limits: Amounts, claimed: Amounts) -> dict[str, int]:
    result: dict[str, int] = {}
    whole = pod_level(pod, "limits")
    for name in sorted({*limits, *claimed, *whole}):
        if not name.startswith(HUGEPAGES):
            continue
        if name in limits:
            amount = limits[name] + claimed[name] if name in claimed else limits[name]
        else:
            amount = whole[name] if name in whole else claimed[name]
        result[_page_size(name)] = amount.value()
    return result


def _page_size(name: str) -> str:
    size = Quantity.parse(name.removeprefix(HUGEPAGES)).value()
    for _, factor, unit in _BINARY_UNITS:
        if size >= factor:
            return f"{size // factor}{unit}"
    return f"{size}B"


def oom_score(pod: Object, container: Object, memory_capacity: int, *, node_allocatable: bool) -> int:
    """oom_score_adj of a container: the less of the node's memory it asks for, the sooner it is killed."""
    if (pod["spec"].get("priority") or 0) >= _CRITICAL_PRIORITY:
        return _GUARANTEED_SCORE
    quality = qos_class(pod)
    if quality == "Guaranteed":
        return _GUARANTEED_SCORE
    if quality == "BestEffort" or memory_capacity <= 0:
        return _BEST_EFFORT_SCORE
    request = _memory(container)
    if node_allocatable:
        request += container_claim_memory(pod, container["name"])
    spare = _spare_memory(pod)
    score = 1000 - 1000 * (request + spare) // memory_capacity
    if objects.is_sidecar(container) and container in objects.init_containers(pod):
        least = min((_memory(item) for item in objects.containers(pod)), default=0) + spare
        score = min(score, 1000 - 1000 * least // memory_capacity)
    if score < 1000 + _GUARANTEED_SCORE:
        return 1000 + _GUARANTEED_SCORE
    return score - 1 if score == _BEST_EFFORT_SCORE else score


def _memory(container: Object) -> int:
    text = ((container.get("resources") or {}).get("requests") or {}).get("memory")
    return Quantity.parse(str(text)).value() if text else 0


def _spare_memory(pod: Object) -> int:
    """Of a memory request of the Pod itself, what its containers do not ask for, shared among them."""
    whole = pod_level(pod, "requests").get("memory")
    if whole is None:
        return 0
    everyone = [container for _, _, container in objects.all_containers(pod)]
    counted = [item for item in everyone if item in objects.containers(pod) or objects.is_sidecar(item)]
    rest = whole.value() - sum(_memory(item) for item in counted)
    return max(rest, 0) // len(counted) if counted else 0
