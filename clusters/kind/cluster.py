"""The kind tier: a cluster of containers that kind makes, with drivers on the host beside them."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.base import OF_OWN_CLUSTERS, Begun, StartedCluster, check_sockets
from clusters.client import ClientError
from clusters.interface import ClusterError, ClusterSpec, Component, NodePaths
from clusters.kind import access, checks, components, config, failpoints, leftovers
from clusters.kind.command import KindCommand
from clusters.kind.components import KindComponent, Run, StaticPod, Unit
from clusters.kind.node import KindNode
from clusters.kind.tools import Tools
from clusters.log_files import LogCommand
from clusters.node import node_paths

__all__ = ["KUBECONFIG", "KindCluster"]

KUBECONFIG: Final = "kind.kubeconfig"
"""Name of the file in the folder of a cluster that kind writes."""

_CREATE_SECONDS: Final = 900.0
_LOAD_SECONDS: Final = 300.0
_EXPORT_SECONDS: Final = 120.0
_EXEC_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 10.0
"""How often is looked for components that ended: each look runs a command in every node."""
_ROUTES_SECONDS: Final = 30.0
_POLL: Final = 0.1


def check(spec: ClusterSpec) -> None:
    """Raise ClusterError, GateError for what kind cannot make."""
    if named := [node.name for node in spec.nodes if node.name]:
        raise ClusterError(f"the nodes of a kind cluster are named by kind; {named[0]} cannot be")
    folders = [Path(f"n{number}") for number in range(max(1, len(spec.nodes)))]
    config.files(spec, folders)
    config.kind_config(spec, "check", folders)


class KindCluster(StartedCluster[KindNode]):
    """A running kind cluster. Its first node is the control plane, where Pods run as everywhere."""

    CAPABILITIES = OF_OWN_CLUSTERS | {"restart_kubelet", "restart_component"}
    READY_SECONDS = 180.0

    def __init__(
        self,
        spec: ClusterSpec,
        tools: Tools,
        *,
        port: int = 0,
        name: str = "",
        begun: Begun | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Make it, its API server on `port` (0 takes a free one). Raises ClusterError when that cannot be.

        It has a node even where the spec has none: the control plane. Nodes are made, not waited for, see `wait_ready`.
        """
        super().__init__(spec)
        check(spec)
        self._tools = tools
        self._port = port
        self._progress = progress
        self.name = name or f"drakit-{secrets.token_hex(3)}"
        """Of the kind cluster, its network, and the beginning of the names of its containers."""
        self._record: leftovers.Record | None = None
        self._kind: KindCommand | None = None
        self._token = ""
        self._server = access.Server("", b"")
        self._checked = False
        self._looked, self._ended = 0.0, list[str]()
        check_sockets("a plugin's", "kreg/x.sock")
        _check_port(port)
        self._begin(begun)

    def _start(self, logs: Path) -> None:
        failpoints.reach("engine-started")
        engine = self._tools.engine
        self._record = leftovers.write(self.name, self.root, engine, self.owner)
        failpoints.reach("record-written")
        engine.run("network", "create", "--label", f"{leftovers.LABEL}={self.name}", self.name)
        failpoints.reach("network-created")
        self._prepare(logs)
        folders = [self.root / f"n{number}" for number, _ in enumerate(self._containers, 1)]
        self._create(self._describe(folders))
        self._server = access.read(self.root / KUBECONFIG)
        failpoints.reach("kubeconfig-written")
        self._connect_nodes([node_paths(folder) for folder in folders])

    def _prepare(self, logs: Path) -> None:
        """Know the containers and the kind command."""
        environment = {**self._tools.engine.environment(), "KIND_EXPERIMENTAL_DOCKER_NETWORK": self.name}
        self._kind = KindCommand(self._tools.kind.path, environment, guardian=self._guardian, logs=logs)
        self._containers = config.container_names(self.name, max(1, len(self.spec.nodes)))

    def _connect_nodes(self, paths: Sequence[NodePaths]) -> None:
        """Let the kit at the API server, and drivers onto the nodes, whose folders are `paths`."""
        self._token = access.admin_token(self.control_plane, "https://127.0.0.1:6443")
        self._connect(self._server.ca_pem, self._token)
        if not self.spec.control_plane:
            return
        for spec, container, folders in zip(self.spec.nodes, self._containers, paths, strict=False):
            self._whole.append(
                self._make(
                    KindNode,
                    dataclasses.replace(spec, name=container),
                    paths=folders,
                    run=self.run_in(container),
                )
            )

    def _describe(self, folders: Sequence[Path]) -> Path:
        """Make the folders of the nodes, and the file from which kind makes the cluster."""
        for folder in folders:
            paths = node_paths(folder)
            for path in (folder, paths.kubelet_registry, paths.cdi):
                path.mkdir(mode=0o700)
        file = self.root / "kind.yaml"
        texts = config.files(self.spec, folders)
        for path, text in {
            **texts,
            file: config.document(self.spec, self.name, folders, port=self._port),
        }.items():
            path.write_text(text, encoding="utf-8")
        failpoints.reach("config-written")
        return file

    def _create(self, file: Path) -> None:
        assert self._kind is not None  # noqa: S101 - made by the start
        words = ("--name", self.name, "--image", self._tools.image, "--config", str(file))
        try:
            # Without --retain kind takes away what could say why.
            self._kind.run(
                "create",
                "cluster",
                *words,
                "--kubeconfig",
                str(self.root / KUBECONFIG),
                "--retain",
                "--wait",
                "0s",
                seconds=_CREATE_SECONDS,
                progress=self._progress,
            )
            failpoints.reach("containers-running")
            if self._tools.probe is not None:
                self._kind.run(
                    "load",
                    "image-archive",
                    str(self._tools.probe),
                    "--name",
                    self.name,
                    seconds=_LOAD_SECONDS,
                )
                failpoints.reach("images-loaded")
        except ClusterError as error:
            raise ClusterError(f"{error}{self._export()}") from None

    def _export(self) -> str:
        """Logs of everything in a folder that stays; where it is, as the end of an error."""
        assert self._kind is not None  # noqa: S101 - made by the start
        folder = Path(tempfile.mkdtemp(prefix="drakit-kind-logs-"))
        try:
            self._kind.run("export", "logs", str(folder), "--name", self.name, seconds=_EXPORT_SECONDS)
        except ClusterError:
            if not any(folder.iterdir()):
                folder.rmdir()
                return ""
        return f"; the logs of the cluster are in {folder}"

    def run_in(self, container: str) -> Run:
        """Runs commands in a container of the cluster."""

        def run(*words: str, timeout: float = _EXEC_SECONDS) -> str:
            return self._tools.engine.run("exec", container, *words, timeout=timeout)

        return run

    @functools.cached_property
    def control_plane(self) -> Run:
        """Runs commands in the node of the control plane."""
        return self.run_in(self._containers[0])

    @property
    def control_plane_root(self) -> Path:
        """The folder that the node of the control plane has at the same path."""
        return self.root / "n1"

    @property
    def published_port(self) -> int:
        """The port of this machine behind which `config.BARE_PORT` of the control plane is. Raises ClusterError."""
        words = self._tools.engine.run("port", self._containers[0], f"{config.BARE_PORT}/tcp").split()
        return int(words[0].rpartition(":")[2])

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return self._server.url

    @property
    def ca_pem(self) -> bytes:
        """The authority of every certificate of the cluster."""
        return self._server.ca_pem

    def component(self, name: str) -> Component:
        """`apiserver`, `scheduler`, `controller-manager`, `etcd`, `kubelet-NODE` or `runtime-NODE`.

        A controller by its name (`resourceclaim-controller`) is the whole controller manager, in which it runs.
        """
        running = self.components()
        if name.endswith("-controller") and name not in running:
            name = "controller-manager"
        if name not in running:
            close = difflib.get_close_matches(name, running, 1)
            hint = f', did you mean "{close[0]}"?' if close else ""
            raise ValueError(f'no component "{name}"{hint}; there are {", ".join(running)}')
        return running[name]

    def components(self) -> Mapping[str, KindComponent]:
        """Every component of the cluster, kubelets included, by the name of its log; drivers are none."""
        found: dict[str, KindComponent] = {}
        for container in self._containers:
            found |= self._components_of(container)
        return found

    def _components_of(self, container: str) -> dict[str, KindComponent]:
        run = self.run_in(container)
        found: dict[str, KindComponent] = {}
        if container == self._containers[0]:
            found |= {name: StaticPod(program, run) for name, program in components.STATIC_PODS.items()}
        return found | {
            f"kubelet-{container}": Unit("kubelet", run),
            f"runtime-{container}": Unit("containerd", run),
        }

    def log_commands(self) -> dict[str, LogCommand]:
        """For each component how to print its log, which is inside its node."""
        engine = self._tools.engine
        return {
            name: component.log_command.after(engine.docker, "--host", engine.host, "exec", container)
            for container in self._containers
            for name, component in self._components_of(container).items()
        }

    def ended(self) -> list[str]:
        """The components that do not run, as of at most a few seconds ago."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._ended = [
                name
                for container in self._containers
                for name in components.ended(self.run_in(container), self._components_of(container))
            ]
            self._looked = time.monotonic()
        return list(self._ended)

    def wait_ready(self, timeout: float = 0.0) -> None:
        """Wait until every node is Ready, and look at whether the cluster is what was asked for.

        Raises ClusterError, which names a folder with the logs of everything.
        """
        try:
            super().wait_ready(timeout)
            if not self._checked and self.spec.control_plane:
                self._check()
                self._checked = True
        except ClusterError as error:
            raise ClusterError(f"{error}{self._export()}") from None
        except ClientError as error:
            raise ClusterError(f"the API server of the new cluster: {error}{self._export()}") from None

    def _check(self) -> None:
        client = self.client()
        version = str(client.request("GET", "/version")["gitVersion"]).removeprefix("v")
        if not version.startswith(f"{self.spec.version}."):
            raise ClusterError(
                f"the cluster is to be Kubernetes {self.spec.version}, and node image {self._tools.image} is {version}"
            )
        self._route()
        checks.check_gates(client, config.gate_settings(self.spec), self._containers)
        checks.check_versions(client, config.runtime_settings(self.spec))
        checks.check_pods(client, self._containers, self._progress)

    def _route(self) -> None:
        """Let nodes reach each other's Pods where no network plugin does that."""
        client = self.client()
        if (
            len(self._containers) < 2
            or client.find("apps/v1", "daemonsets", "kindnet", "kube-system") is not None
        ):
            return
        nodes = client.list("v1", "nodes")
        for node in nodes:
            commands = [
                f"ip route replace {other['spec']['podCIDR']} via {_address(other)}"
                for other in nodes
                if other is not node
            ]
            self.run_in(node["metadata"]["name"])("sh", "-c", " && ".join(commands))

    def missing(self) -> set[str]:
        """The names of nodes that are not Ready yet, and of what else Pods need."""
        missing = super().missing()
        found = {node["metadata"]["name"]: node for node in self.client().list("v1", "nodes")}
        missing |= {
            node.name for node in self._whole if node.name not in found or not node.complete(found[node.name])
        }
        # Without it no Pod can be created.
        if self.client().find("v1", "serviceaccounts", "default", "default") is None:
            missing.add("service account default/default")
        return missing

    def _tokens_in_use(self) -> Sequence[str]:
        return (self._token,) if self._token else ()

    def _end(self, stack: contextlib.ExitStack) -> None:
        if self._record is not None:
            stack.callback(self._record.remove)


def _check_port(port: int) -> None:
    """Raise ClusterError for a port that is taken; the container engine would say so in a wall of words."""
    with socket.socket() as listener:
        # As the engine's proxy does: connections that have ended do not hold a port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise ClusterError(
                f"the API server cannot listen on 127.0.0.1:{port}: {error.strerror}; choose another port (0 takes a "
                "free one) or stop the process that uses it"
            ) from None


def _address(node: Mapping[str, Any]) -> str:
    return next(
        str(entry["address"]) for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"
    )
