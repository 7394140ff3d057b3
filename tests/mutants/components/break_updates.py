"""Mutants of what happens when drivers come, go and are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.embedded.controllers.garbage_collector.deletion import Deletion
from clusters.embedded.kubelet import rules
from clusters.embedded.kubelet.dra.wiping import SliceWiper
from clusters.embedded.kubelet.reconciler import Reconciler
from tests.mutants.registry import component_mutant


@component_mutant("calls-the-first-instance")
def calls_the_first_instance() -> None:
    """The instance that registered first is called as long as it is there."""
    rules.call_target = lambda plugins: plugins[0] if plugins else None  # type: ignore[assignment]


@component_mutant("calls-what-is-not-there")
def calls_what_is_not_there() -> None:
    """The newest instance is called, connected or not."""
    rules.call_target = lambda plugins: plugins[-1] if plugins else None  # type: ignore[assignment]


@component_mutant("one-instance-of-a-driver")
def one_instance_of_a_driver() -> None:
    """A second instance of a driver is refused, as kubelets before 1.33 did."""
    real = Reconciler._add

    def add(self: Reconciler, info: Any, path: str, identity: Any) -> None:
        if any(plugin.info.driver == info.driver for plugin in self.plugins()):
            raise ValueError(f"driver {info.driver} is registered already")
        real(self, info, path, identity)

    Reconciler._add = add  # type: ignore[method-assign]


@component_mutant("forgets-the-older-instance")
def forgets_the_older_instance() -> None:
    """A driver is known by its last registration alone: without it, it counts as not registered."""
    add, target = Reconciler._add, Reconciler.target

    def remember(self: Any, info: Any, path: str, identity: Any) -> None:
        add(self, info, path, identity)
        self.last = {**getattr(self, "last", {}), info.driver: info.endpoint}

    def last(self: Any, driver: str) -> Any:
        plugin = target(self, driver)
        if plugin.info.endpoint != self.last[driver]:
            raise rules.not_registered(driver)
        return plugin

    Reconciler._add = remember  # type: ignore[method-assign]
    Reconciler.target = last  # type: ignore[method-assign]


@component_mutant("short-socket-names")
def short_socket_names() -> None:
    """Registration sockets whose file names have more than 48 characters are passed over."""
    real = Reconciler._reconcile

    def reconcile(self: Reconciler, wanted: dict[str, Any]) -> None:
        real(self, {path: identity for path, identity in wanted.items() if len(Path(path).name) <= 48})

    Reconciler._reconcile = reconcile  # type: ignore[method-assign]


@component_mutant("wipes-with-any-instance")
def wipes_with_any_instance() -> None:
    """Slices are removed after the end of one instance, although another is connected."""
    real = SliceWiper._follow

    def follow(self: Any, group: Any) -> None:
        found = {
            (plugin.driver, plugin.endpoint) for plugin in self._plugins.registrations() if plugin.connected
        }
        for driver, _ in getattr(self, "before", set()) - found:
            group.create_task(later(self, driver))
        self.before = found
        real(self, group)

    async def later(self: Any, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self._wipe(driver)

    SliceWiper._follow = follow  # type: ignore[method-assign]


@component_mutant("wipes-at-once")
def wipes_at_once() -> None:
    """Slices are removed as soon as the connection to their driver is lost."""
    real = SliceWiper._wipe_later

    async def wipe(self: SliceWiper, driver: str) -> None:
        self._delay = 0.0
        await real(self, driver)

    SliceWiper._wipe_later = wipe  # type: ignore[method-assign]


@component_mutant("never-wipes")
def never_wipes() -> None:
    """Slices of a driver that has gone stay."""

    async def keep(self: SliceWiper, driver: str) -> None:
        return

    SliceWiper._wipe_later = keep  # type: ignore[method-assign]


@component_mutant("owners-by-name")
def owners_by_name() -> None:
    """An owner counts as there when an object of its name is, whatever its UID."""
    real = Deletion._owner

    async def owner(self: Any, reference: Any, namespace: str) -> Any:
        if reference["kind"] == "Node":
            return await self._client.find("v1", "nodes", reference["name"])
        return await real(self, reference, namespace)

    Deletion._owner = owner  # type: ignore[method-assign]
