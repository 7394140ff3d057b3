"""Mutants of the scheduler: alternatives of requests, and searches that go back."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from allocator import Allocator, allocator, results
from allocator.constraints import MatchAttribute
from clusters.embedded.scheduler.dynamic_resources import plugin, scoring
from tests.mutants.registry import component_mutant

_LONG = 300.0
_MANY_REQUESTS = 10


@component_mutant("last-alternative-first")
def last_alternative_first() -> None:
    """Alternatives are tried from the last to the first."""
    real = allocator.read_requests

    def read(*arguments: Any) -> Any:
        return [dataclasses.replace(plan, choices=plan.choices[::-1]) for plan in real(*arguments)]

    allocator.read_requests = read  # type: ignore[attr-defined]


@component_mutant("prefers-late-alternatives")
def prefers_late_alternatives() -> None:
    """Nodes count the more the later the alternatives stand that they offer."""
    real = scoring.allocation_score
    plugin.allocation_score = lambda *arguments: 1000 - real(*arguments)  # type: ignore[attr-defined]


@component_mutant("config-of-alternatives-for-everybody")
def config_of_alternatives_for_everybody() -> None:
    """A configuration that names as many requests as the claim has is taken to be for all."""
    real = results._configs

    def configs(claim: Any, chosen: Any) -> Any:
        found = real(claim, chosen)
        for entry in found:
            if len(entry.get("requests") or ()) >= len(chosen):
                entry.pop("requests", None)
        return found

    results._configs = configs


@component_mutant("keeps-narrowed-values")
def keeps_narrowed_values() -> None:
    """What the devices had in common stays as narrow as it was when a device is given up."""
    real = MatchAttribute.remove

    def remove(self: Any, request: Any) -> None:
        narrowed = self._values[-1] if self._values else None
        real(self, request)
        if self._lists and self._values:
            self._values[-1] = narrowed

    MatchAttribute.remove = remove  # type: ignore[method-assign]


@component_mutant("searches-for-ever")
def searches_for_ever() -> None:
    """A search through many combinations does not end in the time of a test."""
    real = Allocator.allocate

    def allocate(self: Any, node: Any, cancelled: Any = None, claims: Any = None) -> Any:
        for claim in claims or ():
            if len((claim["spec"].get("devices") or {}).get("requests") or ()) > _MANY_REQUESTS:
                threading.Event().wait(_LONG)
        return real(self, node, cancelled, claims)

    Allocator.allocate = allocate  # type: ignore[method-assign]
