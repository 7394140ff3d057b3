"""Every device of a world: what it is, who has it, what is left of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from allocator import AllocatedState, DeviceID
from allocator.explain import Explainer, holders_of
from allocator.explain_devices import taint_text
from clusters.embedded.controllers.resource_claim import references
from dra_api.quantity import Quantity
from drakit.offline.outlook import Outlook
from drakit.offline.world import Object

SCHEMA_VERSION: Final = 1
ALL_NODES: Final = "*"
_CLASS: Final = {"metadata": {"name": "any"}, "spec": {}}
_ANY: Final = {
    "metadata": {"name": "any", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "any",
                    "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1},
                }
            ]
        }
    },
}
_STATES: Final = {
    "in-use": "in use",
    "capacity": "full",
    "counters": "no counters left",
    "compatibility-groups": "groups do not fit",
    "taint": "tainted",
    "binding-conditions": "needs binding conditions",
    "node-operations": "needs a feature of the node",
    "free": "free",
}


@dataclass
class Row:
    """One device. `published` is its entry in a slice, None for one that claims have though no slice names it.

    `state` is `free`, `in use` (one claim has it alone), `shared` (there are shares, and room for one more), `full`,
    `tainted`, `no counters left`, `groups do not fit`, `pool incomplete`, `pool invalid`, `pool outdated`, `no node`
    or `gone`.
    """

    id: DeviceID
    published: Mapping[str, Any] | None
    nodes: list[str] = field(default_factory=list)
    state: str = "no node"
    detail: str = ""
    claims: list[str] = field(default_factory=list)
    admins: list[str] = field(default_factory=list)
    """Claims with admin access."""
    pods: list[str] = field(default_factory=list)
    whole: bool = False
    """Whether one claim has it alone."""
    shares: int = 0
    used: dict[str, Quantity] = field(default_factory=dict)


def rows(outlook: Outlook) -> list[Row]:
    """The devices of the newest generation of each pool, by driver, pool and device, then those that are gone."""
    found = {row.id: row for row in _published(outlook.slices)}
    _look_at_nodes(outlook, found)
    state = outlook.state
    for id in (*state.devices, *state.shared_devices):
        found.setdefault(id, Row(id, None, state="gone", detail="no slice has it, but claims do"))
    pods = _pods_of_claims(outlook)
    for claim in outlook.all_claims.values():
        _hold(claim, found, pods)
    for share in state.shares:
        found[share.device].shares += 1
    for id, amounts in state.capacity.items():
        found[id].used = dict(amounts)
    for row in found.values():
        row.whole = row.id in state.devices
        if row.whole and row.state in ("free", "tainted"):
            row.state = "in use"
        elif row.shares and row.state == "free":
            row.state = "shared"
    return sorted(found.values(), key=lambda row: (row.published is None, row.id))


def document(outlook: Outlook, chosen: Sequence[Row]) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "devices": [_as_json(row) for row in chosen],
        "totals": totals(chosen),
    }


def totals(chosen: Iterable[Row]) -> dict[str, Any]:
    """Counts over rows: of devices by state, of devices that one claim has alone, and of shares."""
    chosen = list(chosen)
    states = Counter(row.state for row in chosen)
    return {
        "devices": len(chosen),
        "states": dict(sorted(states.items())),
        "whole": sum(row.whole for row in chosen),
        "shares": sum(row.shares for row in chosen),
    }


def in_use(state: AllocatedState) -> tuple[int, int]:
    """What the allocator's state says: devices that one claim has alone, and shares."""
    return len(state.devices), len(state.shares)


def description(published: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes and capacities by name, with their plain values."""
    found: dict[str, Any] = {}
    for name, value in ((published or {}).get("attributes") or {}).items():
        found[name] = next(iter(value.values()), None)
    for name, value in ((published or {}).get("capacity") or {}).items():
        found[name] = value["value"]
    return found


def _published(slices: Iterable[Object]) -> Iterable[Row]:
    newest: dict[tuple[str, str], int] = {}
    for entry in slices:
        pool = entry["spec"]["pool"]
        key = entry["spec"]["driver"], pool["name"]
        newest[key] = max(newest.get(key, 0), pool.get("generation") or 0)
    for entry in slices:
        spec = entry["spec"]
        if (spec["pool"].get("generation") or 0) < newest[spec["driver"], spec["pool"]["name"]]:
            continue
        for device in spec.get("devices") or ():
            yield Row(DeviceID(spec["driver"], spec["pool"]["name"], device["name"]), device)


def _look_at_nodes(outlook: Outlook, found: Mapping[DeviceID, Row]) -> None:
    """Ask, for each node, what would become of each device."""
    explainer = Explainer(
        outlook.gates,
        [_ANY],
        outlook.state,
        lambda name: _CLASS,
        outlook.slices,
        outlook.cel,
        holders_of(outlook.all_claims.values()),
    )
    of_pool = defaultdict[tuple[str, str], list[Row]](list)
    for row in found.values():
        of_pool[row.id.driver, row.id.pool].append(row)
    nodes = _nodes(outlook)
    for node in nodes:
        name = node["metadata"]["name"]
        explained = explainer.explain(node)
        for note in explained.pools:
            for row in of_pool.get(note.pool, ()) if note.state != "outdated" else ():
                if row.state == "no node":
                    row.state, row.detail = f"pool {note.state}", note.detail
        for request in explained.requests:
            for device in request.devices:
                row = found.get(device.device)  # type: ignore[assignment]
                if row is None or device.reason not in _STATES:
                    continue
                row.nodes.append(name)
                if len(row.nodes) == 1:
                    row.state, row.detail = _STATES[device.reason], device.detail
    for row in found.values():
        if len(row.nodes) > 1 and len(row.nodes) == len(nodes):
            row.nodes = [ALL_NODES]


def node_names(outlook: Outlook) -> list[str]:
    """The names of the nodes, and of those that are only named in slices."""
    return [node["metadata"]["name"] for node in _nodes(outlook)]


def _nodes(outlook: Outlook) -> list[Object]:
    """The nodes, and those that are only named in slices."""
    nodes = {node["metadata"]["name"]: node for node in outlook.nodes}
    for entry in outlook.slices:
        spec = entry["spec"]
        for owner in (spec, *(spec.get("devices") or ())):
            if owner.get("nodeName"):
                nodes.setdefault(owner["nodeName"], {"metadata": {"name": owner["nodeName"]}})
    return list(nodes.values()) or [{"metadata": {"name": "-"}}]


def _pods_of_claims(outlook: Outlook) -> dict[str, str]:
    """UID of a Pod -> `namespace/name`."""
    return {
        pod["metadata"]["uid"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in outlook.pods()
    }


def _hold(claim: Object, found: Mapping[DeviceID, Row], pods: Mapping[str, str]) -> None:
    metadata = claim["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}"
    allocation = (claim.get("status") or {}).get("allocation") or {}
    consumers = [
        pods.get(consumer.get("uid", ""), f"{metadata['namespace']}/{consumer.get('name', '')}")
        for consumer in references.reserved_for(claim)
    ]
    for result in (allocation.get("devices") or {}).get("results") or ():
        row = found.get(DeviceID(result["driver"], result["pool"], result["device"]))
        if row is None:
            continue
        holders = row.admins if result.get("adminAccess") else row.claims
        if name not in holders:
            holders.append(name)
            row.pods += [pod for pod in consumers if pod not in row.pods]


def _as_json(row: Row) -> dict[str, Any]:
    capacity = (row.published or {}).get("capacity") or {}
    return {
        "driver": row.id.driver,
        "pool": row.id.pool,
        "device": row.id.device,
        "nodes": row.nodes,
        "state": row.state,
        "detail": row.detail,
        "claims": row.claims,
        "adminClaims": row.admins,
        "pods": row.pods,
        "shareable": bool((row.published or {}).get("allowMultipleAllocations")),
        "shares": row.shares,
        "capacity": {
            name: {"value": entry["value"], "used": str(row.used.get(name, Quantity(0)))}
            for name, entry in capacity.items()
        },
        "taints": [taint_text(taint) for taint in (row.published or {}).get("taints") or ()],
        "attributes": (row.published or {}).get("attributes") or {},
    }
