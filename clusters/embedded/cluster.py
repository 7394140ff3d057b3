"""The embedded tier: API server, control plane and kubelets of our own in this process; nodes are directories."""

from __future__ import annotations

import contextlib
import gc
import itertools
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from clusters import gates
from clusters.bare_node import KitNode
from clusters.client import Client
from clusters.clock import Clock
from clusters.driver_account import DriverAccounts
from clusters.embedded.apiserver.auth.tokens import StaticTokens
from clusters.embedded.apiserver.auth.users import MASTERS, User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.server import ListenError
from clusters.embedded.apiserver.thread import ServerThread
from clusters.embedded.components.host import logger
from clusters.embedded.hosting import HostedComponents, Hosting, ServerComponent
from clusters.guardian import Guardian
from clusters.interface import ClusterError, ClusterSpec, Component, NodeSpec
from clusters.log_files import make_folder
from clusters.node import DriverNode, node_paths
from clusters.proxies import kubeconfig
from clusters.proxies.api_proxy import ApiProxy
from clusters.proxies.client_view import ClientView
from node_api.sockets import MAX_PATH_BYTES

if TYPE_CHECKING:
    from clusters.embedded.control_plane import ControlPlane
    from clusters.embedded.whole_node import EmbeddedWholeNode

_PREFIX = "dk-"
# What tempfile appends to a prefix, and the longest name of a node's folder.
_RANDOM_CHARACTERS, _NODE_FOLDER = 8, "n9999"
_CLOSE_SECONDS = 10.0
_POLL = 0.02
# Seconds between a node's looks at its sockets, longer where there are more than four nodes: each look takes the
# interpreter from API server and components, and those of 20 nodes took half of it.
_SOCKET_POLL, _NODES_PER_POLL = 0.02, 4
# Thousands of API objects live long, and those of a request do not hang in cycles: with Python's own thresholds a fifth
# of the CPU time of a cluster goes into looking for garbage.
_COLLECT_AFTER = (20_000, 20, 100)

_Node = TypeVar("_Node", bound=DriverNode)


def check_room(driver: str) -> None:
    """Raise ClusterError when the sockets of the driver would have too long a path below the temporary folder.

    Counted are the usual names plugins/DRIVER/dra.sock and reg/DRIVER-reg.sock in the folder of a node.
    """
    _check_room("the driver's", f"plugins/{driver}/dra.sock", f"reg/{driver}-reg.sock")


def _check_room(whose: str, *sockets: str) -> None:
    temporary = tempfile.gettempdir()
    node = Path(temporary, _PREFIX + "x" * _RANDOM_CHARACTERS, _NODE_FOLDER)
    longest = max(len(bytes(node / socket)) for socket in sockets)
    if longest > MAX_PATH_BYTES:
        raise ClusterError(
            f"the temporary folder {temporary} has too long a name: paths of {whose} sockets would have "
            f"{longest} bytes, and a Unix socket allows {MAX_PATH_BYTES}; set TMPDIR to a shorter folder such as /tmp"
        )


class EmbeddedCluster:
    """A running embedded cluster; use it as a context manager."""

    CAPABILITIES: frozenset[str] = frozenset(
        {"restart_kubelet", "restart_component", "process_drivers", "virtual_clock"}
    )

    def __init__(self, spec: ClusterSpec, *, port: int = 0) -> None:
        """Start it, its API server on `port` (0 takes a free one). Raises ClusterError when that cannot be.

        The process' garbage collector runs less often afterwards.
        Nodes and control plane are started, not waited for: see `wait_ready`.
        """
        self.spec = spec
        self.capabilities = self.CAPABILITIES
        self.clock = Clock()
        self._serial = itertools.count(1)
        self._lock = threading.Lock()
        self._bare: list[DriverNode] = []
        self._whole: list[EmbeddedWholeNode] = []
        self._clients: dict[str, Client] = {}
        self._accounts: DriverAccounts | None = None
        self._proxy: ApiProxy | None = None
        self._hosting: Hosting | None = None
        self._control_plane: ControlPlane | None = None
        self._closed = False
        self.root = Path()  # nothing made yet
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
            _check_room("a kubelet's", "pod-resources/kubelet.sock")
        self._guardian = Guardian()
        gc.set_threshold(*_COLLECT_AFTER)
        try:
            self._start()
        except (ListenError, ValueError) as error:
            self.close()
            raise ClusterError(str(error)) from None
        except OSError as error:
            self.close()
            raise ClusterError(
                f"cannot use the temporary folder {tempfile.gettempdir()}: {error.strerror}; set TMPDIR to another"
            ) from None
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        # Socket paths are limited to 107 bytes: the folder has a short name on purpose.
        self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._guardian.watch_folder(self.root)
        logs = make_folder(self.root)
        self._server.start()
        self._server_component = ServerComponent(self._server, self._server_log, logs)
        self._ca_file = self.root / "ca.pem"
        self._ca_file.write_bytes(self._server.ca_pem)
        self._proxy = ApiProxy(self._server.url, self._server.ca_pem)
        self._accounts = DriverAccounts(self.client())
        self._hosting = Hosting(self._server, self._tokens, self.clock, self._gates, logs)
        if not self.spec.control_plane:
            return
        # A third of the code, which a cluster without Pods starts without.
        from clusters.embedded.control_plane import ControlPlane
        from clusters.embedded.whole_node import EmbeddedWholeNode

        self._control_plane = ControlPlane(self._hosting, self.spec, self._server.ca_pem)
        self._control_plane.start()
        parts = {
            "hosting": self._hosting,
            "kubelet": dict(self.spec.kubelet),
            "api_token": self._kubelet_token,
        }
        for number, node_spec in enumerate(self.spec.nodes):
            self._whole.append(self._make(EmbeddedWholeNode, node_spec, number=number, **parts))

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

    @property
    def owner(self) -> str:
        """The mark in the environment of every process that this cluster starts."""
        return self._guardian.owner

    def client(self, identity: str = "admin") -> Client:
        """A client as `admin`, the only identity of this tier by now."""
        with self._lock:
            if identity not in self._clients:
                if identity != "admin":
                    raise ValueError(f'no identity "{identity}" on the embedded tier; there is admin')
                self._clients[identity] = Client(self._server.url, self._ca_file, self._admin_token)
            return self._clients[identity]

    @property
    def nodes(self) -> Sequence[EmbeddedWholeNode]:
        """The whole nodes."""
        return tuple(self._whole)

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

    def wait_ready(self, timeout: float = 30.0) -> None:
        """Wait until every whole node is Ready. Raises ClusterError with the state of those that are not."""
        client = self.client()
        wanted = {node.name for node in self._whole}
        deadline = time.monotonic() + timeout
        while True:
            ready = {
                node["metadata"]["name"]
                for node in client.list("v1", "nodes")
                if {"type": "Ready", "status": "True"}.items() <= _condition(node, "Ready").items()
                and not (node.get("spec") or {}).get("taints")
            } | {node.name for node in self._whole if node.spec.taints}
            if not wanted - ready:
                return
            if time.monotonic() > deadline:
                missing = sorted(wanted - ready)
                lines = [
                    _short(line)
                    for node in self._whole
                    if node.name in missing
                    for line in node.kubelet.logs()[-3:]
                ]
                raise ClusterError(
                    f"not Ready within {timeout:g} s: {', '.join(missing)}"
                    + "".join(f"\n  {line}" for line in lines)
                )
            time.sleep(_POLL)

    def write_kubeconfig(self, path: Path, name: str = "drakit") -> None:
        """Write an administrator's kubeconfig, readable by its owner alone. Raises OSError.

        Cluster, user and context have the given name, by which kubectl tells several clusters apart.
        """
        kubeconfig.write(
            path,
            server=self._server.url,
            ca_pem=self._server.ca_pem,
            token=self._admin_token,
            user=name,
            cluster_name=name,
            context_name=name,
        )

    def add_node(self, spec: NodeSpec | None = None) -> KitNode:
        """One more bare node."""
        node = self._make(KitNode, spec or NodeSpec())
        with self._lock:
            self._bare.append(node)
            closed = self._closed
        if closed:
            node.close()
            raise RuntimeError("the cluster is not running")
        return node

    def _make(self, kind: Callable[..., _Node], spec: NodeSpec, **parts: Any) -> _Node:
        if self._proxy is None or self._accounts is None or self._closed:
            raise RuntimeError("the cluster is not running")
        number = next(self._serial)
        name = spec.name or f"node-{number}"
        return kind(
            name,
            spec,
            node_paths(self.root / f"n{number}"),
            client=self.client(),
            guardian=self._guardian,
            accounts=self._accounts,
            api_proxy=ClientView(self._proxy, f"driver-on-{name}"),
            poll_interval=_SOCKET_POLL * max(1.0, len(self.spec.nodes) / _NODES_PER_POLL),
            **parts,
        )

    def redact(self, text: str) -> str:
        """The text without the credentials of this cluster."""
        with self._lock:
            nodes = [*self._bare, *self._whole]
        for node in nodes:
            text = node.redact(text)
        for token in (self._admin_token, self._kubelet_token):
            text = text.replace(token, "[token]")
        return text

    def close(self) -> None:
        """Stop nodes, clients and the API server, and remove every file."""
        with self._lock:
            self._closed = True
            nodes = [*self._bare, *self._whole]
            self._bare, self._whole = [], []
        with contextlib.ExitStack() as stack:
            stack.callback(self._server_log.handlers.clear)
            stack.callback(self._guardian.close)
            if self.root != Path():
                stack.callback(shutil.rmtree, self.root, ignore_errors=True)
            stack.callback(self._server.stop)
            if self._hosting is not None:
                stack.callback(self._hosting.close)
            if self._proxy is not None:
                stack.callback(self._proxy.close)
            for client in self._clients.values():
                stack.callback(client.close)
            stack.callback(_all_at_once, [node.close for node in nodes])


def _all_at_once(actions: Sequence[Callable[[], None]]) -> None:
    """Run every action in a thread of its own and wait for all."""
    threads = [threading.Thread(target=action, daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_CLOSE_SECONDS)


def _short(message: str) -> str:
    """The first line of a log message, and of a traceback in it the last."""
    lines = [line.strip(" |+-") for line in message.splitlines()]
    lines = [line for line in lines if line]
    return ": ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else ""


def _condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), {})
