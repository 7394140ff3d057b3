"""A node with a real kubelet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from clusters.client import Client
from clusters.interface import NodePaths, NodeSpec
from clusters.local.kubelet import extended_resources, may_set_label
from clusters.local.supervisor import Process
from clusters.node import WithKubelet

_LOOPBACK: Final = "127.0.0.1"


class LocalNode(WithKubelet):
    """Its kubelet is a process; containers are those of the cluster's CRI server, and outlive the kubelet."""

    kubelet: Process

    def __init__(
        self,
        name: str,
        spec: NodeSpec,
        paths: NodePaths,
        *,
        client: Client,
        make_kubelet: Callable[[str, NodeSpec, Path], Process],
        address: str,
        **parts: Any,
    ) -> None:
        """`address` is the node's, "" when the kubelet has none to tell; `parts` are those of DriverNode."""
        self._extended = extended_resources(spec)
        self._address = address
        super().__init__(name, spec, paths, client=client, **parts)
        with self._starting():
            self.kubelet = make_kubelet(name, spec, paths.root)
            self._at_close.callback(self.kubelet.stop)
            self.kubelet.start()

    def complete(self, node: dict[str, Any]) -> bool:
        """Write to the Node what an administrator must, or is to; whether everything was there already."""
        metadata, status = node["metadata"], node.get("status") or {}
        labels = {key: value for key, value in self.spec.labels if not may_set_label(key)}
        done = True
        if labels.items() - (metadata.get("labels") or {}).items():
            done = False
            self._client.patch("v1", "nodes", self.name, {"metadata": {"labels": labels}})
        capacity = self._extended
        missing: dict[str, Any] = {}
        if capacity.items() - (status.get("capacity") or {}).items():
            missing |= {"capacity": capacity, "allocatable": capacity}
        if not self._address and not status.get("addresses"):
            missing["addresses"] = [
                {"type": "InternalIP", "address": _LOOPBACK},
                {"type": "Hostname", "address": self.name},
            ]
        if missing:
            done = False
            self._client.patch("v1", "nodes", self.name, {"status": missing}, subresource="status")
        return done
