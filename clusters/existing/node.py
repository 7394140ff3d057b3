"""A node of a user's cluster, of which the kit sees what its Pods print."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.interface import Component
from clusters.observation import Observation, parse_observation
from clusters.process import DriverProcess, StartError

_FOREIGN = "the kit runs nothing on nodes of a cluster that it has not started"


class ExistingNode:
    """A node on which Pods of the kit can run. It has no directories or proxies here."""

    paths: Any = None
    plugin_proxy: Any = None
    api_proxy: Any = None

    def __init__(self, name: str, client: Client) -> None:
        self.name = name
        self._client = client

    @property
    def kubelet(self) -> Component:
        """It has one that the kit cannot reach: raises RuntimeError."""
        raise RuntimeError(_FOREIGN)

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Raises StartError."""
        raise StartError(f"start.command: {_FOREIGN}")

    def run_hook(self, descriptor: Descriptor, name: str, device: str = "") -> NoReturn:
        """Raises StartError."""
        raise StartError(f"hooks.{name}: {_FOREIGN}")

    def kubeconfig(self, descriptor: Descriptor) -> Path:
        """Raises StartError."""
        raise StartError(_FOREIGN)

    def stat(self, path: str) -> os.stat_result:
        """Raises OSError."""
        raise FileNotFoundError(f"{path}: {_FOREIGN}")

    def redact(self, text: str) -> str:
        """The text: the kit has no credentials of a node here."""
        return text

    def close(self) -> None:
        """The node is not the kit's to end."""

    def observe(self, namespace: str, pod: str, container: str) -> Observation:
        """What a container that runs `probe` sees, from its log. Raises ObservationError, ClientError."""
        log = self._client.log(namespace, pod, container)
        return parse_observation(log, f"container {container} of Pod {namespace}/{pod}")
