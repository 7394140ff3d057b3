"""A node with a kubelet and a simulated container runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusters.client import Client
from clusters.containers.runtime.runtime import Runtime
from clusters.embedded.hosting import Hosting, node_user
from clusters.embedded.kubelet.config import DEFAULT_CAPACITY, KubeletConfig
from clusters.embedded.kubelet.kubelet import Kubelet
from clusters.embedded.kubelet.plugins import PluginManager
from clusters.interface import NodePaths, NodeSpec
from clusters.node import WithKubelet


class EmbeddedWholeNode(WithKubelet):
    """Kubelet and runtime live in the thread of the components; the runtime survives the kubelet."""

    def __init__(
        self,
        name: str,
        spec: NodeSpec,
        paths: NodePaths,
        *,
        client: Client,
        hosting: Hosting,
        number: int,
        kubelet: Mapping[str, str],
        api_token: str,
        **parts: Any,
    ) -> None:
        """`number` counts nodes, `kubelet` holds fields of a KubeletConfiguration, the rest is WithKubelet's."""
        config = _config(spec, kubelet, api_token)
        super().__init__(name, spec, paths, client=client, **parts)

        async def make_runtime() -> Runtime:
            # One /24 of 10.244.0.0/14 for each node, as a controller manager would hand them out.
            pod_cidr = f"10.{244 + number // 256}.{number % 256}.0/24"
            folder = paths.root / "containers"
            return Runtime([self.paths.cdi], folder, hosting.clock, pod_cidr, hostname=name)

        def plugins() -> PluginManager:
            return PluginManager(name, self.paths.kubelet_registry, poll_interval=self._poll_interval)

        with self._starting():
            runtime = hosting.host.call(make_runtime())
            self._at_close.callback(lambda: hosting.host.call(runtime.close()))
            self.kubelet = hosting.register(
                f"kubelet-{name}",
                lambda: Kubelet(name, self.paths, plugins, runtime, config),
                node_user(name),
                "kubelet",
            )
            self._at_close.callback(self.kubelet.stop)
            self.kubelet.start()


_DURATIONS: Mapping[str, str] = {
    "syncFrequency": "sync_frequency",
    "nodeStatusUpdateFrequency": "status_frequency",
    "nodeStatusReportFrequency": "status_report_frequency",
}
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _config(spec: NodeSpec, fields: Mapping[str, str], api_token: str) -> KubeletConfig:
    """Settings from the fields of a KubeletConfiguration. Raises ValueError for a field that is not known here."""
    unknown = sorted(set(fields) - set(_DURATIONS))
    if unknown:
        raise ValueError(f"kubelet: unknown field {unknown[0]}; known are {', '.join(_DURATIONS)}")
    config = KubeletConfig(
        labels=dict(spec.labels),
        taints=tuple({"key": key, "value": value, "effect": effect} for key, value, effect in spec.taints),
        capacity={**DEFAULT_CAPACITY, **dict(spec.capacity)},
        api_token=api_token,
    )
    changes: dict[str, Any] = {_DURATIONS[name]: _seconds(name, value) for name, value in fields.items()}
    return replace(config, **changes)


def _seconds(name: str, value: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", value)
    if match is None:
        raise ValueError(f'kubelet: {name}: "{value}" is no duration such as 500ms, 10s or 1m')
    return float(match[1]) * _UNITS[match[2]]
