"""A kind cluster that another process keeps, as one run uses it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clusters.base import Begun
from clusters.interface import ClusterError, ClusterSpec, NodePaths
from clusters.kind import access
from clusters.kind.cluster import KUBECONFIG, KindCluster
from clusters.kind.tools import Tools
from clusters.node import node_paths

_RUN: Final = "r"
"""Folder of the run in that of a node, short because of its sockets."""


class AttachedKindCluster(KindCluster):
    """The cluster stays when this ends; what the run has put into the folders of its nodes does not."""

    def __init__(
        self,
        spec: ClusterSpec,
        tools: Tools,
        *,
        name: str,
        home: Path,
        begun: Begun | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`name` is that of the kind cluster, `home` the folder of its owner. Raises ClusterError.

        One run uses it at a time.
        """
        self._home = home
        self._lock_file: int | None = None
        super().__init__(spec, tools, name=name, begun=begun, progress=progress)

    def _start(self, logs: Path) -> None:
        self._lock_file = os.open(self._home / "used", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"kind cluster {self.name} is used by another run; try again when that is over"
            ) from None
        self._prepare(logs)
        self._server = access.read(self._home / KUBECONFIG)
        self._connect_nodes([self._paths(number) for number, _ in enumerate(self._containers, 1)])

    def _paths(self, number: int) -> NodePaths:
        """The folders of a run on a node: its own, but for those where kubelet and runtime look."""
        node = node_paths(self._home / f"n{number}")
        own = node.root / _RUN
        # Left by a run that was killed.
        shutil.rmtree(own, ignore_errors=True)
        for folder in (node.kubelet_registry, node.cdi):
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
        self._guardian.watch_folder(own)
        return dataclasses.replace(node_paths(own, node.kubelet_registry), cdi=node.cdi)

    @property
    def control_plane_root(self) -> Path:
        """The folder that the node of the control plane has at the same path."""
        return self._home / "n1"

    def _end(self, stack: contextlib.ExitStack) -> None:
        if self._lock_file is not None:
            stack.callback(os.close, self._lock_file)
