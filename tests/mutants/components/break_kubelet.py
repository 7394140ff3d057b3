"""Mutants of the kubelet: registration, restarts, slices."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from clusters.embedded.cluster import EmbeddedCluster
from clusters.embedded.kubelet.dra.checkpoint import CheckpointFile
from clusters.embedded.kubelet.dra.wiping import SliceWiper
from clusters.embedded.kubelet.pods.source import PodSource
from clusters.embedded.kubelet.reconciler import Reconciler
from tests.mutants.registry import component_mutant


@component_mutant("blind-to-old-sockets")
def blind_to_old_sockets() -> None:
    """Only sockets that appear while the kubelet runs are registered."""
    real = Reconciler._reconcile

    def reconcile(self: Any, wanted: dict[str, Any]) -> None:
        if not hasattr(self, "old"):
            # A first start finds no sockets; what is there at a later one stays unnoticed.
            self.old = set(wanted)
        real(self, {path: identity for path, identity in wanted.items() if path not in self.old})

    Reconciler._reconcile = reconcile  # type: ignore[method-assign]


@component_mutant("registers-a-path-once")
def registers_a_path_once() -> None:
    """A socket that is made anew at its old path counts as known."""
    real = Reconciler._reconcile

    def reconcile(self: Any, wanted: dict[str, Any]) -> None:
        self.seen = getattr(self, "seen", {})
        for path, identity in wanted.items():
            self.seen.setdefault(path, identity)
        real(self, dict(self.seen))

    Reconciler._reconcile = reconcile  # type: ignore[method-assign]


@component_mutant("asks-once")
def asks_once() -> None:
    """A registration that failed is not tried again."""

    def due(self: Any, path: str) -> bool:
        failures, _ = self._failures.get(path, (0, 0.0))
        return bool(failures == 0)

    Reconciler._due = due  # type: ignore[method-assign]


@component_mutant("blind-to-old-pods")
def blind_to_old_pods() -> None:
    """Only Pods that are bound while the kubelet runs are started."""
    real = PodSource._added

    def added(self: Any, pod: Any) -> None:
        # The handler is added after the first list was gone through.
        if self._informer._handlers:
            real(self, pod)
        else:
            self._objects[pod["metadata"]["uid"]] = pod

    PodSource._added = added  # type: ignore[method-assign]


@component_mutant("starts-pods-anew")
def starts_pods_anew() -> None:
    """A kubelet that starts takes no notice of sandboxes that are there."""
    real = PodSource.start

    async def start(self: PodSource) -> None:
        for sandbox in await self._runtime.list_pod_sandboxes():
            await self._runtime.stop_pod_sandbox(sandbox.id)
            await self._runtime.remove_pod_sandbox(sandbox.id)
        await real(self)

    PodSource.start = start  # type: ignore[method-assign]


@component_mutant("forgets-its-checkpoint")
def forgets_its_checkpoint() -> None:
    """The claims that were prepared are not read from the checkpoint."""
    CheckpointFile.load = lambda self: []  # type: ignore[method-assign]


@component_mutant("keeps-old-slices")
def keeps_old_slices() -> None:
    """ResourceSlices of the node are not removed at the start."""

    async def run(self: SliceWiper, log: logging.Logger) -> None:
        await asyncio.Event().wait()

    SliceWiper.run = run  # type: ignore[method-assign]


@component_mutant("wipes-every-slice")
def wipes_every_slice() -> None:
    """ResourceSlices of all nodes are removed at the start."""
    real = EmbeddedCluster._start

    def start(self: EmbeddedCluster, logs: Path) -> None:
        _CLUSTERS.append(self)
        real(self, logs)

    EmbeddedCluster._start = start  # type: ignore[method-assign]

    async def wipe(self: SliceWiper, driver: str) -> None:
        for item in (await self._client.list("resource.k8s.io/v1", "resourceslices"))["items"]:
            if item["spec"].get("nodeName"):
                name = item["metadata"]["name"]
                await asyncio.to_thread(_delete, name)

    SliceWiper._wipe = wipe  # type: ignore[method-assign]


_CLUSTERS: list[Any] = []


def _delete(name: str) -> None:
    """As the administrator: the API server does not let a kubelet do this."""
    _CLUSTERS[0].client("admin").delete("resource.k8s.io/v1", "resourceslices", name)
