"""Whether a node is one that a Pod's selector and required affinity allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusters.embedded.kubelet.pods.objects import Object

_INT64 = range(-(2**63), 2**63)


def node_allowed(pod: Object, node: Object) -> bool:
    """Whether nodeSelector and required node affinity of the Pod match the node."""
    labels: Mapping[str, str] = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(_term(term, labels, fields) for term in required.get("nodeSelectorTerms") or [])


def _term(term: Object, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    expressions, field_tests = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not field_tests:
        return False
    return _all(expressions, labels) and _all(field_tests, fields)


def _all(requirements: Sequence[Object], values: Mapping[str, str]) -> bool:
    return all(_requirement(requirement, values) for requirement in requirements)


def _requirement(requirement: Object, values: Mapping[str, str]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    wanted = requirement.get("values") or []
    if operator == "In":
        return values.get(key) in wanted
    if operator == "NotIn":
        return values.get(key) not in wanted
    if operator == "Exists":
        return key in values
    if operator == "DoesNotExist":
        return key not in values
    try:
        own, other = int(values[key]), int(wanted[0])
    except (KeyError, ValueError, IndexError):
        return False
    if own not in _INT64 or other not in _INT64:
        return False
    return own > other if operator == "Gt" else own < other
