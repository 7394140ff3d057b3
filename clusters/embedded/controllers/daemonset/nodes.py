"""Which nodes a DaemonSet is for, and the Pod for a node. No input or output."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from allocator.node_match import NodeSelection, NodeSelectorError
from clusters.embedded.components.client import Object
from clusters.embedded.controllers.pod_control import pod_from_template
from clusters.embedded.controllers.pods import annotations_of, labels_of
from clusters.embedded.controllers.revisions import HASH_LABEL
from clusters.embedded.scheduler.framework.taints import tolerated

GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_NAME_FIELD: Final = "metadata.name"
_NO_EXECUTE, _NO_SCHEDULE = "NoExecute", "NoSchedule"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", _NO_EXECUTE),
    ("node.kubernetes.io/unreachable", _NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", _NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", _NO_SCHEDULE),
)
_TOLERATED_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", _NO_SCHEDULE)


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Object]:
    """The tolerations of a template with those that every daemon has."""
    result = [dict(one) for one in spec.get("tolerations") or []]
    wanted = _TOLERATED + ((_TOLERATED_ON_HOST_NETWORK,) if spec.get("hostNetwork") else ())
    for key, effect in wanted:
        new = {"key": key, "operator": "Exists", "effect": effect}
        for position, known in enumerate(result):
            if (known.get("key"), known.get("effect")) == (key, effect) and (
                known.get("operator") or "Equal"
            ) == "Exists":
                result[position] = new
                break
        else:
            result.append(new)
    return result


class Eligibility:
    """The part of a DaemonSet that decides about nodes, read once for many nodes."""

    def __init__(self, daemon_set: Mapping[str, Any]) -> None:
        spec = daemon_set["spec"]["template"]["spec"]
        self._node_name = spec.get("nodeName") or ""
        self._labels = (spec.get("nodeSelector") or {}).items()
        self._tolerations = daemon_tolerations(spec)
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
        self._required = NodeSelection.of({"nodeSelector": required}) if required is not None else None

    def of(self, node: Mapping[str, Any]) -> tuple[bool, bool]:
        """Whether a Pod should be started on the node, and whether one that is there may stay."""
        if self._node_name and self._node_name != node["metadata"]["name"]:
            return False, False
        if not self._labels <= labels_of(node).items():
            return False, False
        try:
            if self._required is not None and not self._required.matches(node):
                return False, False
        except NodeSelectorError:
            return False, False
        effects = {
            taint["effect"]
            for taint in (node.get("spec") or {}).get("taints") or []
            if not tolerated(taint, self._tolerations)
        }
        return not effects & {_NO_SCHEDULE, _NO_EXECUTE}, _NO_EXECUTE not in effects


def generation_of(daemon_set: Mapping[str, Any]) -> str | None:
    """The template's generation in the old annotation; None when it is absent or no number."""
    text = annotations_of(daemon_set).get(GENERATION, "")
    return str(int(text)) if text.isdecimal() else None


def is_updated(pod: Mapping[str, Any], digest: str, generation: str | None) -> bool:
    """Whether the Pod is of the current template."""
    labels = labels_of(pod)
    if digest and labels.get(HASH_LABEL) == digest:
        return True
    return generation is not None and labels.get(GENERATION_LABEL) == generation


def new_pod(daemon_set: Mapping[str, Any], node: str, digest: str) -> Object:
    """The Pod for a node; the scheduler binds it there because of its node affinity."""
    pod = pod_from_template(daemon_set["spec"]["template"], daemon_set)
    spec, labels = pod["spec"], dict(labels_of(pod))
    generation = generation_of(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    pod["metadata"]["labels"] = {**labels, HASH_LABEL: digest}
    spec["tolerations"] = daemon_tolerations(spec)
    affinity = copy.deepcopy(spec.get("affinity") or {})
    by_name = {"key": _NAME_FIELD, "operator": "In", "values": [node]}
    affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [by_name]}]
    }
    spec["affinity"] = affinity
    return pod


def target_node(pod: Mapping[str, Any]) -> str | None:
    """The node that a Pod is on or made for; None when nothing says so."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field["key"] == _NAME_FIELD and field["operator"] == "In":
                return str(field["values"][0]) if len(field["values"]) == 1 else None
    return None


def by_node(pods: Iterable[Object]) -> dict[str, list[Object]]:
    """Pods by the node that they are for."""
    found: dict[str, list[Object]] = {}
    for pod in pods:
        node = target_node(pod)
        if node is not None:
            found.setdefault(node, []).append(pod)
    return found
