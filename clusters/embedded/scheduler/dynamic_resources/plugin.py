# ruff: noqa: D102 - the extension points are described in framework/plugin.py
"""The plugin at its extension points.

Claims for extended resources stand last among the claims of a pod; node-allocatable resources add to Filter, Reserve
and PreBind. Source: kubernetes v1.37.2 `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from allocator import Allocator, Answers, CelCache, SliceCache, allocation_of
from allocator.ledger import LedgerUnavailableError
from allocator.node_match import NodeSelection, NodeSelectorError
from clusters.chance import CHANCE
from clusters.client import ClientError
from clusters.clock import Clock
from clusters.embedded.components.events import EventRecorder
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.resource_claim.references import FINALIZER, is_reserved_for, reserved_for
from clusters.embedded.scheduler.framework.events import Action, ClusterEvent, Object, Registration, Resource
from clusters.embedded.scheduler.framework.node_info import NodeInfo
from clusters.embedded.scheduler.framework.plugin import (
    CycleState,
    NodeStatuses,
    Nomination,
    Plugin,
    normalized,
)
from clusters.embedded.scheduler.framework.status import SKIP, Status, error, unresolvable, unschedulable
from clusters.embedded.scheduler.gates import SchedulerGates

from .binding_conditions import BindingFailedError, BindingTimeoutError, check, has_conditions
from .claim_tracker import ClaimTracker, not_found
from .claim_writer import ClaimWriter, WriteError
from .filtering import NodeFilter
from .hints import ClaimHints
from .pod_claims import UnusableClaimError, claims_of
from .reservations import Reservations, confirm
from .scoring import allocation_score, has_alternatives
from .slice_tracker import SliceTracker
from .state import KEY, PodState, state_of

_POLL: Final = 5.0


@dataclass(frozen=True, slots=True)
class DraAccess:
    """What the plugin knows and uses; shared by the profiles of a scheduler."""

    claims: ClaimTracker
    slices: SliceTracker
    classes: Informer
    writer: ClaimWriter
    cel: CelCache
    parsed: SliceCache
    answers: Answers
    clock: Clock
    gates: SchedulerGates
    log: logging.Logger
    reservations: Reservations | None = None
    """The ledger that this scheduler shares with others."""


class DynamicResources(Plugin):
    """Allocates devices to the claims of pods, and reserves claims for them."""

    name = KEY

    def __init__(
        self, access: DraAccess, recorder: EventRecorder, filter_timeout: float, binding_timeout: float
    ) -> None:
        """Timeouts are those of DynamicResourcesArgs in seconds; 0: no limit for Filter."""
        self._access = access
        self._recorder = recorder
        self._binding_timeout = binding_timeout
        gates = access.gates
        limit = filter_timeout if gates.filter_timeout else 0.0
        self._node_filter = NodeFilter(access.clock, limit, binding_timeout, gates.binding_conditions)
        self._hints = ClaimHints(access.claims.get)

    def events(self) -> Sequence[Registration]:
        node = Action.ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE
        changed = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.NODE, node)),
            Registration(ClusterEvent(Resource.CLAIM, changed | Action.DELETE), self._hints.after_claim),
            Registration(
                ClusterEvent(Resource.TARGET_POD, Action.POD_GENERATED_CLAIM), self._hints.after_pod
            ),
            Registration(ClusterEvent(Resource.CLASS, changed)),
            Registration(ClusterEvent(Resource.SLICE, changed)),
        )

    def pre_enqueue(self, pod: Object) -> Status | None:
        try:
            claims_of(pod, self._access.claims.get)
        except UnusableClaimError as problem:
            return unresolvable(str(problem))
        return None

    # Looking for a node.

    def pre_filter(
        self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]
    ) -> tuple[frozenset[str] | None, Status | None]:
        try:
            claims = claims_of(pod, self._access.claims.get)
        except UnusableClaimError as problem:
            return None, unresolvable(str(problem))
        if not claims:
            return None, SKIP
        try:
            selectors = [_selector(allocation_of(claim)) for claim in claims]
        except NodeSelectorError as problem:
            return None, error(str(problem))
        found = PodState(claims, selectors)
        wanted = found.wanted = [claim for _, claim in found.to_allocate()]
        for claim in wanted:
            status = self._check_unallocated(claim)
            if status is not None:
                return None, status
        if wanted:
            further: Sequence[Object] = ()
            if (reservations := self._access.reservations) is not None:
                if reservations.problem:
                    return None, error(reservations.problem)
                found.seen, further = reservations.plan()
            found.allocator = self._allocator(wanted, further)
            state.off_loop = True
        state.data[KEY] = found
        return None, None

    def filter(self, state: CycleState, pod: Object, node: NodeInfo) -> Status | None:
        found = state_of(state)
        return None if found is None else self._node_filter.check(found, node)

    def _check_unallocated(self, claim: Object) -> Status | None:
        metadata = claim["metadata"]
        where = f"{metadata['namespace']}/{metadata['name']}"
        reservations = self._access.reservations
        if self._access.claims.is_in_flight(metadata["uid"]) or (
            reservations is not None and reservations.session.is_reserved(metadata["uid"])
        ):
            return unresolvable(f"resource claim {where} is in the process of being allocated")
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            name = request["name"]
            if request.get("exactly") is not None:
                status = self._check_class(request["exactly"], name)
                if status is not None:
                    return status
            elif request.get("firstAvailable"):
                if not self._access.gates.prioritized_list:
                    text = "has subrequests, but the DRAPrioritizedList feature is disabled"
                    return unresolvable(f"resource claim {where}, request {name}: {text}")
                for choice in request["firstAvailable"]:
                    status = self._check_class(choice, f"{name}/{choice['name']}")
                    if status is not None:
                        return status
            else:
                return unresolvable(f"resource claim {where}, request {name}: unknown request type")
        return None

    def _check_class(self, details: Mapping[str, Any], request: str) -> Status | None:
        name = details.get("deviceClassName")
        if not name:
            return error(f"request {request}: unsupported request type")
        if self._class(name) is None:
            return unresolvable(f"request {request}: device class {name} does not exist")
        return None

    def _class(self, name: str) -> Object | None:
        return self._access.classes.get("", name)

    def _allocator(self, claims: Sequence[Object], further: Sequence[Object]) -> Allocator:
        access = self._access
        # A thread reads the classes while the informer goes on; each of them is one unchanging object.
        return Allocator(
            access.gates.all,
            claims,
            access.claims.allocated_state(further),
            self._class,
            access.slices.slices(),
            access.cel,
            access.parsed,
            answers=access.answers,
        )

    # When there is none.

    async def post_filter(
        self, state: CycleState, pod: Object, statuses: NodeStatuses
    ) -> tuple[Nomination | None, Status]:
        found = state_of(state)
        if found is None:
            return None, unschedulable()
        candidates = list(found.unavailable)
        CHANCE.shuffle(candidates)
        for index in candidates:
            claim = found.claims[index]
            consumers = {consumer["uid"] for consumer in reserved_for(claim)}
            if consumers <= {pod["metadata"]["uid"]}:
                try:
                    await self._access.writer.deallocate(claim)
                except ClientError as problem:
                    return None, error(problem.message)
                return None, unschedulable("deallocation of ResourceClaim completed")
        return None, unschedulable()

    # When there are several.

    def pre_score(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> Status | None:
        found = state_of(state)
        if found is None or not self._access.gates.prioritized_list or not has_alternatives(found.claims):
            return SKIP  # no node is better than another
        return None

    def score(self, state: CycleState, pod: Object, node: NodeInfo) -> int:
        found = state_of(state)
        if found is None or node.name not in found.results:
            return 0
        return allocation_score(found.claims, found.results[node.name])

    def normalize(self, scores: list[int]) -> list[int]:
        return normalized(scores)

    # Taking and giving back.

    def reserve(self, state: CycleState, pod: Object, node: str) -> Status | None:
        found = state_of(state)
        if found is None or found.allocator is None:
            return None
        results = found.results.get(node)
        if not results:
            return error("claim allocation not found for node")
        for (index, claim), result in zip(found.to_allocate(), results, strict=True):
            found.decided[index] = result
            finalizers = claim["metadata"].get("finalizers") or []
            if FINALIZER not in finalizers:
                finalizers = [*finalizers, FINALIZER]
            decided = {
                **claim,
                "metadata": {**claim["metadata"], "finalizers": finalizers},
                "status": {**(claim.get("status") or {}), "allocation": result},
            }
            try:
                self._access.claims.signal(decided)
            except LookupError as problem:
                name = claim["metadata"]["name"]
                return error(
                    f"internal error, couldn't signal allocation for claim {name}: {problem.args[0]}"
                )
        return None

    async def permit(self, state: CycleState, pod: Object, node: str) -> Status | None:
        found, reservations = state_of(state), self._access.reservations
        if found is None or not found.decided or reservations is None or found.seen is None:
            return None
        decided = [(found.claims[index], result) for index, result in found.decided.items()]
        try:
            found.grant = await reservations.reserve(found.seen, decided)
        except LedgerUnavailableError as problem:
            return error(str(problem))
        return None

    async def unreserve(self, state: CycleState, pod: Object, node: str) -> None:
        found = state_of(state)
        if found is None:
            return
        for claim in found.claims:
            metadata = claim["metadata"]
            if self._access.claims.end_flight(metadata["uid"]):
                self._access.claims.cache.restore(metadata["namespace"], metadata["name"])
            if allocation_of(claim) is not None and is_reserved_for(pod, claim):
                try:
                    await self._access.writer.unreserve(claim, pod)
                except ClientError as problem:
                    # The next attempt to schedule the pod comes here again.
                    self._access.log.info("unreserve %s: %s", metadata["name"], problem)
        if found.grant is not None and not found.uncertain:
            await found.grant.release()

    def has_pre_bind_work(self, state: CycleState) -> bool:
        return state_of(state) is not None

    async def pre_bind(self, state: CycleState, pod: Object, node: str) -> Status | None:
        found = state_of(state)
        if found is None:
            return None
        written: list[str] = []
        for index, claim in enumerate(found.claims):
            if is_reserved_for(pod, claim):
                continue
            mine = found.grant is not None and index in found.decided
            check_first = partial(confirm, found.grant, claim["metadata"]["uid"]) if mine else None
            found.uncertain = True
            try:
                bound = await self._access.writer.bind(claim, found.decided.get(index), pod, check_first)
            except WriteError as problem:
                found.uncertain = problem.uncertain
                return error(str(problem))
            found.uncertain = False
            # Now Unreserve knows what to undo, and other pods see the allocation.
            found.claims[index] = bound
            self._access.claims.cache.assume(bound)
            if index in found.decided:
                uid = bound["metadata"]["uid"]
                written.append(uid)
                if found.grant is not None:
                    await found.grant.commit(uid, int(bound["metadata"]["resourceVersion"]))
        if self._access.gates.binding_conditions and any(has_conditions(claim) for claim in found.claims):
            status = await self._wait_for_conditions(found, pod, node)
            if status is not None:
                return status
        # Devices count as in flight until all of PreBind has succeeded.
        for uid in written:
            self._access.claims.end_flight(uid)
        return None

    async def _wait_for_conditions(self, found: PodState, pod: Object, node: str) -> Status | None:
        note = f"waiting for binding conditions for device on node {node}"
        self._recorder.action(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        clock = self._access.clock
        start = clock.now()
        deadline, turn = start + self._binding_timeout, 0
        while True:
            try:
                if all(self._is_ready(found, index) for index in range(len(found.claims))):
                    return None
            except (BindingFailedError, BindingTimeoutError, LookupError) as problem:
                return error(str(problem.args[0]))
            turn += 1
            await clock.sleep_until(min(start + turn * _POLL, deadline))
            if clock.now() >= deadline:
                return error("device binding timeout: context deadline exceeded")

    def _is_ready(self, found: PodState, index: int) -> bool:
        metadata = found.claims[index]["metadata"]
        claim = self._access.claims.get(metadata["namespace"], metadata["name"])
        if claim is None:
            raise LookupError(not_found(f"{metadata['namespace']}/{metadata['name']}"))
        found.claims[index] = claim
        return check(claim, self._access.clock.now(), self._binding_timeout)


def _selector(allocation: Mapping[str, Any] | None) -> NodeSelection | None:
    """Where an allocation is available. Raises NodeSelectorError."""
    if allocation is None or allocation.get("nodeSelector") is None:
        return None
    selection = NodeSelection.of({"nodeSelector": allocation["nodeSelector"]})
    selection.matches({"metadata": {"name": ""}})
    return selection
