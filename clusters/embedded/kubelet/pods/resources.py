"""Amounts that a Pod and its containers ask for, with what node-allocatable claims add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from dra_api.quantity import Quantity

Amounts = dict[str, Quantity]
HUGEPAGES: Final = "hugepages-"


def parse_amounts(amounts: Mapping[str, Any] | None) -> Amounts:
    """Quantities by resource name, read."""
    return {name: Quantity.parse(str(text)) for name, text in (amounts or {}).items()}


def add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _maximum(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, quantity in other.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def _of_containers(pod: Object, field: str) -> Amounts:
    """Sum of regular containers and sidecars, or what initialization needs at once, whichever is more."""
    total: Amounts = {}
    sidecars: Amounts = {}
    init: Amounts = {}
    for container in objects.containers(pod):
        add(total, parse_amounts((container.get("resources") or {}).get(field)))
    for container in objects.init_containers(pod):
        needed = parse_amounts((container.get("resources") or {}).get(field))
        if objects.is_sidecar(container):
            add(total, needed)
            add(sidecars, needed)
            _maximum(init, dict(sidecars))
        else:
            add(needed, sidecars)
            _maximum(init, needed)
    _maximum(total, init)
    return total


def _claimed(pod: Object) -> Iterable[Object]:
    return objects.status(pod).get("nodeAllocatableResourceClaimStatuses") or []


def claim_amounts(pod: Object) -> Amounts:
    """What all node-allocatable claims of the Pod add to it."""
    total: Amounts = {}
    for claim in _claimed(pod):
        for mapping in claim.get("mapping") or []:
            add(total, parse_amounts({mapping["name"]: mapping.get("quantity") or "0"}))
        for overhead in claim.get("overhead") or []:
            amount = Quantity.parse(str(overhead.get("perPod") or "0"))
            amount += Quantity.parse(str(overhead.get("perContainer") or "0")) * len(
                claim.get("containers") or []
            )
            add(total, {overhead["name"]: amount})
    return total


def container_claim_amounts(pod: Object, name: str) -> Amounts:
    """What node-allocatable claims add to the limits of one container: everything, for each that refers to them."""
    total: Amounts = {}
    for claim in _claimed(pod):
        if name not in (claim.get("containers") or []):
            continue
        for mapping in claim.get("mapping") or []:
            add(total, parse_amounts({mapping["name"]: mapping.get("quantity") or "0"}))
        for overhead in claim.get("overhead") or []:
            for part in ("perPod", "perContainer"):
                add(total, parse_amounts({overhead["name"]: overhead.get(part) or "0"}))
    return total


def container_claim_memory(pod: Object, name: str) -> int:
    """Bytes of node-allocatable claims that count as requested by one container, for its OOM score."""
    total = 0
    for claim in _claimed(pod):
        sharers = claim.get("containers") or []
        if name not in sharers:
            continue
        shared = [item.get("quantity") for item in claim.get("mapping") or [] if item["name"] == "memory"]
        overheads = [item for item in claim.get("overhead") or [] if item["name"] == "memory"]
        shared += [item.get("perPod") for item in overheads]
        total += sum(Quantity.parse(str(text)).value() // len(sharers) for text in shared if text)
        alone = [item.get("perContainer") for item in overheads]
        total += sum(Quantity.parse(str(text)).value() for text in alone if text)
    return total


def pod_level(pod: Object, field: str) -> Amounts:
    """Requests or limits of the Pod itself, of the resources that may be given there."""
    amounts = parse_amounts((pod["spec"].get("resources") or {}).get(field))
    return {name: amount for name, amount in amounts.items() if is_pod_level(name)}


def is_pod_level(name: str) -> bool:
    """Whether a resource may be given for a Pod as a whole."""
    return name in ("cpu", "memory") or name.startswith(HUGEPAGES)


def requested(pod: Object, *, node_allocatable: bool) -> Amounts:
    """Effective requests of the Pod."""
    total = _of_containers(pod, "requests")
    if node_allocatable:
        add(total, claim_amounts(pod))
    total.update(pod_level(pod, "requests"))
    add(total, parse_amounts(pod["spec"].get("overhead")))
    return total


def _limited(pod: Object, *, node_allocatable: bool) -> Amounts:
    total = _of_containers(pod, "limits")
    if node_allocatable:
        claimed = claim_amounts(pod)
        add(total, {key: item for key, item in claimed.items() if key in total or key.startswith(HUGEPAGES)})
    total.update(pod_level(pod, "limits"))
    overhead = parse_amounts(pod["spec"].get("overhead"))
    add(total, {key: item for key, item in overhead.items() if key in total and not total[key].is_zero()})
    return total


def _written(amounts: Amounts) -> dict[str, str]:
    return {name: amount.canonical() for name, amount in sorted(amounts.items())}


def pod_requests(pod: Object, *, node_allocatable: bool) -> dict[str, str]:
    """Effective requests as the API writes them."""
    return _written(requested(pod, node_allocatable=node_allocatable))


def pod_limits(pod: Object, *, node_allocatable: bool) -> dict[str, str]:
    """Effective limits as the API writes them."""
    return _written(_limited(pod, node_allocatable=node_allocatable))
