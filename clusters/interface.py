"""The one interface behind which every tier stands: a cluster, its nodes, and drivers running on them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from clusters.client import Client
    from clusters.descriptor import Descriptor
    from clusters.embedded.kubelet.plugins import PluginManager
    from clusters.process import DriverProcess
    from clusters.proxies.client_view import ClientView
    from clusters.proxies.grpc_proxy import PluginProxy


class ClusterError(Exception):
    """A cluster that cannot be started here; the text says why and what to do."""


@dataclass(frozen=True)
class NodeSpec:
    """What a node should look like; an empty name lets the cluster choose one."""

    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster to start. Hashable, so that tests with equal needs share one cluster.

    `version` is a Kubernetes minor such as "1.37"; `gates` and `runtime_config` hold what differs from its defaults.
    """

    version: str = "1.37"
    nodes: tuple[NodeSpec, ...] = ()
    gates: tuple[tuple[str, bool], ...] = ()
    runtime_config: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class NodePaths:
    """Directories of one node, absolute. The driver sees `registry`; the kubelet watches `kubelet_registry`.

    The two differ because the plugin proxy stands between them.
    """

    root: Path
    plugins: Path
    registry: Path
    kubelet_registry: Path
    proxy_sockets: Path
    cdi: Path
    hardware: Path


class Node(Protocol):
    """One node of a cluster."""

    name: str
    paths: NodePaths
    kubelet: PluginManager
    plugin_proxy: PluginProxy
    api_proxy: ClientView

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Prepare the node and start the driver on it; one at a time. Raises StartError."""
        ...

    def run_hook(self, descriptor: Descriptor, name: str, device: str = "") -> None:
        """Run a hook of the descriptor on this node. Raises StartError."""
        ...

    def kubeconfig(self, descriptor: Descriptor) -> Path:
        """The driver's kubeconfig on this node."""
        ...

    def stat(self, path: str) -> os.stat_result:
        """Status of a path as the node sees it. Raises OSError."""
        ...

    def redact(self, text: str) -> str:
        """The text without the credentials of this node's driver."""
        ...

    def close(self) -> None:
        """Stop everything of this node and remove its files."""
        ...


class Cluster(Protocol):
    """A running cluster."""

    spec: ClusterSpec
    capabilities: frozenset[str]

    def client(self, identity: str = "admin") -> Client:
        """A client acting as `admin` or as another identity the tier documents."""
        ...

    def add_node(self, spec: NodeSpec | None = None) -> Node:
        """One more node, with a name of its own."""
        ...

    def close(self) -> None:
        """Stop the cluster and remove its files."""
        ...
