"""Nodes with their pods as the scheduler believes them to be, pods that it has placed a moment ago included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .framework.events import Object
from .framework.node_info import NodeInfo, PodInfo


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All nodes at one moment; nothing in it changes."""

    nodes: tuple[NodeInfo, ...]

    def get(self, name: str) -> NodeInfo | None:
        """One node."""
        return next((node for node in self.nodes if node.name == name), None)


class Cache:
    """To be used in one event loop."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeInfo] = {}
        self._placed: dict[str, tuple[Object, str]] = {}
        self._assumed: set[str] = set()
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The nodes that exist, in the order in which they came."""
        if self._snapshot is None:
            nodes = tuple(info for info in self._nodes.values() if info.node is not None)
            for info in nodes:
                info.shared = True
            self._snapshot = Snapshot(nodes)
        return self._snapshot

    def set_node(self, node: Object) -> None:
        """Add or update a node."""
        name = node["metadata"]["name"]
        if name not in self._nodes:
            self._nodes[name] = NodeInfo()
        self._writable(name).set_node(node)

    def remove_node(self, name: str) -> None:
        """Forget a node; its pods are remembered until they go, in case it comes back."""
        if name in self._nodes:
            self._writable(name).set_node(None)
            self._drop_if_empty(name)

    def add_pod(self, pod: Object) -> None:
        """Take over a pod that has a node; for an assumed one this is the confirmation."""
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        self._take(uid)
        self._assumed.discard(uid)
        self._put(pod, node)

    def update_pod(self, pod: Object) -> None:
        """Take over a new state of a pod that has a node."""
        self.add_pod(pod)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod, assumed or not."""
        self._take(uid)
        self._assumed.discard(uid)

    def assume(self, pod: Object) -> None:
        """Count a pod that is about to be bound to its spec.nodeName."""
        uid = pod["metadata"]["uid"]
        self._put(pod, pod["spec"]["nodeName"])
        self._assumed.add(uid)

    def forget(self, uid: str) -> None:
        """Undo `assume`, unless the pod was bound in the meantime."""
        if uid in self._assumed:
            self.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        """Whether a pod is assumed and not yet confirmed."""
        return uid in self._assumed

    def assumed_pod(self, uid: str) -> Object | None:
        """An assumed pod with its node."""
        return self._placed[uid][0] if uid in self._assumed else None

    def pods(self) -> Sequence[Object]:
        """All pods that have a node."""
        return [pod for pod, _ in self._placed.values()]

    def _put(self, pod: Object, node: str) -> None:
        if node not in self._nodes:
            self._nodes[node] = NodeInfo()
        self._placed[pod["metadata"]["uid"]] = (pod, node)
        self._writable(node).add(PodInfo(pod))

    def _take(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is not None:
            node = placed[1]
            self._writable(node).remove(uid)
            self._drop_if_empty(node)

    def _writable(self, name: str) -> NodeInfo:
        self._snapshot = None
        info = self._nodes[name]
        if info.shared:
            info = self._nodes[name] = info.copy()
        return info

    def _drop_if_empty(self, name: str) -> None:
        info = self._nodes[name]
        if info.node is None and not info.pods:
            del self._nodes[name]
