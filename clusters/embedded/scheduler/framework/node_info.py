"""A node together with the pods on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .events import Object
from .requests import CPU, MEMORY, Amounts, amounts, running_requests, scoring_defaults

Port = tuple[str, str, int]
"""Address, protocol, number of a host port."""
ANY_ADDRESS: Final = "0.0.0.0"


class PodInfo:
    """A pod with what it takes from its node."""

    __slots__ = ("compared_cpu", "compared_memory", "pod", "ports", "repels", "requests", "uid")

    def __init__(self, pod: Object) -> None:
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.requests: Amounts = running_requests(pod)
        compared = running_requests(pod, scoring_defaults(pod, self.requests))
        self.compared_cpu = compared.get(CPU, 0)
        self.compared_memory = compared.get(MEMORY, 0)
        self.ports = host_ports(pod)
        affinity = pod["spec"].get("affinity") or {}
        self.repels = bool(affinity.get("podAntiAffinity"))
        """Whether it may have anti-affinity against others."""


class NodeInfo:
    """A node with its pods, and sums over them. One that a snapshot shows is not changed any more."""

    __slots__ = (
        *("allocatable", "compared", "name", "node", "pods", "ports", "repelling"),
        *("requested", "shared", "taints"),
    )

    def __init__(self, node: Object | None = None) -> None:
        self.node: Object | None = None
        self.name = ""
        """The name of the node; empty while it is not known."""
        self.taints: Sequence[Mapping[str, Any]] = ()
        self.allocatable: Amounts = {}
        self.pods: dict[str, PodInfo] = {}
        self.requested: Amounts = {}
        self.compared: Amounts = {CPU: 0, MEMORY: 0}
        """Requested cpu and memory when pods without requests count as small ones."""
        self.ports: dict[Port, int] = {}
        self.repelling = 0
        """How many of the pods may have anti-affinity."""
        self.shared = False
        """Whether a snapshot shows this object."""
        self.set_node(node)

    @property
    def object(self) -> Object:
        """The node itself."""
        if self.node is None:
            raise LookupError("the node of these pods is not known")
        return self.node

    def set_node(self, node: Object | None) -> None:
        """Take over a new state of the node."""
        known = node or {}
        self.node = node
        self.name = str((known.get("metadata") or {}).get("name") or "")
        self.taints = (known.get("spec") or {}).get("taints") or ()
        self.allocatable = amounts((known.get("status") or {}).get("allocatable"))

    def copy(self) -> NodeInfo:
        """A copy that may be changed."""
        other = NodeInfo.__new__(NodeInfo)
        other.node, other.name, other.taints = self.node, self.name, self.taints
        other.allocatable = self.allocatable
        other.pods, other.requested = dict(self.pods), dict(self.requested)
        other.compared, other.ports = dict(self.compared), dict(self.ports)
        other.repelling, other.shared = self.repelling, False
        return other

    def add(self, info: PodInfo) -> None:
        """Put a pod on the node."""
        self.pods[info.uid] = info
        self._count(info, 1)

    def remove(self, uid: str) -> None:
        """Take a pod away; unknown ones are ignored."""
        info = self.pods.pop(uid, None)
        if info is not None:
            self._count(info, -1)

    def _count(self, info: PodInfo, sign: int) -> None:
        for name, value in info.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * value
        self.compared[CPU] += sign * info.compared_cpu
        self.compared[MEMORY] += sign * info.compared_memory
        self.repelling += sign * info.repels
        for port in info.ports:
            left = self.ports.get(port, 0) + sign
            if left > 0:
                self.ports[port] = left
            else:
                self.ports.pop(port, None)


def host_ports(pod: Object) -> tuple[Port, ...]:
    """The host ports that a pod wants, sidecars included."""
    return tuple(
        (port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in _long_lived(pod["spec"])
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def ports_conflict(wanted: Iterable[Port], used: Iterable[Port]) -> bool:
    """Whether a wanted port is taken; an address conflicts with itself and with all addresses."""
    taken = set(used)
    for address, protocol, number in wanted:
        if address == ANY_ADDRESS:
            if any((protocol, number) == entry[1:] for entry in taken):
                return True
        elif {(address, protocol, number), (ANY_ADDRESS, protocol, number)} & taken:
            return True
    return False


def _long_lived(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
