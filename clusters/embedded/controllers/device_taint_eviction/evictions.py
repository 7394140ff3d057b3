"""Which pods have to go, and when: allocated claims against the taints of slices and of rules.

Source: kubernetes v1.37.2 `pkg/controller/devicetainteviction/device_taint_eviction.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from allocator.taints import tolerates
from clusters.clock import parse_stamp
from clusters.embedded.components.client import Object
from clusters.embedded.components.informer import Informer
from clusters.embedded.controllers.resource_claim import references

_EFFECT: Final = "NoExecute"
PoolId = tuple[str, str]
"""Driver and pool."""


@dataclass(frozen=True, order=True)
class Reason:
    """Where a taint comes from: a rule, or else a device in a slice and the place of the taint in its list."""

    of_slice: bool
    name: str
    """Of the rule; of the slice's taint driver, pool and device."""
    index: int = 0
    rule_uid: str = ""


@dataclass(frozen=True)
class Eviction:
    """When pods have to go, in seconds since the epoch, and all taints that want it."""

    when: float
    reasons: tuple[Reason, ...]

    def joined(self, other: Self | None) -> Eviction:
        """Of two claims of a pod the earlier time and all reasons."""
        if other is None:
            return self
        reasons = tuple(sorted({*self.reasons, *other.reasons}))
        return Eviction(min(self.when, other.when), reasons)

    def rules(self) -> Iterator[tuple[str, str]]:
        """Names and UIDs of the rules among the reasons."""
        return ((reason.name, reason.rule_uid) for reason in self.reasons if not reason.of_slice)


@dataclass(frozen=True)
class _Claim:
    """A claim with an allocation."""

    claim: Object
    eviction: Eviction | None


@dataclass
class _Pool:
    """The slices of one pool by name."""

    slices: dict[str, Object] = field(default_factory=dict)
    tainted: dict[str, list[tuple[int, Object]]] = field(default_factory=dict)
    """Device name to its evicting taints with their places."""

    def devices(self) -> Iterator[Object]:
        """The devices of the newest generation."""
        newest = max((_generation(slice_) for slice_ in self.slices.values()), default=0)
        for slice_ in self.slices.values():
            if _generation(slice_) == newest:
                yield from slice_["spec"].get("devices") or []

    def replace(self, name: str, slice_: Object | None) -> set[str]:
        """Take a slice in or, for None, out; the devices whose evicting taints changed with that."""
        before = self.tainted
        self.slices.pop(name, None)
        if slice_ is not None:
            self.slices[name] = slice_
        after: dict[str, list[tuple[int, Object]]] = {}
        for device in self.devices():
            for index, taint in enumerate(device.get("taints") or []):
                if taint["effect"] == _EFFECT:
                    after.setdefault(device["name"], []).append((index, taint))
        self.tainted = after
        return {device for device in before.keys() | after.keys() if before.get(device) != after.get(device)}


class Evictions:
    """Kept current by the `*_changed` methods, which call `affected` for pods whose eviction may have changed."""

    def __init__(self, pods: Informer, affected: Callable[[Object], None]) -> None:
        self._pods = pods
        self._affected = affected
        self._claims: dict[tuple[str, str], _Claim] = {}
        self._pools: dict[PoolId, _Pool] = {}
        self._rules: dict[str, Object] = {}

    def claim_changed(self, old: Object | None, new: Object | None) -> None:
        """The handler for the informer of claims."""
        claim = new if new is not None else old
        if claim is None:
            return
        key = claim["metadata"]["namespace"], claim["metadata"]["name"]
        known = self._claims.pop(key, None)
        if new is not None and references.is_allocated(new):
            # What follows from an allocation changes with it alone: after a gap it may be that of another claim.
            same = known is not None and _allocation(known.claim) == _allocation(new)
            self._claims[key] = _Claim(new, known.eviction if known and same else self._of_claim(new))
        elif known is None:
            return
        before = references.reserved_for(old) if old is not None else []
        self._tell(claim)
        if new is not None and old is not None and before != references.reserved_for(new):
            self._tell(old)

    def slice_changed(self, old: Object | None, new: Object | None) -> None:
        """The handler for the informer of slices."""
        slice_ = new if new is not None else old
        if slice_ is None:
            return
        spec = slice_["spec"]
        driver, name = spec["driver"], spec["pool"]["name"]
        pool = self._pools.setdefault((driver, name), _Pool())
        changed = pool.replace(slice_["metadata"]["name"], new)
        if not pool.slices:
            del self._pools[driver, name]
        if changed:
            self._recompute(
                lambda result: (
                    (result["driver"], result["pool"]) == (driver, name) and result["device"] in changed
                )
            )

    def rule_changed(self, old: Object | None, new: Object | None) -> None:
        """A rule came, went, or has another spec."""
        for rule in (old, new):
            if rule is not None:
                self._rules.pop(rule["metadata"]["name"], None)
        if new is not None and new["spec"]["taint"]["effect"] == _EFFECT:
            self._rules[new["metadata"]["name"]] = new
        self._recompute(lambda _: True)

    def of_pod(self, pod: Object) -> Eviction | None:
        """When and why a pod has to go, None for never."""
        if not pod["spec"].get("nodeName"):
            return None
        eviction: Eviction | None = None
        for name, check_owner in _claims_of(pod):
            known = self._claims.get((pod["metadata"]["namespace"], name))
            if known is None or known.eviction is None:
                continue
            if check_owner and references.owner_problem(pod, known.claim):
                continue
            if references.is_reserved_for(pod, known.claim):
                eviction = known.eviction.joined(eviction)
        return eviction

    def pending(self, rule: Object) -> tuple[int, int]:
        """How many pods a rule wants to go that nobody deletes yet, and in how many namespaces they are."""
        uid = rule["metadata"]["uid"]
        pods = [
            pod["metadata"]["namespace"]
            for pod in self._pods.items()
            if "deletionTimestamp" not in pod["metadata"]
            and (eviction := self.of_pod(pod)) is not None
            and any(reason_uid == uid for _, reason_uid in eviction.rules())
        ]
        return len(pods), len(set(pods))

    def selected(self, rule: Object) -> tuple[int, int]:
        """How many published devices, and how many results of allocations, a rule is about."""
        published = sum(
            _matches(rule, *pool_id, device["name"])
            for pool_id, pool in self._pools.items()
            for device in pool.devices()
        )
        allocated = sum(
            _matches(rule, result["driver"], result["pool"], result["device"])
            for known in self._claims.values()
            for result in _results(known.claim)
        )
        return published, allocated

    def if_it_evicted(self, rule: Object) -> Evictions:
        """What would be if the rule's effect was NoExecute and there was no other rule."""
        spec = rule["spec"]
        supposed = {**rule, "spec": {**spec, "taint": {**spec["taint"], "effect": _EFFECT}}}
        copy = Evictions(self._pods, lambda _: None)
        copy._claims, copy._pools = dict(self._claims), self._pools
        copy.rule_changed(None, supposed)
        return copy

    def _recompute(self, concerns: Callable[[Object], bool]) -> None:
        for key, known in list(self._claims.items()):
            if not any(concerns(result) for result in _results(known.claim)):
                continue
            eviction = self._of_claim(known.claim)
            if eviction != known.eviction:
                self._claims[key] = _Claim(known.claim, eviction)
                self._tell(known.claim)

    def _tell(self, claim: Object) -> None:
        for consumer in references.reserved_for(claim):
            if consumer.get("apiGroup") or consumer.get("resource") != "pods":
                continue
            pod = self._pods.get(claim["metadata"]["namespace"], consumer["name"])
            if pod is not None and pod["metadata"]["uid"] == consumer["uid"]:
                self._affected(pod)

    def _of_claim(self, claim: Object) -> Eviction | None:
        times: list[float] = []
        reasons: set[Reason] = set()
        for result in _results(claim):
            for reason, taint in self._taints(result):
                seconds = _tolerated_seconds(result.get("tolerations") or [], taint)
                if seconds is None:
                    continue
                times.append(parse_stamp(taint["timeAdded"]) + seconds)
                reasons.add(reason)
        return Eviction(min(times), tuple(sorted(reasons))) if times else None

    def _taints(self, result: Object) -> Iterator[tuple[Reason, Object]]:
        """The evicting taints of an allocated device, which need not be published any more for rules."""
        driver, pool, device = result["driver"], result["pool"], result["device"]
        if (driver, pool) in self._pools:
            for index, taint in self._pools[driver, pool].tainted.get(device, ()):
                yield Reason(True, f"{driver}/{pool}/{device}", index), taint
        for name, rule in self._rules.items():
            if _matches(rule, driver, pool, device):
                yield Reason(False, name, rule_uid=rule["metadata"]["uid"]), rule["spec"]["taint"]


def _tolerated_seconds(tolerations: list[Object], taint: Mapping[str, Any]) -> float | None:
    """For how long a taint is tolerated, None for ever; a toleration counts only if it names the effect."""
    matching = [one for one in tolerations if one.get("effect") == _EFFECT and tolerates(one, taint)]
    if any(one.get("tolerationSeconds") is None for one in matching):
        return None
    return min((max(one["tolerationSeconds"], 0) for one in matching), default=0)


def _matches(rule: Object, driver: str, pool: str, device: str) -> bool:
    selector = rule["spec"].get("deviceSelector")
    if selector is None:
        return False
    wanted = (
        (selector.get("driver"), driver),
        (selector.get("pool"), pool),
        (selector.get("device"), device),
    )
    return all(want is None or want == have for want, have in wanted)


def _generation(slice_: Object) -> int:
    return int(slice_["spec"]["pool"].get("generation") or 0)


def _results(claim: Object) -> list[Object]:
    return _allocation(claim).get("devices", {}).get("results") or []


def _allocation(claim: Object) -> Object:
    allocation: Object = claim["status"]["allocation"]
    return allocation


def _claims_of(pod: Object) -> Iterator[tuple[str, bool]]:
    """Names of a pod's claims, and whether they must have been made for it."""
    for pod_claim in references.pod_claims(pod):
        try:
            name, check_owner = references.claim_name(pod, pod_claim)
        except references.PodClaimError:
            continue
        if name is not None:
            yield name, check_owner
    if references.extended_claim(pod):
        yield references.extended_claim(pod), True
