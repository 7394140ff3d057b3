"""Pods that wait for room on a node which was, or is being, made for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clusters.embedded.scheduler.framework.events import Object

Lookup = Callable[[str, str], Object | None]


class Nominator:
    """Which pod is nominated for which node; ahead of what the API says."""

    def __init__(self, lookup: Lookup) -> None:
        """`lookup` gives the current pod of a namespace and name."""
        self._lookup = lookup
        self._nodes: dict[str, str] = {}
        self._pods: dict[str, dict[str, Object]] = {}

    def pods(self, node: str) -> Sequence[Object]:
        """The pods nominated for a node."""
        found = self._pods.get(node)
        return list(found.values()) if found else ()

    def add(self, pod: Object, node: str | None = None) -> None:
        """Nominate a pod for a node, by default the one in its status; empty withdraws the nomination."""
        self.delete(pod)
        node = _nominated(pod) if node is None else node
        if not node:
            return
        metadata = pod["metadata"]
        current = self._lookup(metadata.get("namespace", ""), metadata["name"])
        if current is None or current["spec"].get("nodeName"):
            return
        self._nodes[metadata["uid"]] = node
        self._pods.setdefault(node, {})[metadata["uid"]] = pod

    def update(self, old: Object, new: Object) -> None:
        """Follow an update of a pod; a nomination that the API does not know yet stays."""
        known = self._nodes.get(old["metadata"]["uid"])
        keeps = known is not None and not _nominated(old) and not _nominated(new)
        self.delete(old)
        self.add(new, known if keeps else None)

    def delete(self, pod: Object) -> None:
        """Forget a pod."""
        uid = pod["metadata"]["uid"]
        node = self._nodes.pop(uid, None)
        if node is not None:
            pods = self._pods[node]
            pods.pop(uid, None)
            if not pods:
                del self._pods[node]


def _nominated(pod: Object) -> str:
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")
