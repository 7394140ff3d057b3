"""The embedded scheduler's decisions about a world that is only described: which node, which devices, or why none."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from allocator import AllocatedState, Answers, CelCache, SliceCache
from clusters.clock import Clock
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.scheduler.diagnosis import NO_NODES, Diagnosis
from clusters.embedded.scheduler.dynamic_resources.claim_tracker import ClaimTracker
from clusters.embedded.scheduler.dynamic_resources.plugin import DraAccess, DynamicResources
from clusters.embedded.scheduler.dynamic_resources.slice_tracker import SliceTracker
from clusters.embedded.scheduler.dynamic_resources.state import state_of
from clusters.embedded.scheduler.framework.node_info import NodeInfo, PodInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.runtime import Framework, priority
from clusters.embedded.scheduler.framework.status import SKIP, Status, unresolvable
from clusters.embedded.scheduler.gates import SchedulerGates
from clusters.embedded.scheduler.profiles import WEIGHTS, in_order
from drakit.offline.world import Object, World, timestamp

_FILTER_SECONDS: Final = 10.0
_BINDING_SECONDS: Final = 600.0
_PLENTY: Final = {"cpu": "1000000", "memory": "1Pi", "ephemeral-storage": "1Pi", "pods": "1000000"}
_STAND_IN: Final = "drakit.dev/stands-for-claim"
_LOG: Final = logging.getLogger("drakit.outlook")


@dataclass(frozen=True)
class Attempt:
    """One attempt to schedule a Pod, or a claim that no Pod uses.

    `node` is the node that was chosen, "" for none, and `allocations` what its claims got by name; `message` is what
    the Pod's event would say when there is none. `statuses` has the nodes that were looked at, None for one that fits.
    """

    pod: Object
    claims: Sequence[Object] = ()
    node: str = ""
    allocations: Mapping[str, Object] = field(default_factory=dict)
    statuses: Mapping[str, Status | None] = field(default_factory=dict)
    message: str = ""

    @property
    def stands_for_claim(self) -> bool:
        """Whether there is no such Pod, only a claim."""
        return _STAND_IN in (self.pod["metadata"].get("annotations") or {})


class _Classes:
    """DeviceClasses as the plugin asks an informer for them."""

    def __init__(self, classes: Iterable[Object]) -> None:
        self._by_name = {entry["metadata"]["name"]: entry for entry in classes}

    def get(self, namespace: str, name: str) -> Object | None:
        """The class of that name."""
        return self._by_name.get(name)


class Outlook:
    """The scheduler's view of a world; what it decides becomes part of the view.

    Nodes without status.allocatable are taken to have enough of everything but extended resources. Of equally good
    nodes the first is chosen, where a scheduler draws lots.
    """

    def __init__(self, world: World, gates: Mapping[str, bool], seconds: float = _FILTER_SECONDS) -> None:
        """`gates` are those of the scheduler, `seconds` is its time for one node."""
        self._gates = SchedulerGates.of(gates)
        self._claims = ClaimTracker(self._gates.consumable_capacity)
        self._slices = SliceTracker()
        self._pods = {_key(pod): pod for pod in world.pods}
        self.all_claims = {_key(claim): claim for claim in world.claims}
        """Claims by namespace and name, with those that were made of templates."""
        self.missing: dict[tuple[str, str], str] = {}
        """Pods whose claims cannot be made, and why."""
        self._world = world
        for pod in world.pods:
            self._make_claims(pod)
        for claim in self.all_claims.values():
            self._claims.cache.inform(None, claim)
        for rule in world.rules if self._gates.taint_rules else ():
            self._slices.on_rule(None, rule)
        for entry in world.slices:
            self._slices.on_slice(None, entry)
        self._nodes = {node["metadata"]["name"]: NodeInfo(_with_room(node)) for node in world.nodes}
        for pod in self._pods.values():
            self._occupy(pod)
        self.classes = _Classes(world.classes)
        self.cel = CelCache()
        self._framework = self._build(seconds)

    @property
    def gates(self) -> Mapping[str, bool]:
        """Every gate of the scheduler."""
        return self._gates.all

    @property
    def nodes(self) -> list[Object]:
        """The nodes."""
        return [info.object for info in self._nodes.values()]

    @property
    def slices(self) -> list[Object]:
        """The slices, with the taints of DeviceTaintRules in them."""
        return self._slices.slices()

    @property
    def state(self) -> AllocatedState:
        """What is in use."""
        return self._claims.allocated_state()

    def pods(self) -> list[Object]:
        """The Pods, with the names of their claims in the status."""
        return list(self._pods.values())

    def claims_of(self, pod: Object) -> list[Object]:
        """The claims of a Pod that there are, in its order."""
        names = references.known_claims(pod, extended=False)
        namespace = pod["metadata"]["namespace"]
        return [self.all_claims[namespace, name] for name in names if (namespace, name) in self.all_claims]

    def run(self) -> list[Attempt]:
        """Schedule all Pods that wait, and then allocate the claims that no Pod uses."""
        return [self.attempt(pod) for pod in self._turns()]

    def place_before(self, kind: str, namespace: str, name: str) -> None:
        """Let those whose turn is before the Pod, or before the one that gets the claim, take what they get."""
        for pod in self._turns():
            names = references.known_claims(pod, extended=True) if kind == "ResourceClaim" else ()
            mine = name in names if kind == "ResourceClaim" else _key(pod) == (namespace, name)
            if mine and pod["metadata"]["namespace"] == namespace:
                return
            self.attempt(pod)

    def _turns(self) -> Iterator[Object]:
        """The Pods that wait, and then stand-ins for claims that no Pod uses, in the order in which they are tried."""
        waiting = [pod for pod in self._pods.values() if _waits(pod)]
        yield from sorted(waiting, key=lambda pod: -priority(pod))
        used = {
            (pod["metadata"]["namespace"], name)
            for pod in self._pods.values()
            for name in references.known_claims(pod, extended=True)
        }
        for key, claim in list(self.all_claims.items()):
            if key not in used and not references.is_allocated(claim):
                yield stand_in(claim)

    def attempt(self, pod: Object, *, keep: bool = True) -> Attempt:
        """Try to schedule a Pod; `keep`: what was decided becomes part of the view."""
        problem = self.missing.get(_key(pod), "")
        for plugin in self._framework.pre_enqueue.values():
            status = None if problem else plugin.pre_enqueue(pod)
            if status is not None:
                problem = status.message
        claims = self.claims_of(pod)
        if problem:
            return Attempt(pod, claims, message=problem)
        state, nodes = CycleState(), list(self._nodes.values())
        if not nodes:
            return Attempt(pod, claims, message=NO_NODES)
        names, refusal, narrowing = self._framework.run_pre_filter(state, pod, nodes)
        diagnosis = Diagnosis(len(nodes))
        if refusal is not None:
            if not refusal.rejected:
                return Attempt(pod, claims, message=refusal.message)
            diagnosis.absent, diagnosis.pre_filter = refusal, refusal.message
            nodes = []
        elif names is not None:
            nodes = [node for node in nodes if node.name in names]
            diagnosis.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(narrowing)}]")
        feasible, statuses = [], dict[str, Status | None]()
        for node in nodes:
            status = statuses[node.name] = self._framework.run_filter(state, pod, node)
            if status is None:
                feasible.append(node)
            elif not status.rejected:
                return Attempt(pod, claims, statuses=statuses, message=status.message)
            else:
                diagnosis.refuse(node.name, status)
        if not feasible:
            return Attempt(pod, claims, statuses=statuses, message=diagnosis.message)
        chosen = self._best(state, pod, feasible)
        found = state_of(state)
        allocations = {}
        if found is not None:
            wanted = [claim for _, claim in found.to_allocate()]
            results = found.results.get(chosen.name) or []
            allocations = {
                claim["metadata"]["name"]: result for claim, result in zip(wanted, results, strict=True)
            }
        done = Attempt(pod, claims, chosen.name, allocations, statuses)
        if keep:
            self._take_over(done)
        return done

    def _best(self, state: CycleState, pod: Object, nodes: Sequence[NodeInfo]) -> NodeInfo:
        totals = [0] * len(nodes)
        for plugin in self._framework.plugins:
            if type(plugin).score is Plugin.score or plugin.pre_score(state, pod, nodes) is SKIP:
                continue
            scores = plugin.normalize([plugin.score(state, pod, node) for node in nodes])
            weight = WEIGHTS.get(plugin.name, 1)
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        return nodes[totals.index(max(totals))]

    def _take_over(self, attempt: Attempt) -> None:
        pod = attempt.pod
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for claim in attempt.claims:
            status = dict(claim.get("status") or {})
            allocation = attempt.allocations.get(claim["metadata"]["name"])
            if allocation is not None:
                status["allocation"] = {**allocation, "allocationTimestamp": timestamp()}
            if not attempt.stands_for_claim and not references.is_reserved_for(pod, claim):
                status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
            changed = {**claim, "status": status}
            self.all_claims[_key(claim)] = changed
            self._claims.cache.assume(changed)
        if not attempt.stands_for_claim:
            bound = {**pod, "spec": {**pod["spec"], "nodeName": attempt.node}}
            self._pods[_key(pod)] = bound
            self._occupy(bound)

    def _occupy(self, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if node in self._nodes and not references.is_terminal(pod):
            self._nodes[node].add(PodInfo(pod))

    def _make_claims(self, pod: Object) -> None:
        """Make the claims of templates that the claim controller has not made yet."""
        known = {entry["name"] for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        templates = {_key(template): template for template in self._world.templates}
        namespace, made = pod["metadata"]["namespace"], []
        for entry in references.pod_claims(pod):
            name = entry.get("resourceClaimTemplateName")
            if name is None or entry["name"] in known or references.is_terminal(pod):
                continue
            template = templates.get((namespace, name))
            if template is None:
                self.missing[_key(pod)] = f"there is no ResourceClaimTemplate {namespace}/{name}"
                continue
            claim = references.claim_from_template(pod, entry, template)
            metadata = claim["metadata"]
            metadata["name"] = metadata.pop("generateName").rstrip("-")
            metadata["namespace"] = namespace
            metadata["uid"] = f"{pod['metadata']['uid']}-{entry['name']}"
            self.all_claims[_key(claim)] = claim
            made.append({"name": entry["name"], "resourceClaimName": metadata["name"]})
        if made:
            status = dict(pod.get("status") or {})
            status["resourceClaimStatuses"] = [*(status.get("resourceClaimStatuses") or ()), *made]
            self._pods[_key(pod)] = {**pod, "status": status}

    def _build(self, seconds: float) -> Framework:
        access = DraAccess(
            claims=self._claims,
            slices=self._slices,
            classes=cast(Any, self.classes),
            writer=cast(Any, None),  # nothing is written
            cel=self.cel,
            parsed=SliceCache(),
            answers=Answers(),
            clock=Clock(),
            gates=self._gates,
            log=_LOG,
        )
        labels = {
            entry["metadata"]["name"]: entry["metadata"].get("labels") or {}
            for entry in self._world.namespaces
        }
        devices = DynamicResources(access, cast(Any, None), seconds, _BINDING_SECONDS)
        plugins = in_order(lambda name: labels.get(name, {}), devices)
        return Framework("default-scheduler", plugins, WEIGHTS, lambda node: ())


def stand_in(claim: Object) -> Object:
    """A Pod that needs nothing but the claim, and may run on any node."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": f"{metadata['uid']}-pod",
            "annotations": {_STAND_IN: metadata["name"]},
        },
        "spec": {
            "containers": [],
            "resourceClaims": [{"name": "claim", "resourceClaimName": metadata["name"]}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def _with_room(node: Object) -> Object:
    status = node.get("status") or {}
    if status.get("allocatable"):
        return node
    return {**node, "status": {**status, "allocatable": {**_PLENTY, **(status.get("capacity") or {})}}}


def _waits(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and not references.is_done(pod)


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
