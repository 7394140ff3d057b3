"""A node as far as all tiers have it in common: directories, a driver process and the two proxies."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.driver_account import DriverAccounts
from clusters.guardian import Guardian
from clusters.interface import Component, NodePaths, NodeSpec
from clusters.log_files import LogFile, make_folder
from clusters.observation import Observation, parse_observation
from clusters.process import Commands, DriverProcess, StartError
from clusters.proxies.client_view import ClientView
from clusters.proxies.grpc_proxy import PluginProxy

_REGISTERED_SECONDS = 30.0
_POLL = 0.05


def node_paths(root: Path, kubelet_registry: Path | None = None) -> NodePaths:
    """The directories of a node below `root`; a real kubelet says itself where it looks for plugins."""
    return NodePaths(
        root=root,
        plugins=root / "plugins",
        registry=root / "reg",
        kubelet_registry=kubelet_registry or root / "kreg",
        proxy_sockets=root / "px",
        cdi=root / "cdi",
        hardware=root / "hw",
    )


class DriverNode:
    """What every node is: a place where a driver runs.

    The driver under test talks to the API server through `api_proxy`, the kubelet to it through `plugin_proxy`.
    """

    def __init__(
        self,
        name: str,
        spec: NodeSpec,
        paths: NodePaths,
        *,
        client: Client,
        guardian: Guardian,
        accounts: DriverAccounts,
        api_proxy: ClientView,
        poll_interval: float,
    ) -> None:
        """`poll_interval` is how many seconds may pass until a new socket of a driver is noticed."""
        self.name = name
        self._poll_interval = poll_interval
        self.spec = spec
        self._client = client
        self._guardian = guardian
        self._accounts = accounts
        self._lock = threading.Lock()
        self._driver: DriverProcess | None = None
        self._commands = Commands(guardian, f"{paths.root.name}:commands")
        self._at_close = contextlib.ExitStack()
        """What kinds of nodes have started beside the proxies."""
        self._closed = False
        self._prepared = False
        self._token = ""
        # Not the lock above: the end of a node must not wait for its registration.
        self._token_lock = threading.Lock()
        self.paths = paths
        # Where a node is a container, its mounts were there before it.
        paths.root.mkdir(mode=0o700, exist_ok=True)
        for path in (
            self.paths.plugins,
            self.paths.registry,
            self.paths.kubelet_registry,
            self.paths.proxy_sockets,
            self.paths.cdi,
        ):
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.api_proxy = api_proxy
        self.plugin_proxy = PluginProxy(
            self.paths.registry,
            self.paths.kubelet_registry,
            self.paths.proxy_sockets,
            poll_interval=poll_interval,
        )
        self.plugin_proxy.start()

    def stat(self, path: str) -> os.stat_result:
        """Status of a path as the node sees it. Raises OSError."""
        return Path(path).stat()

    def kubeconfig(self, descriptor: Descriptor) -> Path:
        """The driver's kubeconfig: its service account, bound to this Node, through the API proxy.

        Raises StartError when the kubelet does not register the Node.
        """
        path = self.paths.root / "kubeconfig"
        with self._token_lock:
            if not self._token:
                self._token = self._accounts.token(descriptor, self._registered())
                self.api_proxy.write_kubeconfig(path, token=self._token)
        return path

    def _registered(self) -> dict[str, Any]:
        """The Node object, once there is one."""
        deadline = time.monotonic() + _REGISTERED_SECONDS
        while (node := self._client.find("v1", "nodes", self.name)) is None:
            if self._closed:
                raise StartError("start.command: the run is over")
            if time.monotonic() > deadline:
                raise StartError(
                    f"node {self.name}: its kubelet has not registered it within {_REGISTERED_SECONDS:g} s"
                )
            time.sleep(_POLL)
        return node

    def _values(self, descriptor: Descriptor) -> dict[str, str]:
        plugin_dir = self.paths.plugins / descriptor.name
        plugin_dir.mkdir(mode=0o750, exist_ok=True)
        return {
            "node": self.name,
            "kubeconfig": str(self.kubeconfig(descriptor)),
            "plugin_dir": str(plugin_dir),
            "plugins_dir": str(self.paths.plugins),
            "registry_dir": str(self.paths.registry),
            "cdi_dir": str(self.paths.cdi),
            "hw_root": str(self.paths.hardware),
            "socket_dir": str(self.paths.root),
            "machine": self.spec.machine,
        }

    def prepare(self, descriptor: Descriptor) -> None:
        """Run the descriptor's prepareNode commands, once."""
        if self._prepared:
            return
        self._prepared = True
        for index, command in enumerate(descriptor.prepare_node):
            words = descriptor.expand(command, self._values(descriptor))
            self._commands.run(words, f"prepareNode[{index}]")

    def run_hook(self, descriptor: Descriptor, name: str, device: str = "") -> None:
        """Run the commands of a hook. Raises StartError."""
        self.prepare(descriptor)
        for index, command in enumerate(descriptor.hooks[name]):
            values = {**self._values(descriptor), "device": device}
            self._commands.run(descriptor.expand(command, values), f"hooks.{name}[{index}]")

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Prepare the node and start the driver. Raises StartError."""
        self.prepare(descriptor)
        values = self._values(descriptor)
        # What a killed driver leaves in its temporary folder goes with the node.
        temporary = self.paths.root / "tmp"
        temporary.mkdir(mode=0o700, exist_ok=True)
        environment = {"TMPDIR": str(temporary)} | {
            key: descriptor.expand([value], values)[0] for key, value in descriptor.environment.items()
        }
        driver = DriverProcess(
            descriptor.expand(descriptor.start, values),
            environment=environment,
            guardian=self._guardian,
            stop_signal=descriptor.stop_signal,
            stop_seconds=descriptor.stop_seconds,
            owner=f"{self.paths.root.name}:driver",
            log=LogFile(make_folder(self.paths.root.parent), f"driver-{self.name}", self.redact),
        )
        with self._lock:
            if self._closed:
                raise StartError("start.command: the run is over")
            self._driver = driver
        driver.start()
        return driver

    def redact(self, text: str) -> str:
        """The text without the driver's token."""
        return text.replace(self._token, "[token]") if self._token else text

    def close(self) -> None:
        """Kill the driver, stop kubelet and proxies, remove the files; the API objects stay for the record."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, self.paths.root, ignore_errors=True)
            stack.callback(self.plugin_proxy.stop)
            stack.callback(self._at_close.close)
            stack.callback(self._commands.close)
            if self._driver is not None:
                stack.callback(self._driver.close)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """What is in this context is part of the start: a failure leaves nothing of the node."""
        try:
            yield
        except BaseException:
            self.close()
            raise


class WithKubelet(DriverNode):
    """A node with a kubelet and a container runtime of its own."""

    kubelet: Component

    def observe(self, namespace: str, pod: str, container: str) -> Observation:
        """What a container that runs `probe` sees, from its log. Raises ObservationError, ClientError."""
        log = self._client.log(namespace, pod, container)
        return parse_observation(log, f"container {container} of Pod {namespace}/{pod}")
