"""The driver on every node of a cluster of `drakit up`, started anew when it ends, as a DaemonSet would."""

from __future__ import annotations

import contextlib
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.interface import WholeNode
from clusters.process import DriverProcess, StartError, exit_text
from drakit.tiers import RunningCluster

_LOG: Final = logging.getLogger("drakit.drivers")
_POLL: Final = 0.05
_LINES: Final = 3
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0
_HEALTHY_SECONDS: Final = 600.0
_THREADS: Final = 8


class Drivers:
    """One process on each node."""

    def __init__(self, cluster: RunningCluster, subject: Descriptor) -> None:
        self.subject = subject
        self._cluster = cluster
        self._running: dict[str, DriverProcess] = {}
        self._due: dict[str, float] = {}
        self._pause: dict[str, float] = {}
        self._since: dict[str, float] = {}

    def start(self) -> None:
        """Start it on all nodes at the same time. Raises StartError."""
        nodes = self._cluster.nodes
        pool = ThreadPoolExecutor(min(len(nodes), _THREADS))
        try:
            processes = list(pool.map(lambda node: node.run_driver(self.subject), nodes))
        finally:
            # After an interrupt nobody waits: the cluster ends what was started.
            pool.shutdown(wait=False, cancel_futures=True)
        self._running = {node.name: process for node, process in zip(nodes, processes, strict=True)}

    def wait_published(self) -> int:
        """Wait until each node has a slice of the driver; the number of devices. Raises StartError."""
        client: Client = self._cluster.client()
        deadline = time.monotonic() + self.subject.ready_seconds
        query = {"fieldSelector": f"spec.driver={self.subject.name}"}
        while True:
            slices = client.list("resource.k8s.io/v1", "resourceslices", **query)
            missing = set(self._running) - {item["spec"].get("nodeName") for item in slices}
            if not missing:
                return sum(len(item["spec"].get("devices") or []) for item in slices)
            for name in sorted(missing):
                process = self._running[name]
                if not process.running:
                    raise StartError(
                        f"start.command: the driver on {name} ended with {exit_text(process.exit_code)}; "
                        + _last_words(process)
                    )
            if time.monotonic() > deadline:
                raise StartError(
                    f"start.readySeconds: the driver published no slice for {', '.join(sorted(missing))} within "
                    f"{self.subject.ready_seconds:g} s; " + _last_words(self._running[min(missing)])
                )
            time.sleep(_POLL)

    def wait_registered(self) -> list[str]:
        """Wait until the kubelets have registered it; the nodes where that did not happen in time.

        A Pod that comes earlier is tried again only after a minute.
        """
        deadline = time.monotonic() + self.subject.ready_seconds
        missing = list(self._cluster.nodes)
        while missing := [node for node in missing if not _registered(node)]:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL)
        return [node.name for node in missing]

    def revive(self) -> None:
        """Start again what has ended, each time after a longer pause."""
        for name, process in self._running.items():
            now = time.monotonic()
            if process.running:
                if now - self._since.setdefault(name, now) > _HEALTHY_SECONDS:
                    self._pause.pop(name, None)
            elif name not in self._due:
                pause = self._pause.get(name, _FIRST_PAUSE)
                self._due[name] = now + pause
                self._pause[name] = min(pause * 2, _LAST_PAUSE)
                self._since.pop(name, None)
                words = _last_words(process)
                _LOG.warning("the driver on %s ended with %s; %s", name, exit_text(process.exit_code), words)
            elif now >= self._due[name]:
                del self._due[name]
                with contextlib.suppress(StartError):
                    process.start()

    def ended(self) -> list[str]:
        """The nodes whose driver does not run at the moment."""
        return [name for name, process in self._running.items() if not process.running]


def _registered(node: WholeNode) -> bool:
    return any(
        getattr(call.request_message, "plugin_registered", False)
        for call in node.plugin_proxy.calls(method="NotifyRegistrationStatus")
    )


def _last_words(process: DriverProcess) -> str:
    lines = process.tail(_LINES)
    return f"it printed:\n{lines}" if lines else "it printed nothing"
