"""What becomes of each device of a node for one request, as long as nothing else of the pod has been given any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dra_api.features import OPTIONAL_NODE_OPERATIONS
from dra_api.quantity import Quantity

from .capacity import CapacityError, DeviceCapacity, fits
from .constraints import static_attribute
from .counters import Baseline, PoolCounters, counted
from .errors import AllocationError
from .features import Features
from .model import Device, DeviceID, PoolID, Slice
from .node_match import NodeSelectorError
from .pools import Pool, SliceIndex, gather
from .requests import Claim, ClassLookup, Request, read_requests
from .selectors import CelCache
from .state import AllocatedState
from .taints import tolerates

FREE: Final = "free"
REASONS: Final = (
    "selector",
    "selector-error",
    "node-selection",
    "binding-conditions",
    "node-operations",
    "in-use",
    "capacity",
    "counters",
    "compatibility-groups",
    "taint",
    "constraint",
    FREE,
)
"""What can become of a device, from what makes it unfit for the request to what makes it unavailable now."""
_NOTHING: Final[Mapping[str, Quantity]] = {}


@dataclass(frozen=True)
class DeviceOutcome:
    """A device: `free`, or the reason (one of REASONS) for which the request cannot have it, and the details."""

    device: DeviceID
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class RequestOutcome:
    """A request, or one alternative of it (`request/alternative`), with all devices that the node could use.

    `wanted` is the number of devices, None for all that match.
    """

    claim: str
    request: str
    parent: str
    device_class: str
    wanted: int | None
    devices: Sequence[DeviceOutcome]

    @property
    def counts(self) -> Mapping[str, int]:
        """Devices by outcome, in the order of REASONS."""
        found = Counter(device.reason for device in self.devices)
        return {reason: found[reason] for reason in REASONS if found[reason]}

    @property
    def candidates(self) -> int:
        """Devices that match the selectors and may be used on the node, whether they are available or not."""
        return sum(REASONS.index(device.reason) >= REASONS.index("in-use") for device in self.devices)

    @property
    def free(self) -> int:
        """Devices that the request could have if it were alone."""
        return sum(device.reason == FREE for device in self.devices)


@dataclass(frozen=True)
class PoolNote:
    """A pool of the node whose devices cannot be allocated: `state` is incomplete, invalid or outdated."""

    pool: PoolID
    state: str
    detail: str


@dataclass(frozen=True)
class NodeView:
    """The pools of a node and what is in use."""

    features: Features
    state: AllocatedState
    node: Mapping[str, Any]
    holders: Mapping[DeviceID, Sequence[str]]
    pools: Sequence[Pool]
    notes: Sequence[PoolNote]
    problem: str = ""

    @classmethod
    def of(
        cls,
        features: Features,
        state: AllocatedState,
        index: SliceIndex,
        node: Mapping[str, Any],
        holders: Mapping[DeviceID, Sequence[str]],
    ) -> NodeView:
        """Gather the pools as the allocator does."""
        try:
            pools = gather(index, node, features)
        except AllocationError as error:
            return cls(features, state, node, holders, (), (), str(error))
        return cls(features, state, node, holders, pools, tuple(_notes(pools, index, node)))

    def requests_of(self, claim: Claim, classes: ClassLookup, cel: CelCache) -> list[RequestOutcome]:
        """The outcomes for the requests of a claim. Raises AllocationError for a claim that cannot be read."""
        plans = read_requests(claim, self.features, classes, lambda request: [])
        constraints = (claim["spec"].get("devices") or {}).get("constraints") or ()
        return [
            RequestOutcome(
                choice.claim,
                choice.full_name,
                choice.parent or choice.name,
                choice.class_["metadata"]["name"],
                None if choice.takes_all else choice.count,
                [
                    DeviceOutcome(device.id, *self._outcome(pool, device, choice, constraints, cel))
                    for pool in self.pools
                    if pool.usable
                    for device in pool.devices
                ],
            )
            for plan in plans
            for choice in plan.choices
        ]

    def _outcome(
        self,
        pool: Pool,
        device: Device,
        request: Request,
        constraints: Sequence[Mapping[str, Any]],
        cel: CelCache,
    ) -> tuple[str, str]:
        taken = not request.admin_access and device.id in self.state.devices
        lost = self._unfit(device, request, cel, taken=taken)
        if lost is not None:
            return lost
        if taken:
            return "in-use", f"by {self._held(device.id)}"
        return (
            self._unavailable(pool, device, request) or self._odd(device, request, constraints) or (FREE, "")
        )

    def _unfit(
        self, device: Device, request: Request, cel: CelCache, *, taken: bool
    ) -> tuple[str, str] | None:
        features = self.features
        if not features.binding_conditions and device.spec.get("bindingConditions"):
            return "binding-conditions", "it has binding conditions, which are off in the scheduler"
        name = request.class_["metadata"]["name"]
        groups = (
            (f"class {name}", request.class_selectors),
            (f"claim {request.claim}", request.selectors),
        )
        for owner, expressions in groups:
            for index, expression in enumerate(expressions):
                where = "class" if owner.startswith("class ") else "request"
                try:
                    if not cel.all_match((expression,), device, owner, not features.stable):
                        return "selector", f"{where} selector #{index}: {expression.strip()}"
                except AllocationError as error:
                    if taken:  # the allocator does not come to ask
                        return None
                    return "selector-error", str(error).replace("selector #0", f"selector #{index}", 1)
        if device.slice.per_device_nodes:
            try:
                if not device.nodes.matches(self.node):
                    return "node-selection", "its own node selection does not match the node"
            except NodeSelectorError as error:
                return "node-selection", str(error)
        if device.slice.skip_node_operations:
            declared = (self.node.get("status") or {}).get("declaredFeatures") or ()
            if not features.lets_skip_operations(declared):
                return "node-operations", f"the node does not declare {OPTIONAL_NODE_OPERATIONS}"
        return None

    def _unavailable(self, pool: Pool, device: Device, request: Request) -> tuple[str, str] | None:
        features = self.features
        if features.consumable_capacity and (problem := self._capacity_problem(device, request)):
            return "capacity", problem
        if device.consumes and not features.partitionable_devices:
            return "counters", "it consumes counters, which are off in the scheduler"
        shared = features.consumable_capacity and device.allows_multiple
        if device.consumes and not (shared and device.id in self.state.shared_devices):
            problem_of = self._counter_problem(pool, device)
            if problem_of is not None:
                return problem_of
        if features.device_taints:
            for taint in device.blocking_taints:
                if not any(tolerates(toleration, taint) for toleration in request.tolerations):
                    return "taint", f"{taint_text(taint)} is not tolerated"
        return None

    def _odd(
        self, device: Device, request: Request, constraints: Sequence[Mapping[str, Any]]
    ) -> tuple[str, str] | None:
        """A device without the attribute of a constraint fits with no other, not even alone."""
        for index, entry in enumerate(constraints):
            name = entry.get("matchAttribute") or entry.get("distinctAttribute")
            if not name or not request.named_in(frozenset(entry.get("requests") or ())):
                continue
            if name not in request.derived_attributes and static_attribute(device, name) is None:
                return "constraint", f"constraint #{index}: it has no attribute {name}"
        return None

    def _capacity_problem(self, device: Device, request: Request) -> str:
        wanted = request.capacity or {}
        consumed = self.state.capacity.get(device.id, _NOTHING)
        fractional = self.features.fractional_capacity_range
        try:
            if fits(device.capacity, wanted, fractional, consumed):
                return ""
        except CapacityError as error:
            return str(error)
        for name in wanted:
            if name not in device.capacity:
                return f"it has no capacity {name}"
        for name, capacity in sorted(device.capacity.items()):
            problem = _shortage(name, capacity, wanted.get(name), consumed.get(name), fractional)
            if problem:
                return f"{problem}{self._sharers(device.id)}"
        return "its capacity does not suffice"

    def _counter_problem(self, pool: Pool, device: Device) -> tuple[str, str] | None:
        held = counted(pool, self.state, self.features)
        baseline = Baseline.of(pool, held)
        if PoolCounters(baseline, self.features.compatibility_groups).take(device):
            return None
        users = self._users(held, device)
        for consumption in device.consumes:
            for name, amount in consumption.counters.items():
                left = baseline.available[consumption.counter_set, name]
                if amount > left:
                    rest = left if left.sign > 0 else Quantity(0)
                    text = f"needs {amount} of {consumption.counter_set}/{name}, {rest} left"
                    return "counters", text + users
        if baseline.overdrawn:
            return "counters", f"counters of pool {pool.id} are overdrawn{users}"
        return "compatibility-groups", f"its groups do not go with those of devices in use{users}"

    def _users(self, held: Iterable[Device], device: Device) -> str:
        sets = {consumption.counter_set for consumption in device.consumes}
        names = [
            f"{other.id.device} ({self._held(other.id)})"
            for other in held
            if sets & {consumption.counter_set for consumption in other.consumes}
        ]
        return f"; in use: {', '.join(names)}" if names else ""

    def _held(self, device: DeviceID) -> str:
        names = self.holders.get(device)
        return f"claim {', '.join(names)}" if names else "a claim that is not known here"

    def _sharers(self, device: DeviceID) -> str:
        names = self.holders.get(device)
        return f"; shared by claim {', '.join(names)}" if names else ""


def taint_text(taint: Mapping[str, Any]) -> str:
    """A taint as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key') or ''}{value}:{taint.get('effect') or ''}"


def _shortage(
    name: str, capacity: DeviceCapacity, wanted: Quantity | None, consumed: Quantity | None, fractional: bool
) -> str:
    need = capacity.need(wanted, fractional)
    if capacity.policy is not None and capacity.policy.forbids(need, fractional):
        return f"its policy does not allow {need} of {name}"
    left = capacity.value if consumed is None else capacity.value - consumed
    if need <= left:
        return ""
    unasked = " (what a share takes that asks for none)" if wanted is None else ""
    return (
        f"needs {need} of {name}{unasked}, {left if left.sign > 0 else Quantity(0)} of {capacity.value} left"
    )


def _notes(pools: Sequence[Pool], index: SliceIndex, node: Mapping[str, Any]) -> Iterable[PoolNote]:
    """The pools that give away nothing."""
    known = {pool.id: pool for pool in pools}
    of_pool: dict[PoolID, list[Slice]] = {}
    for entry in index.for_node(node["metadata"]["name"]):
        if _concerns(entry, node):
            of_pool.setdefault(entry.header.pool_id, []).append(entry)
    for pool_id, here in of_pool.items():
        entries = index.of_pool(pool_id)
        pool = known.get(pool_id)
        newest = max(entry.header.generation for entry in here)
        if pool is None:
            newer = max(entry.header.generation for entry in entries)
            detail = (
                f"its slices here have generation {newest}, others have {newer}"
                if newer > newest
                else "its slices use a feature that is off in the scheduler"
            )
            yield PoolNote(pool_id, "outdated", detail)
        elif pool.incomplete:
            same = [entry for entry in entries if entry.header.generation == newest]
            wanted = same[0].header.slice_count
            yield PoolNote(
                pool_id, "incomplete", f"{len(same)} of {wanted} slices of generation {newest} are there"
            )
        elif pool.invalid_reason:
            yield PoolNote(pool_id, "invalid", pool.invalid_reason)


def _concerns(entry: Slice, node: Mapping[str, Any]) -> bool:
    try:
        if entry.header.nodes.is_set:
            return entry.header.nodes.matches(node)
        return bool(entry.header.per_device_nodes) and any(
            device.nodes.matches(node) for device in entry.devices
        )
    except NodeSelectorError:
        return True
