"""The embedded tier: API server, control plane and kubelets of our own in this process; nodes are directories."""

from __future__ import annotations

import contextlib
import gc
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clusters import gates
from clusters.base import OF_OWN_CLUSTERS, Begun, StartedCluster, check_sockets
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.server import ListenError
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.host import logger
from clusters.embedded.hosting import HostedComponents, Hosting, ServerComponent
from clusters.interface import ClusterError, ClusterSpec, Component

if TYPE_CHECKING:
    from clusters.embedded.control_plane import ControlPlane
    from clusters.embedded.whole_node import EmbeddedWholeNode  # noqa: F401 - named by the base class

__all__ = ["EmbeddedCluster"]

# Thousands of API objects live long, and those of a request do not hang in cycles: with Python's own thresholds a fifth
# of the CPU time of a cluster goes into looking for garbage.
_COLLECT_AFTER = (20_000, 20, 100)


class EmbeddedCluster(StartedCluster["EmbeddedWholeNode"]):
    """A running embedded cluster."""

    CAPABILITIES = OF_OWN_CLUSTERS | {"restart_kubelet", "restart_component", "virtual_clock"}

    def __init__(self, spec: ClusterSpec, *, port: int = 0, begun: Begun | None = None) -> None:
        """Start it, its API server on `port` (0 takes a free one). Raises ClusterError when that cannot be.

        The process' garbage collector runs less often afterwards.
        Nodes and control plane are started, not waited for: see `wait_ready`.
        """
        if spec.version != gates.LATEST:
            raise ClusterError(
                f"an embedded cluster is Kubernetes {gates.LATEST} and no other; a local one can be {spec.version}"
            )
        super().__init__(spec)
        self._hosting: Hosting | None = None
        self._control_plane: ControlPlane | None = None
        self._admin_token = secrets.token_urlsafe(24)
        self._kubelet_token = secrets.token_urlsafe(24)
        self._server_log = logger(f"{id(self):x}.apiserver")
        self._tokens = StaticTokens({self._admin_token: User("drakit:admin", groups=(MASTERS,))})
        try:
            self._gates = gates.effective(dict(spec.gates))
            self._server = ServerThread(
                ServerConfig(
                    port=port,
                    feature_gates=self._gates,
                    runtime_config=dict(spec.runtime_config),
                    tokens=self._tokens,
                    clock=self.clock.now,
                    kubelet_token=self._kubelet_token,
                    log=self._server_log,
                )
            )
        except ValueError as error:
            raise ClusterError(str(error)) from None
        if spec.control_plane and spec.nodes:
            check_sockets("a kubelet's", "pod-resources/kubelet.sock")
        if spec.schedulers > 1 and not spec.ledger:
            check_sockets("the ledger's", "ledger.sock")
        gc.set_threshold(*_COLLECT_AFTER)
        self._begin(begun)

    def _start(self, logs: Path) -> None:
        try:
            self._server.start()
        except ListenError as error:
            raise ClusterError(str(error)) from None
        self._server_component = ServerComponent(self._server, self._server_log, logs)
        self._connect(self._server.ca_pem, self._admin_token)
        self._hosting = Hosting(self._server, self._tokens, self.clock, self._gates, logs)
        if not self.spec.control_plane:
            return
        # A third of the code, which a cluster without Pods starts without.
        from clusters.embedded.control_plane import ControlPlane
        from clusters.embedded.whole_node import EmbeddedWholeNode

        self._control_plane = ControlPlane(self._hosting, self.spec, self._server.ca_pem, self.root)
        self._control_plane.start()
        parts = {
            "hosting": self._hosting,
            "kubelet": dict(self.spec.kubelet),
            "api_token": self._kubelet_token,
        }
        for number, node_spec in enumerate(self.spec.nodes):
            self._whole.append(self._make(EmbeddedWholeNode, node_spec, number=number, **parts))

    def _end(self, stack: contextlib.ExitStack) -> None:
        stack.callback(self._server_log.handlers.clear)
        stack.callback(self._server.stop)
        if self._hosting is not None:
            stack.callback(self._hosting.close)

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._server.url

    def component(self, name: str) -> Component:
        """`apiserver`, `scheduler`, `controller-manager` (all controllers) or a controller by its name."""
        if name == "apiserver":
            return self._server_component
        if self._control_plane is None:
            raise ValueError(f'no component "{name}": this cluster has an API server alone')
        return self._control_plane.component(name)

    def components(self) -> dict[str, Component]:
        """Every component of the cluster, kubelets included, by the name of its log; drivers are none."""
        found: dict[str, Component] = {"apiserver": self._server_component}
        if self._hosting is not None:
            host = self._hosting.host
            found |= {name: HostedComponents(host, [name]) for name in host.names()}
        return found

    def _tokens_in_use(self) -> Sequence[str]:
        return self._admin_token, self._kubelet_token
