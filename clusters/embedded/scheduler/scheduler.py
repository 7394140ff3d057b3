"""The scheduler as a component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from allocator import Answers, CelCache, SliceCache
from allocator.ledger import Ledger
from clusters.client import ClientError
from clusters.embedded.components.component import Context
from clusters.embedded.components.informer import Informer, run_informers
from dra_api.cel import compile_selector

from .cache import Cache
from .config import SchedulerConfig
from .cycle import SchedulingCycle
from .dynamic_resources.claim_tracker import ClaimTracker
from .dynamic_resources.claim_writer import API, RESOURCE, ClaimWriter
from .dynamic_resources.plugin import DraAccess
from .dynamic_resources.reservations import DEVICES_FREED, FREED_CLAIM, Reservations
from .dynamic_resources.slice_tracker import SliceTracker
from .event_handlers import EventHandlers
from .gates import SchedulerGates
from .outcome import FailureHandler, PodStatusWriter
from .plugins.default_preemption import PreemptionAccess
from .profiles import build_profile
from .queue.nominator import Nominator
from .queue.scheduling_queue import QueueTimes, SchedulingQueue
from .share import ALONE, Share

_RULES: Final = "devicetaintrules"
_RUNNING_ONLY: Final = "status.phase!=Succeeded,status.phase!=Failed"


class Scheduler:
    """One life of a kube-scheduler. All it knows comes from list and watch."""

    def __init__(
        self, config: SchedulerConfig, share: Share = ALONE, ledger: Callable[[], Ledger] | None = None
    ) -> None:
        """`share` is its part of the pods. `ledger` connects to that of all schedulers, when there are several."""
        self._config = config
        self._share = share
        self._ledger = ledger

    async def run(self, context: Context) -> None:
        """Schedule pods until cancelled."""
        if self._ledger is None:
            await self._run(context, None)
            return
        ledger = self._ledger()
        try:
            await self._run(context, ledger)
        finally:
            await ledger.close()

    async def _run(self, context: Context, ledger: Ledger | None) -> None:
        config, client, clock, log = self._config, context.client, context.clock, context.log
        gates = SchedulerGates.of(context.gates)
        pods = Informer(client, "v1", "pods", field_selector=_RUNNING_ONLY)
        nodes = Informer(client, "v1", "nodes")
        claims = Informer(client, API, RESOURCE)
        slices = Informer(client, API, "resourceslices")
        classes = Informer(client, API, "deviceclasses")
        namespaces = Informer(client, "v1", "namespaces")
        informers = [namespaces, nodes, claims, slices, classes, pods]
        claim_tracker, slice_tracker = ClaimTracker(gates.consumable_capacity), SliceTracker()
        if gates.taint_rules and await _serves_rules(context):
            rules = Informer(client, API, _RULES)
            rules.add_handler(slice_tracker.on_rule)
            informers.append(rules)
        times = QueueTimes(config.initial_backoff, config.max_backoff)
        queue = SchedulingQueue(clock, Nominator(pods.get), times, pop_from_backoff=gates.pop_from_backoff)
        cache, writer = Cache(), PodStatusWriter(client, clock)
        enabled = frozenset(name for name, on in gates.all.items() if on)
        compiled = CelCache(lambda expression: compile_selector(expression, features=enabled))
        async with asyncio.TaskGroup() as group:

            def namespace_labels(name: str) -> Mapping[str, str]:
                return ((namespaces.get("", name) or {}).get("metadata") or {}).get("labels") or {}

            reservations = None
            if ledger is not None:
                reservations = Reservations(
                    ledger,
                    client,
                    self._share.name,
                    claim_tracker,
                    slice_tracker,
                    log,
                    shares=gates.consumable_capacity,
                    freed=lambda: queue.move_all(DEVICES_FREED, FREED_CLAIM, None),
                )
                claims.add_handler(reservations.session.inform)
            dra = DraAccess(
                claims=claim_tracker,
                slices=slice_tracker,
                classes=classes,
                writer=ClaimWriter(client, clock, timestamps=gates.binding_conditions),
                cel=compiled,
                parsed=SliceCache(),
                answers=Answers(),
                clock=clock,
                gates=gates,
                log=log,
                reservations=reservations,
            )
            preemption = PreemptionAccess(
                cache.snapshot, client, writer, queue.activate, group.create_task, log
            )
            profiles = {
                profile.scheduler_name: build_profile(
                    profile, client, clock, dra, preemption, queue.nominator.pods, namespace_labels
                )
                for profile in config.profiles
            }
            queue.use({name: profile.framework for name, profile in profiles.items()})
            EventHandlers(
                queue, cache, claim_tracker, slice_tracker, frozenset(profiles), self._share
            ).register(pods, nodes, claims, slices, classes)
            for profile in profiles.values():
                group.create_task(profile.recorder.run())
            group.create_task(run_informers(informers))
            group.create_task(queue.run())
            for informer in informers:
                await informer.wait_synced()
            if reservations is not None:
                group.create_task(reservations.session.run())
                await reservations.session.tried.wait()
            log.info("caches are synced, scheduling for %s", ", ".join(profiles))
            cycle = SchedulingCycle(
                profiles,
                queue,
                cache,
                client,
                FailureHandler(queue, pods, writer, log),
                writer,
                log,
                nominate_before_binding=gates.nominate_before_binding,
            )
            await cycle.run(group.create_task)


async def _serves_rules(context: Context) -> bool:
    """Whether the server knows DeviceTaintRules in the version of the other objects."""
    while True:
        try:
            answer = await context.client.request("GET", f"/apis/{API}")
        except ClientError as problem:
            context.log.info("discovery: %s", problem)
            await asyncio.sleep(0.2)
            continue
        return any(resource["name"] == _RULES for resource in answer.get("resources") or ())
