"""The kubelet of one node: takes the Pods that are bound to it through their lives.

What it leaves out: probes and life cycle hooks that run a command or make a request (both count as successful at
once), exec, attach and port-forward, changes of resources in place, ephemeral containers, static Pods, restarts of
all containers by rule, and eviction for lack of resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.components.component import Context
from clusters.embedded.kubelet.config import KubeletConfig, KubeletPaths
from clusters.embedded.kubelet.life import KubeletLife
from clusters.embedded.kubelet.plugins import PluginManager

COMPONENT: Final = "kubelet"


class NodeFolders(Protocol):
    """What a kubelet needs to know of its node's directories."""

    @property
    def root(self) -> Path:
        """The node's folder, where the kubelet keeps its own files."""
        ...


class Kubelet:
    """One life of a kubelet; a Component. Sandboxes and containers outlive it in the runtime."""

    def __init__(
        self,
        node_name: str,
        paths: NodeFolders,
        plugins: Callable[[], PluginManager],
        runtime: Runtime,
        config: KubeletConfig,
    ) -> None:
        """Prepare; nothing runs before `run`.

        Args:
            node_name: name of the Node.
            paths: directories of the node.
            plugins: makes the plugin half of this life, not started.
            runtime: the node's container runtime; must belong to the loop in which this runs.
            config: settings.
        """
        self.name = f"{COMPONENT} {node_name}"
        self._node_name, self._paths, self._plugins = node_name, KubeletPaths(paths.root), plugins
        self._runtime, self._config = runtime, config

    async def run(self, context: Context) -> None:
        """Work until cancelled.

        What follows a cancellation here only closes what an operating system would close: sockets and threads.

        Raises:
            CheckpointError: the claims' checkpoint is damaged; nothing was started then.
        """
        life = KubeletLife(self._node_name, self._paths, self._plugins, self._runtime, self._config, context)
        try:
            await life.run()
        finally:
            await asyncio.shield(life.close())
