"""The one interface behind which every tier stands: a cluster, its nodes, and drivers running on them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from clusters.client import Client
    from clusters.clock import Clock
    from clusters.descriptor import Descriptor
    from clusters.embedded.kubelet.plugins import PluginManager
    from clusters.observation import Observation
    from clusters.process import DriverProcess
    from clusters.proxies.client_view import ClientView
    from clusters.proxies.grpc_proxy import PluginProxy


class ClusterError(Exception):
    """A cluster that cannot be started here; the text says why and what to do."""


@dataclass(frozen=True)
class NodeSpec:
    """What a node should look like; an empty name lets the cluster choose one.

    `capacity` overrides or adds to resources of the node's status (quantities); a real kubelet takes processors, memory
    and disk from its machine, and nothing else for them. `taints` are (key, value, effect).
    `machine` is what drivers on fake hardware find there: a name, a file, or `gpus-N` (docs/hardware.md).
    """

    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    machine: str = "dual-numa-4"


@dataclass(frozen=True)
class ClusterSpec:
    """A cluster to start. Hashable, so that tests with equal needs share one cluster.

    `version` is a Kubernetes minor such as "1.37"; `gates` and `runtime_config` hold what differs from its defaults.
    `nodes` are whole nodes with kubelet and runtime. Without `control_plane` there is an API server alone, for tests
    that take the place of all else. `kubelet` holds fields of a KubeletConfiguration, `scheduler_config` is the text
    of a KubeSchedulerConfiguration. `schedulers` share the Pods, and what they allocate goes through a ledger
    (docs/ledger.md): one of the cluster's own, or the Redis server at the URL `ledger`.
    """

    version: str = "1.37"
    nodes: tuple[NodeSpec, ...] = ()
    gates: tuple[tuple[str, bool], ...] = ()
    runtime_config: tuple[tuple[str, bool], ...] = ()
    control_plane: bool = True
    kubelet: tuple[tuple[str, str], ...] = ()
    scheduler_config: str = ""
    schedulers: int = 1
    ledger: str = ""


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


class Component(Protocol):
    """A component of a cluster that can be started and stopped alone."""

    def start(self) -> None:
        """Start it; without effect when it runs."""
        ...

    def stop(self) -> None:
        """Stop it; without effect when it does not run."""
        ...

    def kill(self) -> None:
        """End it without any shutdown code, as SIGKILL would."""
        ...

    def restart(self) -> None:
        """Stop and start."""
        ...

    @property
    def running(self) -> bool:
        """Whether it runs."""
        ...

    def logs(self) -> list[str]:
        """The last lines of its log."""
        ...


class Node(Protocol):
    """One node of a cluster, on which a driver can run."""

    name: str
    paths: NodePaths
    plugin_proxy: PluginProxy
    api_proxy: ClientView

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Prepare the node and start the driver on it; one at a time. Raises StartError."""
        ...

    def run_hook(self, descriptor: Descriptor, name: str, device: str = "") -> None:
        """Run a hook of the descriptor on this node. Raises StartError."""
        ...

    def kubeconfig(self, descriptor: Descriptor) -> Path:
        """The driver's kubeconfig on this node. Raises StartError when the Node is not registered in time."""
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


class BareNode(Node, Protocol):
    """A node without Pods: the kit is its kubelet, by `kubelet`."""

    kubelet: PluginManager


class WholeNode(Node, Protocol):
    """A node with a kubelet and a container runtime of its own."""

    @property
    def kubelet(self) -> Component:
        """Its kubelet."""
        ...

    def observe(self, namespace: str, pod: str, container: str) -> Observation:
        """What a container that runs `probe` sees. Raises ObservationError when its log does not say."""
        ...


class Cluster(Protocol):
    """A running cluster; `nodes` are those of its ClusterSpec."""

    spec: ClusterSpec
    capabilities: frozenset[str]
    clock: Clock

    @property
    def nodes(self) -> Sequence[WholeNode]:
        """The whole nodes."""
        ...

    def client(self, identity: str = "admin") -> Client:
        """A client acting as `admin` or as another identity the tier documents."""
        ...

    def component(self, name: str) -> Component:
        """`apiserver`, `scheduler`, `controller-manager` or one controller. Raises ValueError for others."""
        ...

    def add_node(self, spec: NodeSpec | None = None) -> BareNode:
        """One more bare node, with a name of its own."""
        ...

    def close(self) -> None:
        """Stop the cluster and remove its files."""
        ...
