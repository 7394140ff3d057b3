"""In which order the containers of a Pod stop: sidecars after the regular ones, the last sidecar first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from clusters.clock import Clock
from clusters.containers.process import happens_within
from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object


class TerminationOrder:
    """One stop of a Pod."""

    def __init__(self, pod: Object | None, running: Sequence[str], clock: Clock) -> None:
        """`running` names the containers that run."""
        self._clock = clock
        self._ended: dict[str, asyncio.Event] = {}
        self._awaited: dict[str, list[asyncio.Event]] = {}
        if pod is None:
            return
        for _, _, container in objects.all_containers(pod):
            event = self._ended[container["name"]] = asyncio.Event()
            if container["name"] not in running:
                event.set()
        regular = [self._ended[container["name"]] for container in objects.containers(pod)]
        later: asyncio.Event | None = None
        for container in reversed(objects.init_containers(pod)):
            if objects.is_sidecar(container):
                self._awaited[container["name"]] = regular + ([later] if later is not None else [])
                later = self._ended[container["name"]]

    async def wait_for_turn(self, name: str, seconds: float) -> float:
        """Wait until the container may stop, at most so long; return how long that took, in whole seconds."""
        started = self._clock.now()
        for event in self._awaited.get(name, ()):
            left = seconds - (self._clock.now() - started)
            if not event.is_set() and not await happens_within(self._clock, event, left):
                break
        return float(int(self._clock.now() - started))

    def ended(self, name: str) -> None:
        """The container has stopped."""
        if name in self._ended:
            self._ended[name].set()
