"""Mutants of the kubelet: when claims are prepared and unprepared."""

from __future__ import annotations

import asyncio
from typing import Any

from clusters.embedded.kubelet.dra import manager
from clusters.embedded.kubelet.dra.claims import ClaimError, ClaimInfo
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.handshake import Handshake
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.container_start import ContainerStarter
from clusters.embedded.kubelet.pods.objects import Object
from clusters.embedded.kubelet.pods.runtime_state import PodRuntime
from clusters.embedded.kubelet.pods.syncer import PodSyncer
from tests.mutants.registry import component_mutant


@component_mutant("registers-without-a-word")
def registers_without_a_word() -> None:
    """Plugins are registered and never told."""
    Handshake._notify = lambda *_: None  # type: ignore[method-assign]


@component_mutant("starts-without-devices")
def starts_without_devices() -> None:
    """A Pod is started although its claims could not be prepared."""
    real = ClaimManager.prepare

    async def prepare(self: ClaimManager, pod: Object) -> None:
        try:
            await real(self, pod)
        except ClaimError:
            return

    ClaimManager.prepare = prepare  # type: ignore[method-assign]
    ClaimManager.cdi_devices = lambda *_: ()  # type: ignore[method-assign]


@component_mutant("does-not-wait-for-prepare")
def does_not_wait_for_prepare() -> None:
    """Claims are prepared beside the start of the Pod."""
    real = ClaimManager.prepare
    running: set[asyncio.Task[None]] = set()

    async def prepare(self: ClaimManager, pod: Object) -> None:
        running.add(asyncio.create_task(real(self, pod)))

    ClaimManager.prepare = prepare  # type: ignore[method-assign]
    ClaimManager.cdi_devices = lambda *_: ()  # type: ignore[method-assign]


@component_mutant("prepares-unreserved-claims")
def prepares_unreserved_claims() -> None:
    """Nobody looks whether a claim is allocated and reserved for the Pod."""
    manager.is_reserved = lambda *_, **__: True  # type: ignore[attr-defined]
    real = manager.claim_info

    def claim_info(claim: Object, **options: bool) -> ClaimInfo:
        status = claim.get("status") or {}
        return real({**claim, "status": {"allocation": {}, **status}}, **options)

    manager.claim_info = claim_info  # type: ignore[attr-defined]


@component_mutant("prepares-referenced-claims-only")
def prepares_referenced_claims_only() -> None:
    """Claims that no container refers to are left out."""
    real = ClaimManager._claims

    def claims(self: ClaimManager, pod: Object) -> Any:
        used = {
            entry["name"]
            for container in [*objects.init_containers(pod), *objects.containers(pod)]
            for entry in (container.get("resources") or {}).get("claims") or []
        }
        return [claim for claim in real(self, pod) if claim.name in used]

    ClaimManager._claims = claims  # type: ignore[method-assign]


@component_mutant("devices-for-every-container")
def devices_for_every_container() -> None:
    """Every container gets the devices of all claims of its Pod."""

    def requests(self: ClaimManager, pod: Object, container: Object) -> dict[str, list[str]]:
        names = [claim.object_name(pod) for claim in self._claims(pod)]
        return {name: [""] for name in names if name is not None}

    ClaimManager._requests = requests  # type: ignore[method-assign]


@component_mutant("forgets-forced-pods")
def forgets_forced_pods() -> None:
    """Claims of a Pod whose object is gone are not unprepared."""
    real = ClaimManager.unprepare

    async def unprepare(self: ClaimManager, pod: Object) -> None:
        if pod["metadata"].get("deletionGracePeriodSeconds") == 0 or not objects.deleted(pod):
            return
        await real(self, pod)

    async def reconcile(self: ClaimManager, active: set[str]) -> list[str]:
        return []

    ClaimManager.unprepare = unprepare  # type: ignore[method-assign]
    ClaimManager.reconcile = reconcile  # type: ignore[method-assign]


@component_mutant("takes-over-claims-of-one-name")
def takes_over_claims_of_one_name() -> None:
    """A claim of the same name takes the place of one that is still prepared."""
    real = ClaimManager._attach

    def attach(self: ClaimManager, pod: Object, fresh: ClaimInfo) -> ClaimInfo:
        known = self.cache.get(fresh.namespace, fresh.name)
        if known is not None and known.uid != fresh.uid:
            self.cache.delete(fresh.namespace, fresh.name)
        return real(self, pod, fresh)

    ClaimManager._attach = attach  # type: ignore[method-assign]


@component_mutant("unprepares-once")
def unprepares_once() -> None:
    """An Unprepare that failed is not repeated."""
    real = ClaimManager.unprepare

    async def unprepare(self: ClaimManager, pod: Object) -> None:
        try:
            await real(self, pod)
        except ClaimError:
            for info in self.cache.of_pod(objects.uid(pod)):
                self.cache.delete(info.namespace, info.name)

    ClaimManager.unprepare = unprepare  # type: ignore[method-assign]


@component_mutant("unprepares-what-was-not-prepared")
def unprepares_what_was_not_prepared() -> None:
    """A claim counts as in use before it was found that its driver is there."""

    def check_registered(self: ClaimManager, driver: str) -> None:
        return

    ClaimManager._check_registered = check_registered  # type: ignore[method-assign]


@component_mutant("prepares-for-each-pod")
def prepares_for_each_pod() -> None:
    """A claim is prepared again for the second Pod."""
    real = ClaimManager._attach

    def attach(self: ClaimManager, pod: Object, fresh: ClaimInfo) -> ClaimInfo:
        info = real(self, pod, fresh)
        info.prepared = False
        return info

    ClaimManager._attach = attach  # type: ignore[method-assign]


@component_mutant("unprepares-for-each-pod")
def unprepares_for_each_pod() -> None:
    """A claim is unprepared with the first of its Pods."""
    real = ClaimManager._unprepare

    async def unprepare(self: ClaimManager, pod_uid: str, namespace: str, names: list[str]) -> None:
        for name in names:
            info = self.cache.get(namespace, name)
            if info is not None and pod_uid in info.pods:
                info.pods = {pod_uid}
        await real(self, pod_uid, namespace, names)

    ClaimManager._unprepare = unprepare  # type: ignore[method-assign]


@component_mutant("one-claim-per-pod")
def one_claim_per_pod() -> None:
    """A Pod with a claim that is prepared already gets no other."""
    real = ClaimManager._attach

    def attach(self: ClaimManager, pod: Object, fresh: ClaimInfo) -> ClaimInfo:
        info = real(self, pod, fresh)
        if info.prepared or any(
            entry.prepared and objects.uid(pod) in entry.pods for entry in self.cache.items()
        ):
            info.prepared = True
        return info

    ClaimManager._attach = attach  # type: ignore[method-assign]


@component_mutant("one-call-per-claim")
def one_call_per_claim() -> None:
    """Each claim of a Pod is prepared by a call of its own."""
    real = ClaimManager._call_prepare

    async def call(self: ClaimManager, driver: str, claims: list[Any]) -> Any:
        devices: dict[str, Any] = {}
        for claim in claims:
            devices |= await real(self, driver, [claim])
        return devices

    ClaimManager._call_prepare = call  # type: ignore[method-assign]


@component_mutant("prepares-for-each-container")
def prepares_for_each_container() -> None:
    """Claims are prepared anew whenever a container is started."""
    real = PodSyncer.sync

    async def sync(self: PodSyncer, pod: Object) -> bool:
        for info in self._claims.cache.of_pod(objects.uid(pod)):
            for driver in info.drivers:
                await self._claims._call_prepare(driver, [info.reference])
        return await real(self, pod)

    PodSyncer.sync = sync  # type: ignore[method-assign]


@component_mutant("loses-devices-at-restarts")
def loses_devices_at_restarts() -> None:
    """A container that is started again gets no devices."""
    real = ContainerStarter.start

    async def start(
        self: ContainerStarter, pod: Object, container: Object, sandbox: str, state: PodRuntime, ips: Any
    ) -> None:
        if state.latest(container["name"]) is not None:
            container = {**container, "resources": {}}
        await real(self, pod, container, sandbox, state, ips)

    ContainerStarter.start = start  # type: ignore[method-assign]
