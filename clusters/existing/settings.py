"""What a user's cluster asks of the kit: where its Pods may run and how they look, and how its objects are named."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from clusters.existing.owner import OWNER_ANNOTATION
from clusters.interface import ClusterError

RUN_LABEL: Final = "drakit.dev/run"
"""Label of everything that a run makes outside of its namespaces, and of these; the value is the run's id."""
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
HOSTNAME: Final = "kubernetes.io/hostname"

_CLUSTER_SCOPED: Final = ("Namespace", "DeviceClass", "ResourceSlice")
_TEMPLATED: Final = ("DaemonSet", "Deployment", "Job")
_USER: Final = 65534
_LABEL_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_REFERENCE: Final = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?)/([a-z0-9]([-a-z0-9.]*[a-z0-9])?)\Z")
Object = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """How the kit makes its objects on one cluster; the default is what clusters have that drakit starts.

    `run` is the value of RUN_LABEL, `owner` that of OWNER_ANNOTATION, `prefix` begins the names of namespaces. Pods get
    `node_selector`, `tolerations` (as in their spec), `image`, the pull secret (its own name) and, if `restricted`, a
    security context that Pod security's level restricted accepts. `hostnames` holds the hostname label of nodes where
    it is not their name.
    """

    run: str = ""
    owner: str = ""
    prefix: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Mapping[str, str]] = ()
    image: str = ""
    pull_secret: str = ""
    restricted: bool = False
    hostnames: Mapping[str, str] = field(default_factory=dict)

    def shaped(self, obj: Mapping[str, Any]) -> Object:
        """An object as it is to be made; the given one stays as it is."""
        kind = obj["kind"]
        if not self.run or kind not in ("Pod", *_TEMPLATED, *_CLUSTER_SCOPED):
            return dict(obj)
        result: Object = copy.deepcopy(dict(obj))
        if kind in _CLUSTER_SCOPED:
            metadata = result["metadata"]
            metadata["labels"] = {**(metadata.get("labels") or {}), RUN_LABEL: self.run}
            metadata["annotations"] = {**(metadata.get("annotations") or {}), OWNER_ANNOTATION: self.owner}
        else:
            self._shape_pod(result["spec"] if kind == "Pod" else result["spec"]["template"]["spec"])
        return result

    def _shape_pod(self, spec: Object) -> None:
        own = spec.get("nodeSelector") or {}
        if own.get(HOSTNAME) in self.hostnames:
            own = {**own, HOSTNAME: self.hostnames[own[HOSTNAME]]}
        if selector := {**self.node_selector, **own}:
            spec["nodeSelector"] = selector
        if self.tolerations:
            spec["tolerations"] = [*(spec.get("tolerations") or []), *map(dict, self.tolerations)]
        if self.pull_secret:
            spec["imagePullSecrets"] = [{"name": self.pull_secret}]
        # Nobody shall be given a token who does not need one.
        spec.setdefault("automountServiceAccountToken", False)
        if self.restricted:
            spec["securityContext"] = {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
            if self.image:
                container |= {"image": self.image, "imagePullPolicy": "IfNotPresent"}
            if self.restricted:
                container["securityContext"] = {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                }

    def tolerates(self, taint: Mapping[str, Any]) -> bool:
        """Whether Pods of these settings may run on a node with a taint."""
        return taint.get("effect") == "PreferNoSchedule" or any(
            _matches(one, taint) for one in self.tolerations
        )


USUAL: Final = Settings()
"""How objects are made on clusters that drakit starts: as they are."""


def _matches(toleration: Mapping[str, str], taint: Mapping[str, Any]) -> bool:
    return (
        toleration.get("effect", taint["effect"]) == taint["effect"]
        and toleration.get("key", taint["key"]) == taint["key"]
        and (toleration["operator"] == "Exists" or toleration.get("value", "") == (taint.get("value") or ""))
    )


def parse_toleration(text: str) -> dict[str, str]:
    """A toleration of `key=value:Effect`, `key:Effect` (any value), `key` (any value and effect), or `:` for all.

    Raises ClusterError.
    """
    rest, _, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    if effect and effect not in EFFECTS:
        raise ClusterError(f'--tolerations {text}: no effect "{effect}"; there are {", ".join(EFFECTS)}')
    if (key and not _is_key(key)) or (not key and text != ":") or (value and not _LABEL_PART.match(value)):
        raise ClusterError(
            f"--tolerations {text}: give key=value:Effect, key:Effect or key, as in gpu=yes:NoSchedule; "
            '":" tolerates everything'
        )
    result = {"key": key} if key else {}
    result |= {"operator": "Equal", "value": value} if equals else {"operator": "Exists"}
    return result | ({"effect": effect} if effect else {})


def parse_selector(text: str) -> dict[str, str]:
    """The labels of `key=value,key=value`. Raises ClusterError."""
    result: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not _is_key(key) or (value and not _LABEL_PART.match(value)):
            raise ClusterError(f"--node-selector {text}: give labels as key=value,key=value; {part} is none")
        result[key] = value
    return result


def parse_reference(text: str) -> tuple[str, str]:
    """Namespace and name of `NAMESPACE/NAME`. Raises ClusterError."""
    found = _REFERENCE.match(text)
    if not found:
        raise ClusterError(f"--image-pull-secret {text}: give NAMESPACE/NAME of a Secret in the cluster")
    return found[1], found[3]


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(_LABEL_PART.match(name)) and (not slash or bool(_PREFIX.match(prefix)))
