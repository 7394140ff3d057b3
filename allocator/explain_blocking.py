"""What blocks first: the first request that cannot be satisfied, and what it is that has to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .allocator import Allocator
from .errors import AllocationCancelledError, AllocationError, NodeError
from .explain_devices import FREE, REASONS, PoolNote, RequestOutcome
from .requests import MAX_RESULTS, Claim, claim_name

_WORDS: Final[Mapping[str, str]] = {
    "selector": "lost to a selector",
    "selector-error": "with a failing selector",
    "node-selection": "not for this node",
    "binding-conditions": "with binding conditions",
    "node-operations": "that need a feature of the node",
    "in-use": "in use",
    "capacity": "without enough capacity",
    "counters": "without enough counters",
    "compatibility-groups": "in groups that do not go together",
    "taint": "tainted",
    "constraint": "outside of a constraint",
    FREE: "free",
}


@dataclass(frozen=True)
class Blocking:
    """The first thing that blocks.

    `reason` is one of REASONS other than free, or `error` (the allocator refuses the claim), `no-devices` (the node
    sees none), `pool` (what there is cannot be used), `too-few` (all are free, and not enough), `limit` (more devices
    than a claim may have), `earlier-requests` (devices that these need), `combination` (several of these together),
    `timeout`.
    """

    claim: str
    request: str
    reason: str
    text: str


@dataclass(frozen=True)
class Question:
    """Asks the allocator about a node."""

    allocator: Allocator
    node: Mapping[str, Any]
    cancelled: Callable[[], bool]
    without_counters: Callable[[], Allocator]

    def allocate(self, claims: Sequence[Claim]) -> list[dict[str, Any]]:
        """What the allocator answers. Raises what it raises."""
        return self.allocator.allocate(self.node, self.cancelled, claims)

    def possible(self, claims: Sequence[Claim], allocator: Allocator | None = None) -> bool:
        """Whether there is an answer. Raises AllocationCancelledError."""
        try:
            answer = (allocator or self.allocator).allocate(self.node, self.cancelled, claims)
        except AllocationCancelledError:
            raise
        except AllocationError:
            return False
        return len(answer) == len(claims)

    def error(self, claims: Sequence[Claim]) -> str:
        """The error that keeps the pod from all nodes; "" without one."""
        try:
            self.allocate(claims)
        except AllocationCancelledError:
            raise
        except NodeError:
            return ""
        except AllocationError as error:
            return str(error)
        return ""


def find_blocking(
    ask: Question,
    claims: Sequence[Claim],
    outcomes: Sequence[RequestOutcome],
    notes: Sequence[PoolNote],
    error: str = "",
) -> Blocking:
    """What blocks claims that cannot be allocated; `error` is the error that the allocator gives for them."""
    try:
        return _find(ask, claims, outcomes, notes, error)
    except AllocationCancelledError:
        return Blocking("", "", "timeout", error or "not possible; there was no time to find out why")


def _find(
    ask: Question,
    claims: Sequence[Claim],
    outcomes: Sequence[RequestOutcome],
    notes: Sequence[PoolNote],
    error: str,
) -> Blocking:
    starts = list(_starts(claims))
    fails = ask.error if error else lambda part: not ask.possible(part)
    low, high = 0, len(starts) - 1
    while low < high:
        middle = (low + high) // 2
        if fails(starts[middle][2]):
            high = middle
        else:
            low = middle + 1
    index, name, part = starts[low] if starts else (0, "", list(claims))
    claim = claim_name(claims[index])
    if error:
        return Blocking(claim, name, "error", error)
    # Behind a claim without requests there is nothing that could block.
    choices = [entry for entry in outcomes if entry.claim == claim and entry.parent == name]
    found = [_reason(ask, part, choice, notes) for choice in choices]
    if not found:
        return Blocking(claim, name, "combination", "the claim cannot be allocated")
    if len(found) == 1:
        return Blocking(claim, name, *found[0])
    reasons = {reason for reason, _ in found}
    texts = [f"{choice.request}: {text}" for choice, (_, text) in zip(choices, found, strict=True)]
    return Blocking(
        claim,
        name,
        reasons.pop() if len(reasons) == 1 else "combination",
        f"no alternative is possible: {'; '.join(texts)}",
    )


def _starts(claims: Sequence[Claim]) -> Iterator[tuple[int, str, list[Claim]]]:
    """The claims cut off behind each of their requests: index of the last claim, the request, the claims so far."""
    for index, claim in enumerate(claims):
        requests = _requests(claim)
        for number, request in enumerate(requests, 1):
            yield index, request["name"], [*claims[:index], _with_requests(claim, requests[:number])]
        if not requests:
            yield index, "", list(claims[: index + 1])


def _reason(
    ask: Question, part: Sequence[Claim], choice: RequestOutcome, notes: Sequence[PoolNote]
) -> tuple[str, str]:
    """The reason and its text for one request, or one alternative, at the end of `part`."""
    if not choice.devices:
        return _nothing(notes)
    if choice.wanted is None:
        matching = [
            device for device in choice.devices if REASONS.index(device.reason) >= REASONS.index("in-use")
        ]
        missing = [device for device in matching if device.reason != FREE]
        if not matching:
            return _nearest(choice, f"no device matches, and a request for all needs one: {_summary(choice)}")
        if missing:
            text = f"a request for all needs every device that matches, also {missing[0].device}: {missing[0].detail}"
            return missing[0].reason, text
    elif choice.free < choice.wanted:
        pools = _pools(notes)
        return _nearest(choice, f"needs {choice.wanted}, {choice.free} free: {_summary(choice)}{pools}")
    return _together(ask, part, choice)


def _nothing(notes: Sequence[PoolNote]) -> tuple[str, str]:
    if notes:
        return "pool", f"the node sees no usable device{_pools(notes)}"
    return "no-devices", "no ResourceSlice has devices for this node"


def _pools(notes: Sequence[PoolNote]) -> str:
    return "".join(f"; pool {note.pool} is {note.state}: {note.detail}" for note in notes)


def _nearest(choice: RequestOutcome, text: str) -> tuple[str, str]:
    """The reason of the devices that came closest; of these the details of one."""
    lost = [device for device in choice.devices if device.reason != FREE]
    if not lost:
        return "too-few", text
    closest = max(lost, key=lambda device: REASONS.index(device.reason))
    return closest.reason, f"{text}; {closest.device}: {closest.detail}"


def _summary(choice: RequestOutcome) -> str:
    counts = ", ".join(
        f"{count} {_WORDS[reason]}" for reason, count in choice.counts.items() if reason != FREE
    )
    word = "device" if len(choice.devices) == 1 else "devices"
    return (
        f"of {len(choice.devices)} {word} {counts}" if counts else f"there are {len(choice.devices)} {word}"
    )


def _together(ask: Question, part: Sequence[Claim], choice: RequestOutcome) -> tuple[str, str]:
    """Enough devices are free, but not together with each other or with what earlier requests take."""
    claim = part[-1]
    request = _only(claim, choice)
    alone = _with_requests(claim, [request])
    bare = _without_constraints(alone)
    free = f"{choice.free} of {len(choice.devices)} free"
    if choice.wanted is not None and choice.wanted > MAX_RESULTS:
        return "limit", f"needs {choice.wanted} devices, and a claim may have {MAX_RESULTS}"
    without_counters = ask.without_counters()
    if not ask.possible([bare]):
        if ask.possible([bare], without_counters):
            return "counters", f"{free}, but the counters do not suffice for {choice.wanted} of them at once"
        return "combination", f"{free}, but not {choice.wanted} at once"
    if not ask.possible([alone]):
        return "constraint", f"{free}, but {_constraint(ask, alone)}"
    cut = _with_requests(claim, [*_requests(claim)[:-1], request])
    whole = [*part[:-1], cut]
    relaxed = [*part[:-1], _without_constraints(cut)]
    if _constraints(claim) and ask.possible(relaxed):
        return (
            "constraint",
            f"{free}, but with the devices of earlier requests {_constraint(ask, cut, whole)}",
        )
    if ask.possible(whole, without_counters):
        return "counters", f"{free}, but the counters do not suffice beside the devices of earlier requests"
    total = sum(1 for _ in _earlier(part))
    if total:
        return (
            "earlier-requests",
            f"{free}, but earlier requests of the Pod need them: {', '.join(_earlier(part))}",
        )
    return "combination", f"{free}, but not together with what else blocks"


def _constraint(ask: Question, claim: Claim, whole: Sequence[Claim] = ()) -> str:
    """The constraint without which it would work."""
    before = whole[:-1]
    constraints = _constraints(claim)
    for index, entry in enumerate(constraints):
        rest = [other for other in constraints if other is not entry]
        if ask.possible([*before, _with(claim, constraints=rest)]):
            kind = "matchAttribute" if entry.get("matchAttribute") else "distinctAttribute"
            words = "have no common" if kind == "matchAttribute" else "would share the"
            return f"they {words} {entry.get(kind)} (constraint #{index}, {kind})"
    return f"they do not satisfy the {len(constraints)} constraints at once"


def _earlier(part: Sequence[Claim]) -> Iterator[str]:
    for index, claim in enumerate(part):
        requests = _requests(claim)
        for request in requests[:-1] if index == len(part) - 1 else requests:
            yield f"{claim_name(claim)}, request {request['name']}"


def _only(claim: Claim, choice: RequestOutcome) -> Mapping[str, Any]:
    """The request with this alternative alone."""
    request: Mapping[str, Any] = next(entry for entry in _requests(claim) if entry["name"] == choice.parent)
    if not request.get("firstAvailable"):
        return request
    wanted = choice.request.rpartition("/")[2]
    return {**request, "firstAvailable": [one for one in request["firstAvailable"] if one["name"] == wanted]}


def _requests(claim: Claim) -> list[Mapping[str, Any]]:
    return list((claim["spec"].get("devices") or {}).get("requests") or ())


def _constraints(claim: Claim) -> list[Mapping[str, Any]]:
    return list((claim["spec"].get("devices") or {}).get("constraints") or ())


def _with_requests(claim: Claim, requests: Sequence[Mapping[str, Any]]) -> Claim:
    return _with(claim, requests=list(requests))


def _without_constraints(claim: Claim) -> Claim:
    return _with(claim, constraints=[])


def _with(claim: Claim, **parts: Any) -> Claim:
    devices = {**(claim["spec"].get("devices") or {}), **parts}
    return {**claim, "spec": {**claim["spec"], "devices": devices}}
