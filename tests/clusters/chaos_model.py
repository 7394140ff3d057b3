"""What a history of Pods and ResourceClaims must never show: the model of the chaos tests.

A history is every write of both, in the order of their revisions, which one counter of the API server gives to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]

FINALIZER = "resource.kubernetes.io/delete-protection"
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Change:
    """One write; `obj` is the last state of an object that was removed."""

    revision: int
    removed: bool
    obj: Object

    @property
    def is_pod(self) -> bool:
        """Whether it is a Pod, else a claim."""
        return self.obj["kind"] == "Pod"


@dataclass
class Model:
    """The state after the changes so far; `problems` are the rules that were broken on the way.

    `holders` is (driver, pool, device) -> UID of the claim; `promised` is UID of a claim -> UIDs of the Pods that it
    was reserved for since it has its allocation; `ran` are names of Pods that have been Running or that
    ended with containers that ran.
    """

    pods: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    holders: dict[tuple[str, str, str], str] = field(default_factory=dict)
    promised: dict[str, set[str]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def apply(self, change: Change) -> None:
        """Judge one change."""
        known = self.pods if change.is_pod else self.claims
        uid = change.obj["metadata"]["uid"]
        before = known.get(uid)
        rules = self._pod if change.is_pod else self._claim
        where = f"revision {change.revision}: {change.obj['kind']} {change.obj['metadata']['name']}"
        self.problems += [f"{where} {text}" for text in rules(before, change)]
        if change.removed:
            known.pop(uid, None)
        else:
            known[uid] = change.obj

    def _claim(self, before: Object | None, change: Change) -> Iterator[str]:
        """What is wrong with a change of a claim.

        Between binding and start a Pod may lose its reservation, though not the allocation: a scheduler that does not
        hear that its binding succeeded takes the reservation back (Unreserve of Kubernetes 1.37.2).

        A claim may be removed while it is reserved for a Pod that is over: an API server that deletes an object looks
        for finalizers first and asks for no version then (Store.Delete of apiserver 0.37.2), so the finalizer and the
        reservation that a scheduler writes in between go with the claim of a Pod that was deleted meanwhile.
        """
        obj, uid = change.obj, change.obj["metadata"]["uid"]
        had, has = allocation(before), None if change.removed else allocation(obj)
        if had and has and devices(had) != devices(has):
            yield f"changes its devices from {sorted(devices(had))} to {sorted(devices(has))}"
        if has and FINALIZER not in obj["metadata"].get("finalizers", []):
            yield "has an allocation without the finalizer"
        waiting = reserved(before) & self._alive() if change.removed and before is not None else set()
        if waiting:
            yield f"is removed while it is reserved for {sorted(waiting)}"
        if reserved(obj) and not change.removed and not has:
            yield "is reserved without an allocation"
        for device in devices(had) - devices(has):
            self.holders.pop(device, None)
        for device in sorted(devices(has)):
            holder = self.holders.setdefault(device, uid)
            if holder != uid:
                yield f"gets device {'/'.join(device)}, which claim {holder} has"
        kept = set() if change.removed else reserved(obj)
        for consumer in sorted(self.promised.get(uid, set()) - kept):
            pod = self.pods.get(consumer)
            if pod is None or not bound(pod) or ended(pod) or consumer in waiting:
                continue
            if not has:
                yield f"loses its allocation while Pod {pod['metadata']['name']} may run"
            elif has_run(pod) and before is not None and consumer in reserved(before):
                yield f"is no longer reserved for Pod {pod['metadata']['name']}, which may run"
        if has:
            self.promised.setdefault(uid, set()).update(reserved(obj))
        else:
            self.promised.pop(uid, None)

    def _alive(self) -> set[str]:
        """UIDs of the Pods that run or will."""
        return {uid for uid, pod in self.pods.items() if not ended(pod)}

    def _pod(self, before: Object | None, change: Change) -> Iterator[str]:
        obj = change.obj
        if before is not None and ended(before) and obj["status"].get("phase") != before["status"]["phase"]:
            yield f"was {before['status']['phase']} and is {obj['status'].get('phase')}"
        if before is not None and bound(before) and bound(before) != bound(obj):
            yield f"moves from {bound(before)} to {bound(obj)}"
        if change.removed:
            return
        if has_run(obj):
            self.ran.add(obj["metadata"]["name"])
        starts = has_run(obj) and not (before is not None and has_run(before))
        binds = bound(obj) and not (before is not None and bound(before))
        # A Pod that ends may be written after its claims were given back.
        if (starts and not ended(obj)) or binds:
            yield from self._unready(obj, "starts" if starts else "is bound", binds and not starts)

    def _unready(self, pod: Object, what: str, binds: bool) -> Iterator[str]:
        """What a Pod lacks that starts or is bound.

        It may be bound without the reservation that it had. A scheduler whose binding failed takes the reservation
        back, does not look at its own answer, and goes by its cache at the next attempt (Unreserve and PreBind of
        Kubernetes 1.37.2): with a watch that lags it finds the claim reserved. The claim controller reserves claims of
        bound Pods again, and kubelets start nothing before.
        """
        uid = pod["metadata"]["uid"]
        namespace = pod["metadata"]["namespace"]
        named = {
            (claim["metadata"]["namespace"], claim["metadata"]["name"]): claim
            for claim in self.claims.values()
        }
        for name in claim_names(pod):
            claim = named.get((namespace, name))
            if claim is None:
                yield f"{what} without claim {name}, which does not exist"
            elif not allocation(claim):
                yield f"{what} while claim {name} has no allocation"
            elif uid not in reserved(claim) and not (
                binds and uid in self.promised.get(claim["metadata"]["uid"], ())
            ):
                yield f"{what} while claim {name} is not reserved for it"


def judge(history: Iterable[Change]) -> Model:
    """Judge a whole history."""
    model = Model()
    for change in sorted(history, key=lambda change: change.revision):
        model.apply(change)
    return model


def allocation(claim: Object | None) -> Object | None:
    """The allocation result of a claim."""
    return None if claim is None else (claim.get("status") or {}).get("allocation")


def devices(result: Object | None) -> set[tuple[str, str, str]]:
    """Driver, pool and name of the devices that nobody else may have."""
    results = ((result or {}).get("devices") or {}).get("results") or []
    return {(one["driver"], one["pool"], one["device"]) for one in results if not one.get("adminAccess")}


def reserved(claim: Object) -> set[str]:
    """UIDs of the consumers of a claim."""
    return {one["uid"] for one in (claim.get("status") or {}).get("reservedFor") or []}


def claim_names(pod: Object) -> list[str]:
    """The claims of a Pod by name; a generated one is missing until it is made."""
    made = {
        one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses") or []
    }
    names = (
        one.get("resourceClaimName") or made.get(one["name"]) for one in pod["spec"].get("resourceClaims", [])
    )
    return [name for name in names if name]


def bound(pod: Object) -> str:
    """The node of a Pod, or nothing."""
    return str(pod["spec"].get("nodeName", ""))


def ended(pod: Object) -> bool:
    """Whether it has Succeeded or Failed."""
    return pod["status"].get("phase") in ENDED


def has_run(pod: Object) -> bool:
    """Whether its container has been started."""
    states = [status["state"] for status in pod["status"].get("containerStatuses") or []]
    return any(
        "running" in state or (state.get("terminated") or {}).get("startedAt") is not None for state in states
    )
