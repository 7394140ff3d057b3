"""Mutants of kubelet, scheduler and runtime: what reaches containers."""

from __future__ import annotations

from typing import Any

from allocator import results
from clusters.embedded.kubelet.dra.claim_names import PodClaim
from clusters.embedded.kubelet.dra.claims import ClaimInfo
from clusters.embedded.kubelet.dra.manager import ClaimManager
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object
from tests.mutants.registry import component_mutant


@component_mutant("runtime-ignores-cdi")
def runtime_ignores_cdi() -> None:
    """The runtime starts containers without the CDI devices that they were given."""
    _forget_devices(lambda ids: ())


@component_mutant("ignores-undefined-devices")
def ignores_undefined_devices() -> None:
    """The runtime leaves out CDI devices that nobody has defined."""
    _forget_devices(lambda ids: tuple(id for id in ids if "nobody" not in id))


def _forget_devices(keep: Any) -> None:
    from clusters.containers.runtime.runtime import Runtime

    real = Runtime.create_container

    async def create(self: Runtime, sandbox_id: str, config: Any) -> str:
        from dataclasses import replace

        return await real(self, sandbox_id, replace(config, cdi_devices=keep(config.cdi_devices)))

    Runtime.create_container = create  # type: ignore[method-assign]


@component_mutant("whole-claims-only")
def whole_claims_only() -> None:
    """A container that names one request of a claim gets the whole claim."""
    real = ClaimInfo.cdi_devices

    def cdi_devices(self: ClaimInfo, request: str = "") -> list[str]:
        return real(self, "")

    ClaimInfo.cdi_devices = cdi_devices  # type: ignore[method-assign]


@component_mutant("devices-for-the-first-container")
def devices_for_the_first_container() -> None:
    """Only the first container of a Pod gets the devices of a claim."""
    _only(lambda pod, container: container["name"] == objects.containers(pod)[0]["name"])


@component_mutant("no-devices-for-init-containers")
def no_devices_for_init_containers() -> None:
    """Init containers and sidecars get no devices."""
    names = objects.containers
    _only(lambda pod, container: any(entry["name"] == container["name"] for entry in names(pod)))


def _only(wanted: Any) -> None:
    real = ClaimManager.cdi_devices

    def cdi_devices(self: ClaimManager, pod: Object, container: Object) -> tuple[str, ...]:
        return real(self, pod, container) if wanted(pod, container) else ()

    ClaimManager.cdi_devices = cdi_devices  # type: ignore[method-assign]


@component_mutant("insists-on-every-claim")
def insists_on_every_claim() -> None:
    """A claim that a Pod does not need is waited for."""
    real = PodClaim.object_name

    def object_name(self: PodClaim, pod: Object) -> str | None:
        return real(self, pod) or "no-such-claim"

    PodClaim.object_name = object_name  # type: ignore[method-assign]


@component_mutant("drops-class-configuration")
def drops_class_configuration() -> None:
    """The configuration of classes does not reach the allocation."""
    _without_configs("FromClass")


@component_mutant("drops-claim-configuration")
def drops_claim_configuration() -> None:
    """The configuration of claims does not reach the allocation."""
    _without_configs("FromClaim")


def _without_configs(source: str) -> None:
    real = results._configs

    def configs(*arguments: Any) -> list[dict[str, Any]]:
        return [entry for entry in real(*arguments) if entry["source"] != source]

    results._configs = configs
