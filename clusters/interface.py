"""The one interface behind which every tier stands: a cluster, its nodes, and drivers running on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from clusters.client import Client
    from clusters.descriptor import Descriptor
    from clusters.embedded.kubelet.plugins import PluginManager
    from clusters.process import DriverProcess
    from clusters.proxies.api_proxy import ApiProxy
    from clusters.proxies.grpc_proxy import PluginProxy


@dataclass(frozen=True)
class NodeSpec:
    """What a node should look like; an empty name lets the cluster choose one."""

    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster to start. Hashable, so that tests with equal needs share one cluster.

    `version` is a Kubernetes minor such as "1.37"; `gates` and `runtime_config` hold only what differs from its defaults.
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


@dataclass(frozen=True)
class DriverIdentity:
    """Who a driver is towards the API server: a service account on a node, through its own kubeconfig."""

    namespace: str
    service_account: str
    kubeconfig: Path


class Node(Protocol):
    """One node of a cluster."""

    name: str
    paths: NodePaths
    kubelet: PluginManager
    plugin_proxy: PluginProxy
    api_proxy: ApiProxy

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Start the driver on this node; one at a time."""
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


@dataclass(frozen=True)
class TierInfo:
    """What a report says about the cluster that was used."""

    tier: str
    version: str
    gates: Mapping[str, bool] = field(default_factory=dict)
