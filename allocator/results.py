"""Allocation results: what the scheduler writes to `status.allocation` of the claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import AllocationError
from .features import Features
from .model import DeviceID
from .requests import Claim, Request
from .situations import Pick


def allocation_result(
    claim: Claim,
    requests: Sequence[Request],
    picks: Sequence[Pick],
    node_name: str,
    features: Features,
) -> dict[str, Any]:
    """The AllocationResult of a claim in resource.k8s.io/v1 form.

    `requests` are the requests of the claim in order, with the chosen alternative of prioritised lists. Parts of
    the result belong to claim, class and slices and must not be changed.
    """
    devices: dict[str, Any] = {}
    if picks:
        devices["results"] = [_device_result(pick, features) for pick in picks]
    config = _configs(claim, requests)
    if config:
        devices["config"] = config
    result: dict[str, Any] = {"devices": devices}
    selector = _node_selector(claim, picks, node_name, features)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _device_result(pick: Pick, features: Features) -> dict[str, Any]:
    identity: DeviceID = pick.device.id
    spec = pick.device.spec
    result: dict[str, Any] = {
        "request": pick.request.full_name,
        "driver": identity.driver,
        "pool": identity.pool,
        "device": identity.device,
    }
    if pick.request.admin_access:
        result["adminAccess"] = True
    if pick.request.tolerations:
        result["tolerations"] = list(pick.request.tolerations)
    if features.binding_conditions:
        for name in ("bindingConditions", "bindingFailureConditions"):
            if spec.get(name):
                result[name] = list(spec[name])
    if pick.share_id is not None:
        result["shareID"] = pick.share_id
    if pick.consumed is not None:
        result["consumedCapacity"] = {name: str(amount) for name, amount in pick.consumed.items()}
    if features.experimental and pick.device.slice.skip_node_operations:
        result["skipNodeOperations"] = list(pick.device.slice.skip_node_operations)
    return result


def _configs(claim: Claim, requests: Sequence[Request]) -> list[dict[str, Any]]:
    """Configurations of the classes, each once, then those of the claim that concern a chosen request."""
    of_claim = (claim["spec"].get("devices") or {}).get("config")
    if not of_claim and not any(request.class_["spec"].get("config") for request in requests):
        return []
    result: list[dict[str, Any]] = []
    of_class: dict[str, list[dict[str, Any]]] = {}
    for request in requests:
        name = request.class_["metadata"]["name"]
        if name not in of_class:
            entries = request.class_["spec"].get("config") or ()
            of_class[name] = [_config("FromClass", [], entry) for entry in entries]
            result.extend(of_class[name])
        for config in of_class[name]:
            config["requests"].append(request.full_name)
    chosen = [{request.full_name, request.parent or request.name} for request in requests]
    for entry in of_claim or ():
        named = list(entry.get("requests") or ())
        if not named or any(names & set(named) for names in chosen):
            result.append(_config("FromClaim", named, entry))
    for config in result:
        if all(names & set(config["requests"]) for names in chosen):
            config["requests"] = []  # none named means all
        if not config["requests"]:
            del config["requests"]
    return result


def _config(source: str, requests: list[str], entry: Mapping[str, Any]) -> dict[str, Any]:
    content = {key: value for key, value in entry.items() if key != "requests"}
    return {"source": source, "requests": requests, **content}


def _node_selector(
    claim: Claim, picks: Sequence[Pick], node_name: str, features: Features
) -> dict[str, Any] | None:
    """Where the devices can be used: on this node only, where all their selectors match, or (None) everywhere."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for pick in picks:
        header = pick.device.slice
        spec = pick.device.spec
        own_name = spec.get("nodeName") if header.per_device_nodes else header.node_name
        binds = bool(spec.get("bindsToNode")) and not features.stable
        if own_name is not None or binds:
            field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        selector = spec.get("nodeSelector") if header.per_device_nodes else header.nodes.selector
        terms = (selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            name = claim["metadata"]["name"]
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {name}: {text}")
        for term in terms:
            _merge(term.get("matchFields") or (), fields)
            _merge(term.get("matchExpressions") or (), expressions)
    merged: dict[str, Any] = {}
    if expressions:
        merged["matchExpressions"] = expressions
    if fields:
        merged["matchFields"] = fields
    return {"nodeSelectorTerms": [merged]} if merged else None


def _merge(added: Sequence[Mapping[str, Any]], requirements: list[Mapping[str, Any]]) -> None:
    known = {_meaning(requirement) for requirement in requirements}
    for requirement in added:
        if _meaning(requirement) not in known:
            known.add(_meaning(requirement))
            requirements.append(requirement)


def _meaning(requirement: Mapping[str, Any]) -> tuple[str, str, frozenset[str]]:
    values = frozenset(requirement.get("values") or ())
    return requirement.get("key") or "", requirement.get("operator") or "", values
