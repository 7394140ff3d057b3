"""The embedded tier: an API server of our own in this process, and nodes that are directories."""

from __future__ import annotations

import itertools
import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.node import EmbeddedNode
from clusters.guardian import Guardian
from clusters.interface import ClusterSpec, NodeSpec
from clusters.proxies.api_proxy import ApiProxy
from clusters.proxies.client_view import ClientView

_DRIVER_NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io/v1"


class EmbeddedCluster:
    """A running embedded cluster; use it as a context manager."""

    CAPABILITIES: frozenset[str] = frozenset({"restart_kubelet", "process_drivers"})

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self.capabilities = self.CAPABILITIES
        self._guardian = Guardian()
        # Socket paths are limited to 107 bytes: the folder has a short name on purpose.
        self.root = Path(tempfile.mkdtemp(prefix="dk-"))
        self._guardian.watch_folder(self.root)
        self._serial = itertools.count(1)
        self._lock = threading.Lock()
        self._nodes: list[EmbeddedNode] = []
        self._clients: dict[str, Client] = {}
        self._accounts: dict[str, tuple[str, str]] = {}
        self._proxy: ApiProxy | None = None
        self._admin_token = secrets.token_urlsafe(24)
        tokens = StaticTokens({self._admin_token: User("drakit:admin", groups=(MASTERS,))})
        self._server = ServerThread(
            ServerConfig(
                feature_gates=dict(spec.gates), runtime_config=dict(spec.runtime_config), tokens=tokens
            )
        )
        try:
            self._server.start()
            self._ca_file = self.root / "ca.pem"
            self._ca_file.write_bytes(self._server.ca_pem)
            self._proxy = ApiProxy(self._server.url, self._server.ca_pem)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> EmbeddedCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._server.url

    def client(self, identity: str = "admin") -> Client:
        """A client as `admin`, the only identity of this tier by now."""
        with self._lock:
            if identity not in self._clients:
                if identity != "admin":
                    raise ValueError(f'no identity "{identity}" on the embedded tier; there is admin')
                self._clients[identity] = Client(self._server.url, self._ca_file, self._admin_token)
            return self._clients[identity]

    def add_node(self, spec: NodeSpec | None = None) -> EmbeddedNode:
        """One more node."""
        spec = spec or NodeSpec()
        if self._proxy is None:
            raise RuntimeError("the cluster is not running")
        number = next(self._serial)
        name = spec.name or f"node-{number}"
        node = EmbeddedNode(
            name,
            spec,
            self.root / f"n{number}",
            client=self.client(),
            guardian=self._guardian,
            identity=self._driver_identity,
            api_proxy=ClientView(self._proxy, f"driver-on-{name}"),
        )
        with self._lock:
            self._nodes.append(node)
        return node

    def _driver_identity(self, descriptor: Descriptor) -> tuple[str, str]:
        """Namespace and service account of a driver, with exactly the declared permissions; made once."""
        client = self.client()
        with self._lock:
            if descriptor.name in self._accounts:
                return self._accounts[descriptor.name]
            account = descriptor.name
            client.create(
                "v1", "serviceaccounts", _object("v1", "ServiceAccount", account), _DRIVER_NAMESPACE
            )
            role = _object(_RBAC, "ClusterRole", f"drakit:driver:{account}")
            role["rules"] = [rule.as_dict() for rule in descriptor.permissions]
            client.create(_RBAC, "clusterroles", role)
            binding = _object(_RBAC, "ClusterRoleBinding", f"drakit:driver:{account}")
            binding["roleRef"] = {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": f"drakit:driver:{account}",
            }
            binding["subjects"] = [
                {"kind": "ServiceAccount", "name": account, "namespace": _DRIVER_NAMESPACE}
            ]
            client.create(_RBAC, "clusterrolebindings", binding)
            self._accounts[descriptor.name] = (_DRIVER_NAMESPACE, account)
            return self._accounts[descriptor.name]

    def close(self) -> None:
        """Stop nodes, clients and the API server, and remove every file."""
        with self._lock:
            nodes, self._nodes = self._nodes, []
        for node in nodes:
            node.close()
        for client in self._clients.values():
            client.close()
        if self._proxy is not None:
            self._proxy.close()
        self._server.stop()
        shutil.rmtree(self.root, ignore_errors=True)
        self._guardian.close()


def _object(api_version: str, kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
