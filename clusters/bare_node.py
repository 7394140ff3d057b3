"""A node without Pods, on any API server: the kit is its kubelet."""

from __future__ import annotations

from typing import Any

from clusters.client import Client
from clusters.embedded.kubelet.plugins import PluginManager
from clusters.interface import NodePaths, NodeSpec
from clusters.node import DriverNode


class KitNode(DriverNode):
    """A node whose kubelet is the kit: the plugin half alone, called by tests."""

    def __init__(self, name: str, spec: NodeSpec, paths: NodePaths, *, client: Client, **parts: Any) -> None:
        """`parts` are those of DriverNode."""
        super().__init__(name, spec, paths, client=client, **parts)
        labels = {"kubernetes.io/hostname": name, **dict(spec.labels)}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        with self._starting():
            client.create("v1", "nodes", node)
            self.kubelet = PluginManager(name, self.paths.kubelet_registry)
            self._at_close.callback(self.kubelet.stop)
            self.kubelet.start()
