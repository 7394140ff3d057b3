"""Mutants of the scheduler."""

from __future__ import annotations

from clusters.embedded.scheduler.dynamic_resources.plugin import DynamicResources
from clusters.embedded.scheduler.framework.events import Registration, Resource
from tests.mutants.registry import component_mutant


def _without(resource: Resource) -> None:
    """Take a kind of object out of what wakes pods with claims."""
    real = DynamicResources.events

    def events(self: DynamicResources) -> tuple[Registration, ...]:
        return tuple(entry for entry in real(self) if entry.event.resource is not resource)

    DynamicResources.events = events  # type: ignore[method-assign]


@component_mutant("deaf-to-classes")
def deaf_to_classes() -> None:
    """A device class that comes or changes wakes no pod."""
    _without(Resource.CLASS)
