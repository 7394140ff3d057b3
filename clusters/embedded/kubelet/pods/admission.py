"""Whether a kubelet takes a Pod that was bound to its node."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.node_selection import node_allowed
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.resources import Amounts, add, parse_amounts, requested
from dra_api.quantity import Quantity

_OS = platform.system().lower()
_OS_LABEL = "kubernetes.io/os"


@dataclass(frozen=True)
class Rejection:
    """Why a Pod is refused: reason of its status, and the message of the event."""

    reason: str
    message: str


def admit(pod: Object, others: Sequence[Object], node: Object, *, node_allocatable: bool) -> Rejection | None:
    """Check a new Pod against its node; None admits it.

    Args:
        pod: the Pod.
        others: the active Pods of the node without it.
        node: the Node object.
        node_allocatable: whether amounts of node-allocatable claims count.
    """
    wanted_os = (pod["metadata"].get("labels") or {}).get(_OS_LABEL)
    if wanted_os is not None and wanted_os != _OS:
        return Rejection(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if (pod["spec"].get("os") or {}).get("name", _OS) != _OS:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    allocatable = parse_amounts((node.get("status") or {}).get("allocatable"))
    rejection = _fits(pod, others, allocatable, node_allocatable=node_allocatable)
    if rejection is not None:
        return rejection
    if not node_allowed(pod, node):
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if not _ports_free(pod, others):
        return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if _untolerated(pod, node):
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _predicate(name: str, text: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {text}")


def _fits(
    pod: Object, others: Sequence[Object], allocatable: Amounts, *, node_allocatable: bool
) -> Rejection | None:
    if "pods" in allocatable and len(others) + 1 > allocatable["pods"].value():
        return _insufficient("pods", 1, len(others), allocatable["pods"].value())
    used: Amounts = {}
    for other in others:
        add(used, requested(other, node_allocatable=node_allocatable))
    wanted = requested(_without_foreign(pod, allocatable), node_allocatable=node_allocatable)
    names = [
        "cpu",
        "memory",
        "ephemeral-storage",
        *sorted(wanted.keys() - {"cpu", "memory", "ephemeral-storage"}),
    ]
    for name in names:
        amount = wanted.get(name)
        if amount is None or amount.is_zero():
            continue
        free = _whole(name, allocatable.get(name)) - _whole(name, used.get(name))
        if _whole(name, amount) > free:
            return _insufficient(
                name, _whole(name, amount), _whole(name, used.get(name)), _whole(name, allocatable.get(name))
            )
    return None


def _whole(name: str, amount: Quantity | None) -> int:
    if amount is None:
        return 0
    return amount.milli_value() if name == "cpu" else amount.value()


def _insufficient(name: str, wanted: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}",
    )


def _without_foreign(pod: Object, allocatable: Mapping[str, Quantity]) -> Object:
    """The Pod without requests of extended resources that the node does not have, or that a claim provides."""
    status = objects.status(pod).get("extendedResourceClaimStatus") or {}
    mapped = {(item["containerName"], item["resourceName"]) for item in status.get("requestMappings") or []}

    def kept(container: Object, name: str) -> bool:
        if "/" not in name and not name.startswith("requests."):
            return True
        return name in allocatable and (container["name"], name) not in mapped

    def cut(container: Object) -> Object:
        resources = dict(container.get("resources") or {})
        amounts = resources.get("requests") or {}
        resources["requests"] = {name: item for name, item in amounts.items() if kept(container, name)}
        return {**container, "resources": resources}

    spec = dict(pod["spec"])
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [cut(container) for container in spec[field]]
    return {**pod, "spec": spec}


def _host_ports(pod: Object) -> set[tuple[str, str, int]]:
    found = set()
    for _, _, container in objects.all_containers(pod):
        for port in container.get("ports") or []:
            if number := port.get("hostPort"):
                found.add((port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return found


def _ports_free(pod: Object, others: Sequence[Object]) -> bool:
    wanted = _host_ports(pod)
    if not wanted:
        return True
    for other in others:
        for protocol, address, number in _host_ports(other):
            for own_protocol, own_address, own_number in wanted:
                same_address = "0.0.0.0" in (address, own_address) or address == own_address
                if (protocol, number) == (own_protocol, own_number) and same_address:
                    return False
    return True


def _untolerated(pod: Object, node: Object) -> bool:
    tolerations = pod["spec"].get("tolerations") or []
    for taint in node["spec"].get("taints") or [] if node.get("spec") else []:
        if taint.get("effect") == "NoExecute" and not any(_tolerates(item, taint) for item in tolerations):
            return True
    return False


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
