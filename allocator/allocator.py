"""The structured allocator: devices for the claims of one pod, node by node."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .answers import Answers, NodeAnswers
from .capacity import CapacityError, fits
from .constraints import Constraint, DistinctAttribute, MatchAttribute, static_attribute
from .counters import Baseline, PoolCounters, counted
from .errors import AllocationCancelledError, AllocationError, NodeError
from .features import Features, Implementation
from .model import Device, PoolID
from .node_match import NodeSelectorError
from .pools import NodePools, Pool, SliceIndex, gather
from .requests import Claim, ClassLookup, Request, RequestPlan, claim_name, read_requests
from .results import allocation_result
from .search import Search
from .selectors import CelCache
from .situations import ClaimPlan, Surroundings
from .slice_cache import SliceCache
from .state import AllocatedState


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What claims want."""

    claims: tuple[Claim, ...]
    requests: Sequence[Sequence[RequestPlan]]
    """Of each claim."""
    depends_on_node: bool
    """There is a request for all devices, which are other ones on each node."""
    needs_free_devices: bool
    """The first request cannot do without a device that is not in use."""
    answers: NodeAnswers | None
    """What nodes have answered to other claims that want the same, if that is kept."""

    @classmethod
    def of(
        cls,
        claims: Sequence[Claim],
        requests: Sequence[Sequence[RequestPlan]],
        features: Features,
        answers: Answers | None,
    ) -> _Wanted:
        plans = list(chain.from_iterable(requests))
        depends_on_node = any(choice.takes_all for plan in plans for choice in plan.choices)
        return cls(
            tuple(claims),  # held, so that nothing else gets their identities
            requests,
            depends_on_node=depends_on_node,
            needs_free_devices=bool(plans) and all(choice.needs_free_devices for choice in plans[0].choices),
            answers=None if answers is None or depends_on_node else answers.to(features, claims, requests),
        )


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The cluster at one time, for any number of nodes."""

    features: Features
    state: AllocatedState
    classes: ClassLookup
    index: SliceIndex
    cel: CelCache
    new_share_id: Callable[[], str]
    baselines: dict[tuple[PoolID, frozenset[str]], Baseline]
    """What allocated devices leave of a pool, by its id and the names of the slices that a node sees."""
    wanted: dict[tuple[int, ...], _Wanted]
    """What claims want, by the identities of these, where that is the same for all nodes."""
    roomy: dict[tuple[Request, int], bool]
    """Whether a request fits into an unused device, by the identity of the device's capacities."""
    answers: Answers | None


class Allocator:
    """Finds devices for claims on a given node.

    It knows the cluster as it was when it was made; make a new one for each attempt to schedule a pod. `allocate` may
    be called for many nodes, also by several threads. It never changes what it was given.
    """

    def __init__(
        self,
        gates: Mapping[str, bool],
        claims: Sequence[Claim],
        state: AllocatedState,
        classes: ClassLookup,
        slices: Iterable[Mapping[str, Any]],
        cel: CelCache,
        slice_cache: SliceCache | None = None,
        new_share_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        implementation: Implementation | None = None,
        answers: Answers | None = None,
    ) -> None:
        """All objects are those of resource.k8s.io/v1 as plain dicts.

        `gates`: feature gates of the scheduler. `claims`: the unallocated claims of the pod in its order. `classes`:
        DeviceClass by name or None. `slices`: all ResourceSlices, with the taints of DeviceTaintRules already in
        them. `cel` and `slice_cache` should live as long as the scheduler: they make later attempts fast. Slices and
        nodes are known by identity then, so one that changes must become another object, as with an informer.
        `implementation`: which of upstream's allocators to follow; None for the one that a scheduler runs with
        these gates. `answers`, kept with `slice_cache`, spare searches for claims that want what earlier ones wanted.
        """
        features = Features.from_gates(gates, implementation)
        self._claims = claims
        self._cluster = _Cluster(
            features=features,
            state=state,
            classes=classes,
            index=(slice_cache or SliceCache()).index(slices, features),
            cel=cel,
            new_share_id=new_share_id,
            baselines={},
            wanted={},
            roomy={},
            answers=answers,
        )

    def allocate(
        self,
        node: Mapping[str, Any],
        cancelled: Callable[[], bool] | None = None,
        claims: Sequence[Claim] | None = None,
    ) -> list[dict[str, Any]]:
        """One AllocationResult per claim, in their order; empty when the node cannot satisfy them together.

        `cancelled` is asked at each step of the search. `claims` replace those of the constructor where a node needs
        claims of its own (extended resources). Results share parts with the inputs and with results of other pods:
        do not change them.

        Raises NodeError when that holds for this node only, AllocationCancelledError when told to stop, and
        AllocationError when no other node should be tried.
        """
        return _Attempt(
            self._cluster, node, self._claims if claims is None else claims, cancelled or _never
        ).result()


class _Attempt:
    """One node, one set of claims."""

    def __init__(
        self,
        cluster: _Cluster,
        node: Mapping[str, Any],
        claims: Sequence[Claim],
        cancelled: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._features = cluster.features
        self._node = node
        self._claims = claims
        self._cancelled = cancelled
        self._matches: dict[tuple[Request, Device], bool] = {}
        self._found = _pools_of(cluster, node)
        self._pools = self._found.pools

    def result(self) -> list[dict[str, Any]]:
        wanted, found, state = self._wanted(), self._found, self._cluster.state
        answers = wanted.answers
        if answers is None or not found.plain or not state.shared_devices.isdisjoint(found.device_ids):
            return self._searched(wanted)
        taken = found.device_ids & state.devices
        known = answers.known(found, taken)
        if known is None:
            known = self._searched(wanted)
            answers.remember(found, taken, known)
        elif self._cancelled():
            raise AllocationCancelledError
        return list(known)

    def _searched(self, wanted: _Wanted) -> list[dict[str, Any]]:
        if wanted.needs_free_devices and self._found.device_ids <= self._cluster.state.devices:
            # The first request can have no device. Nothing else is looked at before that is clear.
            if self._cancelled():
                raise AllocationCancelledError
        else:
            plans = [
                ClaimPlan(requests, self._constraints(claim))
                for claim, requests in zip(self._claims, wanted.requests, strict=True)
            ]
            search = Search(plans, self._surroundings())
            if search.run():
                return self._results(search, plans)
        if self._found.invalid:
            raise NodeError(self._found.invalid)
        return []

    def _wanted(self) -> _Wanted:
        key = tuple(map(id, self._claims))
        known = self._cluster.wanted.get(key)
        if known is not None:
            return known
        requests = []
        for claim in self._claims:
            requests.append(read_requests(claim, self._features, self._cluster.classes, self._collect))
            self._constraints(claim)  # whose errors come before those of later claims
        wanted = _Wanted.of(self._claims, requests, self._features, self._cluster.answers)
        if not wanted.depends_on_node:
            self._cluster.wanted[key] = wanted
        return wanted

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            features=self._features,
            state=self._cluster.state,
            candidates=self._found.candidates,
            node_features=frozenset((self._node.get("status") or {}).get("declaredFeatures") or ()),
            selectable=self._selectable,
            roomy=self._cluster.roomy,
            counters=self._counters,
            new_share_id=self._cluster.new_share_id,
            cancelled=self._cancelled,
        )

    def _results(self, search: Search, plans: Sequence[ClaimPlan]) -> list[dict[str, Any]]:
        return [
            allocation_result(
                claim,
                [
                    search.chosen.get((index, number), plan.choices[0])
                    for number, plan in enumerate(plans[index].requests)
                ],
                search.picks[index],
                self._node["metadata"]["name"],
                self._features,
            )
            for index, claim in enumerate(self._claims)
        ]

    def _constraints(self, claim: Claim) -> list[Constraint]:
        result: list[Constraint] = []
        lists = self._features.list_type_attributes
        for index, entry in enumerate((claim["spec"].get("devices") or {}).get("constraints") or ()):
            requests = frozenset(entry.get("requests") or ())
            if entry.get("matchAttribute") is not None:
                result.append(MatchAttribute(requests, entry["matchAttribute"], lists, self._attribute))
            elif entry.get("distinctAttribute") is not None and not self._features.stable:
                result.append(DistinctAttribute(requests, entry["distinctAttribute"], lists, self._attribute))
            else:
                text = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {claim_name(claim)}, constraint #{index}: {text}")
        return result

    def _attribute(self, request: Request, device: Device, name: str) -> Mapping[str, Any] | None:
        """What a request derives comes before what the device publishes under the same name."""
        expression = request.derived_attributes.get(name)
        if expression is None:
            return static_attribute(device, name)
        return self._cluster.cel.derived_attribute(name, expression, device)

    def _collect(self, request: Request) -> list[Device]:
        """The devices of a request for all. Devices in use are among them, so that it fails then."""
        where = f"claim {request.claim}, request {request.name}"
        found = []
        for pool in self._pools:
            if not pool.usable:
                problem = "being updated" if pool.incomplete else "invalid"
                text = f"asks for all devices, but resource pool {pool.id} is currently {problem}"
                raise AllocationError(f"{where}: {text}")
            for device in pool.devices:
                if self._selectable(request, device) and self._large_enough(request, device, where):
                    found.append(device)
        return found

    def _large_enough(self, request: Request, device: Device, where: str) -> bool:
        if not self._features.consumable_capacity:
            return True
        try:
            return fits(device.capacity, request.capacity, self._features.fractional_capacity_range)
        except CapacityError as error:
            text = f"checking capacity for device {device.id.device}: {error}"
            raise AllocationError(f"{where}: {text}") from None

    def _selectable(self, request: Request, device: Device) -> bool:
        key = (request, device)
        known = self._matches.get(key)
        if known is None:
            known = self._matches[key] = self._select(request, device)
        return known

    def _select(self, request: Request, device: Device) -> bool:
        if not self._features.binding_conditions and device.spec.get("bindingConditions"):
            return False
        if self._cancelled():
            raise AllocationCancelledError
        if not self._cluster.cel.selects(request, device, sharing=not self._features.stable):
            return False
        if not device.slice.per_device_nodes:
            return True
        try:
            return device.nodes.matches(self._node)
        except NodeSelectorError as error:
            raise AllocationError(str(error)) from None

    def _counters(self, pool_id: PoolID) -> PoolCounters:
        pool = self._found.by_id[pool_id]
        return PoolCounters(self._baseline(pool), self._features.compatibility_groups)

    def _baseline(self, pool: Pool) -> Baseline:
        names = frozenset(entry.header.name for entry in (*pool.slices, *pool.other_slices))
        known = self._cluster.baselines.get((pool.id, names))
        if known is None:
            known = Baseline.of(pool, counted(pool, self._cluster.state, self._features))
            self._cluster.baselines[pool.id, names] = known
        return known


def _pools_of(cluster: _Cluster, node: Mapping[str, Any]) -> NodePools:
    """The pools of the node, from an earlier pod if nothing has changed since."""
    gathered, name = cluster.index.gathered, node["metadata"]["name"]
    found = gathered.get(name)
    if found is None or found.node is not node:
        found = gathered[name] = NodePools(node, gather(cluster.index, node, cluster.features))
    return found


def _never() -> bool:
    return False
