"""A node with a kubelet and a simulated container runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusters.client import Client
from clusters.embedded.hosting import Hosting, node_user
from clusters.embedded.kubelet.config import KubeletConfig
from clusters.embedded.kubelet.kubelet import Kubelet
from clusters.embedded.node import EmbeddedNode
from clusters.embedded.runtime.runtime import Runtime
from clusters.interface import NodeSpec
from clusters.observation import Observation, parse_observation


class EmbeddedWholeNode(EmbeddedNode):
    """Kubelet and runtime live in the thread of the components; the runtime survives the kubelet."""

    def __init__(
        self,
        name: str,
        spec: NodeSpec,
        root: Path,
        *,
        client: Client,
        hosting: Hosting,
        kubelet: Mapping[str, str],
        api_token: str,
        **parts: Any,
    ) -> None:
        """`kubelet` holds fields of a KubeletConfiguration; `parts` are those of EmbeddedNode."""
        super().__init__(name, spec, root, client=client, **parts)
        config = KubeletConfig.of(spec, kubelet, api_token=api_token)
        self._hosting = hosting

        async def make_runtime() -> Runtime:
            return Runtime([self.paths.cdi], root / "containers", hosting.clock)

        self._runtime = hosting.host.call(make_runtime())
        self.kubelet = hosting.register(
            f"kubelet-{name}",
            lambda: Kubelet(name, self.paths, self._runtime, config),
            node_user(name),
            "kubelet",
        )
        self.kubelet.start()

    def observe(self, namespace: str, pod: str, container: str) -> Observation:
        """What a container that runs `probe` sees, from its log. Raises ObservationError, ClientError."""
        log = self._client.log(namespace, pod, container)
        return parse_observation(log, f"container {container} of Pod {namespace}/{pod}")

    def _stop_kubelet(self) -> None:
        self.kubelet.stop()
        self._hosting.host.call(self._runtime.close())
