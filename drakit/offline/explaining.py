"""Why a Pod or claim gets its devices or none, node by node, as a document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from allocator.explain import DeviceOutcome, Explainer, NodeExplanation, RequestOutcome, holders_of
from clusters.embedded.controllers.resource_claim import references
from clusters.embedded.scheduler.framework.status import Status
from drakit.offline.outlook import Attempt, Outlook, stand_in
from drakit.offline.world import Object

SCHEMA_VERSION: Final = 1
_DRA: Final = "DynamicResources"

Document = dict[str, Any]


def explain_claim(outlook: Outlook, claim: Object, nodes: Sequence[str] = ()) -> Document:
    """The document about a claim; `nodes` are the nodes to look at, all when there are none."""
    metadata = claim["metadata"]
    document = _head("ResourceClaim", metadata)
    document["usedBy"] = [
        pod["metadata"]["name"]
        for pod in outlook.pods()
        if pod["metadata"]["namespace"] == metadata["namespace"]
        and metadata["name"] in references.known_claims(pod, extended=True)
    ]
    if references.is_allocated(claim):
        placed = {"state": "allocated", "message": "", "node": None}
        return document | placed | {"claims": [_claim(claim)], "nodes": []}
    return document | _unplaced(outlook, stand_in(claim), nodes)


def explain_pod(outlook: Outlook, pod: Object, nodes: Sequence[str] = ()) -> Document:
    """The document about a Pod; see explain_claim."""
    document = _head("Pod", pod["metadata"])
    placed = pod["spec"].get("nodeName")
    if placed or references.is_done(pod):
        state = "done" if references.is_done(pod) else "scheduled"
        claims = [_claim(claim) for claim in outlook.claims_of(pod)]
        return document | {
            "state": state,
            "message": "",
            "node": placed or None,
            "claims": claims,
            "nodes": [],
        }
    return document | _unplaced(outlook, pod, nodes)


def _head(kind: str, metadata: Mapping[str, Any]) -> Document:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "kind": kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
    }


def _unplaced(outlook: Outlook, pod: Object, wanted: Sequence[str]) -> Document:
    attempt = outlook.attempt(pod, keep=False)
    claims = [claim for claim in attempt.claims if not references.is_allocated(claim)]
    explainer = Explainer(
        outlook.gates,
        claims,
        outlook.state,
        lambda name: outlook.classes.get("", name),
        outlook.slices,
        outlook.cel,
        holders_of(outlook.all_claims.values()),
    )
    looked_at = attempt.statuses or not attempt.message
    nodes = (
        [
            _node(node, attempt, explainer.explain(node), claims)
            for node in outlook.nodes
            if not wanted or node["metadata"]["name"] in wanted
        ]
        if looked_at or _is_about_nodes(attempt, outlook)
        else []
    )
    return {
        "state": "possible" if attempt.node else "impossible",
        "message": attempt.message,
        "node": attempt.node or None,
        "claims": [_claim(claim) for claim in attempt.claims],
        "nodes": nodes,
    }


def _is_about_nodes(attempt: Attempt, outlook: Outlook) -> bool:
    """Whether there is anything to tell about nodes though the scheduler looked at none."""
    return attempt.message.startswith("0/") and bool(outlook.nodes)


def _node(node: Object, attempt: Attempt, found: NodeExplanation, claims: Sequence[Object]) -> Document:
    name = node["metadata"]["name"]
    status = attempt.statuses.get(name)
    refused = _refusal(attempt, name, status)
    if refused is None and _stopped(attempt, found):
        refused = {
            "plugin": _DRA,
            "text": "its devices would do, but an error on another node keeps it from all",
        }
    return {
        "node": name,
        "possible": found.possible and refused is None,
        "chosen": name == attempt.node,
        "refusedBy": refused,
        "error": {"text": found.error, "scope": found.scope} if found.error else None,
        "blocking": None
        if found.blocking is None
        else {
            "claim": found.blocking.claim,
            "request": found.blocking.request,
            "reason": found.blocking.reason,
            "text": found.blocking.text,
        },
        "requests": [_request(outcome) for outcome in found.requests],
        "pools": [
            {"pool": str(note.pool), "state": note.state, "detail": note.detail} for note in found.pools
        ],
        "allocations": {
            claim["metadata"]["name"]: result for claim, result in zip(claims, found.results, strict=False)
        },
    }


def _refusal(attempt: Attempt, node: str, status: Status | None) -> Document | None:
    """What refuses the node beside the search for devices."""
    if node in attempt.statuses:
        if status is None or (status.plugin == _DRA and "not available" not in status.message):
            return None
        return {"plugin": status.plugin, "text": _why_unavailable(attempt, status)}
    if attempt.message.startswith("0/"):
        return {
            "plugin": "PreFilter",
            "text": "the scheduler does not look at the node: see the message above",
        }
    return None


def _stopped(attempt: Attempt, found: NodeExplanation) -> bool:
    """Whether an error on another node keeps the Pod from this one too."""
    return found.possible and bool(attempt.message) and not attempt.message.startswith("0/")


def _why_unavailable(attempt: Attempt, status: Status) -> str:
    if status.plugin != _DRA:
        return status.message
    names = [
        f"claim {claim['metadata']['name']} is allocated on {_places(claim)}"
        for claim in attempt.claims
        if references.is_allocated(claim)
    ]
    return f"{status.message}: {'; '.join(names)}"


def _places(claim: Object) -> str:
    """Where the devices of a claim can be used, in words."""
    selector = claim["status"]["allocation"].get("nodeSelector")
    if selector is None:
        return "all nodes"
    parts = []
    for term in selector.get("nodeSelectorTerms") or ():
        for entry in (*(term.get("matchFields") or ()), *(term.get("matchExpressions") or ())):
            values = ", ".join(entry.get("values") or ())
            key = "node" if entry["key"] == "metadata.name" else f"nodes with {entry['key']}"
            parts.append(f"{key} {entry['operator'] + ' ' if key != 'node' else ''}{values}".rstrip())
    return " and ".join(parts) or "no node"


def _request(outcome: RequestOutcome) -> Document:
    return {
        "claim": outcome.claim,
        "request": outcome.request,
        "deviceClass": outcome.device_class,
        "wanted": outcome.wanted,
        "seen": len(outcome.devices),
        "candidates": outcome.candidates,
        "free": outcome.free,
        "counts": dict(outcome.counts),
        "devices": [_device(device) for device in outcome.devices],
    }


def _device(device: DeviceOutcome) -> Document:
    found = {"device": str(device.device), "outcome": device.reason}
    return found | {"detail": device.detail} if device.detail else found


def _claim(claim: Object) -> Document:
    metadata, status = claim["metadata"], claim.get("status") or {}
    allocation = status.get("allocation")
    return {
        "name": metadata["name"],
        "state": _state(claim),
        "devices": [
            _result(result) for result in ((allocation or {}).get("devices") or {}).get("results") or ()
        ],
        "usableOn": None if allocation is None else _places(claim),
        "reservedFor": [consumer.get("name", "") for consumer in status.get("reservedFor") or ()],
    }


def _state(claim: Object) -> str:
    """As kubectl shows it."""
    words: Iterable[str]
    if claim["metadata"].get("deletionTimestamp"):
        words = ["deleted"]
    else:
        words = [] if references.is_allocated(claim) else ["pending"]
    allocated = ["allocated"] if references.is_allocated(claim) else []
    reserved = ["reserved"] if references.reserved_for(claim) else []
    return ",".join([*words, *allocated, *(reserved if allocated else [])])


def _result(result: Mapping[str, Any]) -> Document:
    name = f"{result['driver']}/{result['pool']}/{result['device']}"
    found = {"request": result["request"], "device": name}
    for key in ("shareID", "consumedCapacity", "adminAccess"):
        if result.get(key):
            found[key] = result[key]
    return found
