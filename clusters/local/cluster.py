"""The local tier: real Kubernetes components as plain processes, real kubelets, and our own container runtime."""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clusters.base import (
    OF_OWN_CLUSTERS,
    Begun,
    StartedCluster,
    all_at_once,
    check_sockets,
    node_name,
)
from clusters.interface import ClusterError, ClusterSpec, Component
from clusters.local import credentials, probes
from clusters.local.control_plane import ControlPlane, Programs
from clusters.local.credentials import Credentials
from clusters.local.cri.config import NodeConfig, to_document
from clusters.local.kubelet import FOLDER, KubeletFactory, extended_resources
from clusters.local.mounts import MountNamespace
from clusters.local.node import LocalNode
from clusters.local.supervisor import Launch, Process, wait_serving
from clusters.node import node_paths

__all__ = ["COMPONENTS", "LocalCluster"]

COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
"""The binaries that a cluster is made of."""

_RUNTIME: Final = "runtime"
_RUNTIME_SOCKET: Final = "cri.sock"
_STOP_SECONDS: Final = 3.0
_LOG_SECONDS: Final = 10.0


def check_rights(spec: ClusterSpec) -> None:
    """Raise ClusterError when such a cluster needs root and this process is not."""
    if spec.control_plane and spec.nodes and os.geteuid() != 0:
        raise ClusterError(
            "a local cluster with nodes needs root, as real kubelets mount the volumes of Pods; run drakit as "
            "root (sudo), or use an embedded cluster"
        )


class LocalCluster(StartedCluster[LocalNode]):
    """A running local cluster."""

    CAPABILITIES = OF_OWN_CLUSTERS | {"restart_kubelet", "restart_component"}
    READY_SECONDS = 120.0

    def __init__(
        self, spec: ClusterSpec, binaries: Programs, *, port: int = 0, begun: Begun | None = None
    ) -> None:
        """Start it, its API server on `port` (0 takes a free one). Raises ClusterError when that cannot be.

        The API server serves then; nodes and the rest of the control plane are started, not waited for: see
        `wait_ready`.
        """
        super().__init__(spec)
        if not binaries.version.removeprefix("v").startswith(f"{spec.version}."):
            raise ClusterError(
                f"the cluster is to be Kubernetes {spec.version}, and the binaries are of {binaries.version}"
            )
        self._binaries = binaries
        self._port = port
        self._processes: dict[str, Process] = {}
        self._namespace: MountNamespace | None = None
        self._control: ControlPlane | None = None
        self._keys: Credentials | None = None
        self._ending = threading.Event()
        check_rights(spec)
        if spec.control_plane and spec.nodes:
            for node in spec.nodes:
                extended_resources(node)
            check_sockets("a kubelet's", f"{FOLDER}/pod-resources/kubelet.sock")
        self._begin(begun)

    def _start(self, logs: Path) -> None:
        nodes = self.spec.nodes if self.spec.control_plane else ()
        names = [node_name(node, number) for number, node in enumerate(nodes, 1)]
        address = probes.host_address()
        self._logs = logs
        threading.Thread(target=self._keep_logs_short, name="logs", daemon=True).start()
        self._keys = Credentials(self.root / "pki", names)
        self._control = control = ControlPlane(
            self.spec,
            self._binaries,
            self._keys,
            self.root,
            self._process,
            port=self._port,
            address=address,
        )
        control.etcd.start()
        control.apiserver.start()
        if nodes:
            self._namespace = MountNamespace(self.root)
            self._runtime(names).start()
        wait_serving([control.etcd, control.apiserver])
        self._connect(self._keys.authority.pem, self._keys.token(credentials.ADMIN))
        if not self.spec.control_plane:
            return
        control.controller_manager.start()
        control.scheduler.start()
        if self._namespace is None:
            return
        wait_serving([self._processes[_RUNTIME]])
        kubelets = KubeletFactory(
            self.spec, self._binaries, self._keys, self._namespace, self._process, address=address
        )
        for number, spec in enumerate(nodes, 1):
            root = self.root / f"n{number}"
            self._whole.append(
                self._make(
                    LocalNode,
                    spec,
                    paths=node_paths(root, root / FOLDER / "plugins_registry"),
                    make_kubelet=functools.partial(
                        kubelets.kubelet, server=lambda: self.url, runtime=self._socket(number)
                    ),
                    address=address,
                )
            )

    def _keep_logs_short(self) -> None:
        while not self._ending.wait(_LOG_SECONDS):
            for process in list(self._processes.values()):
                process.trim()

    def _process(self, name: str, launch: Callable[[], Launch], *, stop_seconds: float) -> Process:
        process = Process(name, launch, guardian=self._guardian, logs=self._logs, stop_seconds=stop_seconds)
        self._processes[name] = process
        return process

    def _socket(self, number: int) -> Path:
        return self.root / "cri" / f"{number}.sock"

    def _runtime(self, names: Sequence[str]) -> Process:
        """The process that serves CRI to all kubelets, each at a socket of its own."""
        folder = self.root / "cri"
        folder.mkdir(mode=0o700)
        document = to_document(
            NodeConfig(
                name,
                self._socket(number),
                (self.root / f"n{number}" / "cdi",),
                folder / str(number),
                # One /24 of 10.244.0.0/14 for each node, as a controller manager would hand them out.
                f"10.{244 + number // 256}.{number % 256}.0/24",
            )
            for number, name in enumerate(names, 1)
        )
        config = credentials.write(folder / "config.json", json.dumps(document).encode())
        namespace = self._namespace
        assert namespace is not None  # noqa: S101 - it is made before

        def launch() -> Launch:
            command = [sys.executable, "-P", "-m", "clusters.local.cri", "--config", str(config)]
            return Launch(
                namespace.inside(command),
                lambda: process.said_line("ready"),
                (namespace.descriptor,),
                {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

        process = self._process(_RUNTIME, launch, stop_seconds=_STOP_SECONDS)
        return process

    @property
    def url(self) -> str:
        """Where the API server listens."""
        assert self._control is not None  # noqa: S101 - it is made by the start
        return self._control.url

    def component(self, name: str) -> Component:
        """`apiserver`, `scheduler`, `controller-manager`, `etcd`, `runtime`, or `kubelet-NODE`.

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

    def components(self) -> dict[str, Process]:
        """Every component of the cluster, kubelets included, by the name of its log; drivers are none."""
        alone = {"etcd", "apiserver"}
        return {
            name: process
            for name, process in self._processes.items()
            if self.spec.control_plane or name in alone
        }

    def dead(self) -> dict[str, str]:
        """The components that ended without being told to, with their last words."""
        return {name: process.last_words() for name, process in self.components().items() if process.crashed}

    def _check_alive(self) -> None:
        # One that never served may get another port: `Process.serving` judges it.
        for name, words in self.dead().items():
            if self._processes[name].has_served:
                raise ClusterError(words)

    def missing(self) -> set[str]:
        """The names of nodes that are not Ready yet, and of what else Pods need; raises ClusterError for what ended."""
        missing = super().missing()
        client = self.client()
        if self._whole:
            found = {node["metadata"]["name"]: node for node in client.list("v1", "nodes")}
            missing |= {
                node.name
                for node in self._whole
                if node.name not in found or not node.complete(found[node.name])
            }
        for name, process in self.components().items():
            if not process.has_served and not process.serving():
                missing.add(name)
        # The API server makes it a moment after it serves; accounts of drivers are in it.
        if client.find("v1", "namespaces", "kube-system") is None:
            missing.add("namespace kube-system")
        # Without it no Pod can be created.
        if self.spec.control_plane and client.find("v1", "serviceaccounts", "default", "default") is None:
            missing.add("service account default/default")
        return missing

    def _tokens_in_use(self) -> Sequence[str]:
        return self._keys.all_tokens() if self._keys is not None else ()

    def _end(self, stack: contextlib.ExitStack) -> None:
        self._ending.set()
        if self._namespace is not None:
            stack.callback(self._namespace.close)
        if self._control is not None:
            control = self._control
            stack.callback(control.etcd.stop)
            stack.callback(control.apiserver.stop)
            others = [
                process.stop
                for process in self._processes.values()
                if process not in (control.etcd, control.apiserver)
            ]
            stack.callback(all_at_once, others)
