"""What the clusters that this process starts have in common: a folder, clients, nodes with drivers, and their end."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from clusters.bare_node import KitNode
from clusters.client import Client
from clusters.clock import Clock
from clusters.driver_account import DriverAccounts
from clusters.guardian import Guardian
from clusters.interface import ClusterError, ClusterSpec, Component, NodeSpec
from clusters.log_files import LogCommand, make_folder
from clusters.node import DriverNode, WithKubelet, node_paths
from clusters.proxies import kubeconfig
from clusters.proxies.api_proxy import ApiProxy
from clusters.proxies.client_view import ClientView
from node_api.sockets import MAX_PATH_BYTES

OF_OWN_CLUSTERS: Final = frozenset(
    {"process_drivers", "bare_nodes", "own_nodes", "several_nodes", "probe_containers"}
)
"""What every cluster can do that this process starts, in the words of conformance/tiers.yaml."""

_PREFIX: Final = "dk-"
# What tempfile appends to a prefix, and the longest name of a node's folder.
_RANDOM_CHARACTERS, _NODE_FOLDER = 8, "n9999"
_CLOSE_SECONDS: Final = 15.0
_POLL: Final = 0.02
# Seconds between a node's looks at its sockets, longer where there are more than four nodes: each look takes the
# interpreter from all else in this process, and those of 20 nodes took half of it.
_SOCKET_POLL, _NODES_PER_POLL = 0.02, 4

Begun = Callable[[str, Path], None]
"""Called before anything is started, with the mark of all processes and the folder: by them traces can be found."""

_Node = TypeVar("_Node", bound=DriverNode)
_Whole = TypeVar("_Whole", bound=WithKubelet)


def check_room(driver: str) -> None:
    """Raise ClusterError when the sockets of the driver would have too long a path below the temporary folder.

    Counted are the usual names plugins/DRIVER/dra.sock and reg/DRIVER-reg.sock in the folder of a node.
    """
    check_sockets("the driver's", f"plugins/{driver}/dra.sock", f"reg/{driver}-reg.sock")


def check_sockets(whose: str, *sockets: str) -> None:
    """The same for sockets at paths below the folder of a node."""
    temporary = tempfile.gettempdir()
    node = Path(temporary, _PREFIX + "x" * _RANDOM_CHARACTERS, _NODE_FOLDER)
    longest = max(len(bytes(node / socket)) for socket in sockets)
    if longest > MAX_PATH_BYTES:
        raise ClusterError(
            f"the temporary folder {temporary} has too long a name: paths of {whose} sockets would have "
            f"{longest} bytes, and a Unix socket allows {MAX_PATH_BYTES}; set TMPDIR to a shorter folder such as /tmp"
        )


class StartedCluster(ABC, Generic[_Whole]):
    """A cluster that this process has started; use it as a context manager.

    A tier says how API server, control plane and whole nodes start (`_start`) and end (`_end`).
    """

    CAPABILITIES: frozenset[str]
    READY_SECONDS: float = 120.0
    """How long nodes may take until they are Ready, by default."""

    def __init__(self, spec: ClusterSpec) -> None:
        """Nothing runs before `_begin`."""
        self.spec = spec
        self.capabilities = self.CAPABILITIES
        self.clock = Clock()
        self.root = Path()  # nothing made yet
        self._serial = itertools.count(1)
        self._lock = threading.Lock()
        self._bare: list[KitNode] = []
        self._whole: list[_Whole] = []
        self._clients: dict[str, Client] = {}
        self._accounts: DriverAccounts | None = None
        self._proxy: ApiProxy | None = None
        self._closed = False

    def _begin(self, begun: Begun | None) -> None:
        """Start everything; on any failure nothing is left. Raises ClusterError."""
        self._guardian = Guardian()
        try:
            # Socket paths are limited to 107 bytes: the folder has a short name on purpose.
            self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._guardian.watch_folder(self.root)
            if begun is not None:
                begun(self.owner, self.root)
            self._start(make_folder(self.root))
        except ValueError as error:
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

    @abstractmethod
    def _start(self, logs: Path) -> None:
        """Start API server, control plane and whole nodes; `logs` is the folder of logs.

        Raises ClusterError, ValueError, OSError of the temporary folder.
        """

    def _connect(self, ca_pem: bytes, admin_token: str) -> None:
        """Let clients and drivers at the API server, which serves."""
        self._ca_pem, self._admin_token = ca_pem, admin_token
        self._ca_file = self.root / "ca.pem"
        self._ca_file.write_bytes(ca_pem)
        self._proxy = ApiProxy(self.url, ca_pem)
        self._accounts = DriverAccounts(self.client())

    @abstractmethod
    def _end(self, stack: contextlib.ExitStack) -> None:
        """Push what ends API server and control plane; the drivers have ended when it runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where the API server listens."""

    @property
    def owner(self) -> str:
        """The mark in the environment of every process that this cluster starts."""
        return self._guardian.owner

    def client(self, identity: str = "admin") -> Client:
        """A client as `admin`, the only identity by now."""
        with self._lock:
            if identity not in self._clients:
                if identity != "admin":
                    raise ValueError(f'no identity "{identity}"; there is admin')
                self._clients[identity] = Client(self.url, self._ca_file, self._admin_token)
            return self._clients[identity]

    @property
    def nodes(self) -> Sequence[_Whole]:
        """The whole nodes."""
        return tuple(self._whole)

    @abstractmethod
    def component(self, name: str) -> Component:
        """`apiserver`, `scheduler`, `controller-manager` or one controller. Raises ValueError for others."""

    @abstractmethod
    def components(self) -> Mapping[str, Component]:
        """Every component of the cluster, kubelets included, by the name of its log; drivers are none."""

    def ended(self) -> list[str]:
        """The names of components that do not run."""
        return [name for name, component in self.components().items() if not component.running]

    def log_commands(self) -> dict[str, LogCommand]:
        """How to print the logs that are no files in the folder of logs."""
        return {}

    def wait_ready(self, timeout: float = 0.0) -> None:
        """Wait until every whole node is Ready, READY_SECONDS by default.

        Raises ClusterError with the state of those that are not.
        """
        timeout = timeout or self.READY_SECONDS
        deadline = time.monotonic() + timeout
        while missing := self.missing():
            self._check_alive()
            if time.monotonic() > deadline:
                lines = [
                    _short(line)
                    for node in self._whole
                    if node.name in missing
                    for line in node.kubelet.logs()[-3:]
                ]
                raise ClusterError(
                    f"not Ready within {timeout:g} s: {', '.join(sorted(missing))}"
                    + "".join(f"\n  {line}" for line in lines)
                )
            time.sleep(_POLL)

    def missing(self) -> set[str]:
        """The names of whole nodes that are not Ready, or have taints that they should not keep."""
        taints = {node.name: {key for key, _, _ in node.spec.taints} for node in self._whole}
        found = {node["metadata"]["name"]: node for node in self.client().list("v1", "nodes")}
        return {
            name
            for name, own in taints.items()
            if name not in found
            or _condition(found[name], "Ready").get("status") != "True"
            or {taint["key"] for taint in found[name]["spec"].get("taints") or []} - own
        }

    def _check_alive(self) -> None:
        """Raise ClusterError when something has ended without which no node will be Ready."""

    def write_kubeconfig(self, path: Path, name: str = "drakit") -> None:
        """Write an administrator's kubeconfig, readable by its owner alone. Raises OSError.

        Cluster, user and context have the given name, by which kubectl tells several clusters apart.
        """
        kubeconfig.write(
            path,
            server=self.url,
            ca_pem=self._ca_pem,
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
        name = node_name(spec, number)
        return kind(
            name,
            spec,
            parts.pop("paths", None) or node_paths(self.root / f"n{number}"),
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
            nodes: list[DriverNode] = [*self._bare, *self._whole]
        for node in nodes:
            text = node.redact(text)
        for token in self._tokens_in_use():
            text = text.replace(token, "[token]")
        return text

    @abstractmethod
    def _tokens_in_use(self) -> Sequence[str]:
        """Tokens that must not be shown."""

    def close(self) -> None:
        """Stop nodes, clients and the API server, and remove every file."""
        with self._lock:
            self._closed = True
            nodes: list[DriverNode] = [*self._bare, *self._whole]
            self._bare, self._whole = [], []
        with contextlib.ExitStack() as stack:
            stack.callback(self._guardian.close)
            if self.root != Path():
                stack.callback(shutil.rmtree, self.root, ignore_errors=True)
            self._end(stack)
            if self._proxy is not None:
                stack.callback(self._proxy.close)
            for client in self._clients.values():
                stack.callback(client.close)
            stack.callback(all_at_once, [node.close for node in nodes])


def node_name(spec: NodeSpec, number: int) -> str:
    """The name of the node that is the cluster's `number`th."""
    return spec.name or f"node-{number}"


def all_at_once(actions: Sequence[Callable[[], None]]) -> None:
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


def _condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == kind), {})
