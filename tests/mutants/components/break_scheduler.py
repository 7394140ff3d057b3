"""Mutants of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from allocator import AllocatedDevices, Allocator, pools
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.scheduler import event_handlers
from clusters.embedded.scheduler.cache import Cache
from clusters.embedded.scheduler.dynamic_resources import plugin, pod_claims
from clusters.embedded.scheduler.dynamic_resources.claim_tracker import ClaimTracker
from clusters.embedded.scheduler.dynamic_resources.claim_writer import ClaimWriter
from clusters.embedded.scheduler.dynamic_resources.filtering import NodeFilter
from clusters.embedded.scheduler.dynamic_resources.hints import ClaimHints
from clusters.embedded.scheduler.dynamic_resources.plugin import DynamicResources
from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Registration, Resource
from clusters.embedded.scheduler.framework.status import unschedulable
from clusters.embedded.scheduler.outcome import FailureHandler
from clusters.embedded.scheduler.plugins.node_affinity import NodeAffinity
from tests.mutants.registry import component_mutant


def _change_registrations(change: Callable[[Registration], Registration | None]) -> None:
    """Change what wakes Pods with claims; None takes an entry out."""
    real = DynamicResources.events

    def events(self: DynamicResources) -> Sequence[Registration]:
        changed = [change(entry) for entry in real(self)]
        return [entry for entry in changed if entry is not None]

    DynamicResources.events = events  # type: ignore[method-assign]


def _deaf_to(resource: Resource) -> None:
    _change_registrations(lambda entry: None if entry.event.resource is resource else entry)


@component_mutant("deaf-to-classes")
def deaf_to_classes() -> None:
    """A device class that comes or changes wakes no Pod."""
    _deaf_to(Resource.CLASS)


@component_mutant("deaf-to-class-changes")
def deaf_to_class_changes() -> None:
    """A new device class wakes Pods, a changed one does not."""

    def change(entry: Registration) -> Registration:
        if entry.event.resource is not Resource.CLASS:
            return entry
        return replace(entry, event=ClusterEvent(Resource.CLASS, Action.ADD))

    _change_registrations(change)


@component_mutant("deaf-to-claims")
def deaf_to_claims() -> None:
    """A claim that comes or changes wakes no Pod."""
    _deaf_to(Resource.CLAIM)


@component_mutant("deaf-to-slices")
def deaf_to_slices() -> None:
    """A slice that comes or changes wakes no Pod."""
    _deaf_to(Resource.SLICE)


@component_mutant("deaf-to-deallocation")
def deaf_to_deallocation() -> None:
    """Claims of other Pods are of no interest, also when their devices get free."""
    real = ClaimHints.after_claim

    def after_claim(self: ClaimHints, pod: Any, old: Any, new: Any) -> bool:
        names = {entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()}
        return (new or old)["metadata"]["name"] in names and real(self, pod, old, new)

    ClaimHints.after_claim = after_claim  # type: ignore[method-assign]


@component_mutant("announces-missing-claims")
def announces_missing_claims() -> None:
    """Pods whose claims are missing are tried like others."""
    DynamicResources.pre_enqueue = lambda self, pod: None  # type: ignore[method-assign]


@component_mutant("tells-no-event")
def tells_no_event() -> None:
    """A Pod that cannot be scheduled gets the condition, but no event."""
    real = FailureHandler.handle

    class Silent:
        def action(self, *arguments: Any) -> None:
            """Tell nobody."""

    async def handle(self: FailureHandler, entry: Any, failure: Any, recorder: Any) -> None:
        await real(self, entry, failure, Silent())  # type: ignore[arg-type]

    FailureHandler.handle = handle  # type: ignore[method-assign]


def _change_status(change: Callable[[Any], None]) -> None:
    """Change what is written into the status of claims."""
    real = ClaimWriter._put_status

    async def put(self: ClaimWriter, claim: Any) -> Any:
        change(claim["status"])
        return await real(self, claim)

    ClaimWriter._put_status = put  # type: ignore[method-assign]


@component_mutant("one-consumer-per-claim")
def one_consumer_per_claim() -> None:
    """A claim that is reserved for one Pod fits no other."""
    real = DynamicResources.pre_filter

    def pre_filter(self: DynamicResources, state: Any, pod: Any, nodes: Any) -> Any:
        for claim in pod_claims.claims_of(pod, self._access.claims.get):
            users = {entry.get("uid") for entry in (claim.get("status") or {}).get("reservedFor") or []}
            if users - {pod["metadata"]["uid"]}:
                return None, unschedulable("the claim is in use")
        return real(self, state, pod, nodes)

    DynamicResources.pre_filter = pre_filter  # type: ignore[method-assign]


@component_mutant("reserves-later")
def reserves_later() -> None:
    """An allocation is written first, and its consumer by a write of its own."""
    real = ClaimWriter._put_status

    async def put(self: ClaimWriter, claim: Any) -> Any:
        status = {name: value for name, value in claim["status"].items() if name != "reservedFor"}
        written = await real(self, {**claim, "status": status})
        return await real(self, {**written, "status": claim["status"]})

    ClaimWriter._put_status = put  # type: ignore[method-assign]


@component_mutant("allocates-without-finalizer")
def allocates_without_finalizer() -> None:
    """Claims are allocated without the finalizer."""

    async def put(self: ClaimWriter, claim: Any) -> Any:
        return claim

    ClaimWriter._put = put  # type: ignore[method-assign]


@component_mutant("ignores-claim-node")
def ignores_claim_node() -> None:
    """An allocated claim is taken for available on every node."""
    NodeFilter._available = lambda self, *arguments: True  # type: ignore[method-assign]


@component_mutant("robs-claims")
def robs_claims() -> None:
    """A claim that is in the way is deallocated, whoever uses it."""
    plugin.reserved_for = lambda claim: []  # type: ignore[attr-defined]


@component_mutant("never-gives-up-allocations")
def never_gives_up_allocations() -> None:
    """A claim that nobody uses stays where it was allocated."""

    async def post_filter(self: DynamicResources, *arguments: Any) -> Any:
        return None, unschedulable()

    DynamicResources.post_filter = post_filter  # type: ignore[method-assign]


@component_mutant("schedules-placed-pods")
def schedules_placed_pods() -> None:
    """Pods that have a node are scheduled like others."""
    event_handlers._has_node = lambda pod: False


@component_mutant("forgets-placed-pods")
def forgets_placed_pods() -> None:
    """Pods that others put onto a node do not count there."""
    real = Cache.add_pod

    def add(self: Cache, pod: Any) -> None:
        if pod["metadata"]["uid"] in self._assumed:
            real(self, pod)

    Cache.add_pod = add  # type: ignore[method-assign]


@component_mutant("ignores-node-selector")
def ignores_node_selector() -> None:
    """The node selector of Pods is not looked at."""
    NodeAffinity.filter = lambda self, state, pod, node: None  # type: ignore[method-assign]


@component_mutant("allows-duplicate-devices")
def allows_duplicate_devices() -> None:
    """Devices of one name in one pool are no problem."""
    pools._duplicate_device = lambda slices: ""


@component_mutant("forgets-what-is-in-flight")
def forgets_what_is_in_flight() -> None:
    """Only allocations that are written count as taken."""
    ClaimTracker.allocated_state = lambda self: self._devices.state([])  # type: ignore[method-assign]


@component_mutant("errors-wait-for-events")
def errors_wait_for_events() -> None:
    """After an error a Pod waits for events, as after a refusal."""
    real = FailureHandler.handle

    async def handle(self: FailureHandler, entry: Any, failure: Any, recorder: Any) -> None:
        plugins = failure.plugins or frozenset({DynamicResources.name})
        await real(self, entry, replace(failure, plugins=plugins), recorder)

    FailureHandler.handle = handle  # type: ignore[method-assign]


@component_mutant("starts-without-allocations")
def starts_without_allocations() -> None:
    """Claims that were allocated before the scheduler started do not count."""
    real = AllocatedDevices.update

    def update(self: AllocatedDevices, old: Any, new: Any) -> None:
        if old is not None:
            real(self, old, new)

    AllocatedDevices.update = update  # type: ignore[method-assign]


@component_mutant("allocates-claims-apart")
def allocates_claims_apart() -> None:
    """Each claim of a Pod is allocated as if it were the only one."""
    real = Allocator.allocate

    def allocate(self: Allocator, node: Any, cancelled: Any = None, claims: Any = None) -> Any:
        found: list[Any] = []
        for claim in self._claims if claims is None else claims:
            found += real(self, node, cancelled, [claim])
        return found

    Allocator.allocate = allocate  # type: ignore[method-assign]


@component_mutant("insists-on-claims")
def insists_on_claims() -> None:
    """A claim that a Pod turned out not to need is waited for."""
    real = references.claim_name

    def name(pod: Any, pod_claim: Any) -> tuple[str | None, bool]:
        found = real(pod, pod_claim)
        if found[0] is None:
            raise references.NotCreatedError("ResourceClaim not created yet")
        return found

    pod_claims.claim_name = name  # type: ignore[attr-defined]


@component_mutant("uses-deleted-claims")
def uses_deleted_claims() -> None:
    """A claim that is being deleted can still be used by new Pods."""
    real = pod_claims.claims_of

    def alive(claim: Any) -> Any:
        metadata = {name: value for name, value in claim["metadata"].items() if name != "deletionTimestamp"}
        return {**claim, "metadata": metadata}

    def claims(pod: Any, lookup: Any) -> Any:
        def find(namespace: str, name: str) -> Any:
            claim = lookup(namespace, name)
            return None if claim is None else alive(claim)

        return real(pod, find)

    plugin.claims_of = claims  # type: ignore[attr-defined]
